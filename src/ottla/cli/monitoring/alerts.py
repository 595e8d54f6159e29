"""Alerting rules for Prometheus: what a person should look at, and why."""

import json
from typing import NamedTuple


class Alert(NamedTuple):
    """Fires while `expression` `condition` holds, for at least `hold`. The expression alone always has values."""

    name: str
    expression: str
    condition: str
    hold: str
    severity: str
    summary: str
    description: str


ALERTS = (
    Alert("OttlaBrokerDown", 'up{job="ottla"}', "== 0", "1m", "critical",
          "Broker {{ $labels.instance }} does not answer",
          "Its partitions are led by others if these have replicas in sync. Start it again; its log says why it ended."),
    Alert("OttlaBrokerNotReady", "ottla_ready", "== 0", "5m", "warning",
          "Broker {{ $labels.instance }} is not ready",
          "GET /health/ready on it tells the reasons."),
    Alert("OttlaBrokerFenced", "max(kafka_controller_kafkacontroller_fencedbrokercount)", "> 0", "1m", "warning",
          "{{ $value }} registered brokers are away",
          "The controller has no session with them: they are stopped, cut off, or still starting."),
    Alert("OttlaNoController", "sum(kafka_controller_kafkacontroller_activecontrollercount)", "!= 1", "1m", "critical",
          "The cluster has {{ $value }} controllers instead of one",
          "Without one no leader is elected and no topic is changed. Is the metadata log (ZooKeeper) reachable?"),
    Alert("OttlaPartitionsOffline", "sum(kafka_controller_kafkacontroller_offlinepartitionscount)", "> 0", "1m", "critical",
          "{{ $value }} partitions have no leader",
          "All their replicas in sync are away. Bring one of these brokers back."),
    Alert("OttlaUnderMinIsr", "sum by (instance) (kafka_server_replicamanager_underminisrpartitioncount)", "> 0", "1m", "critical",
          "{{ $value }} partitions led by {{ $labels.instance }} refuse acks=all",
          "Fewer replicas than min.insync.replicas are in sync: NOT_ENOUGH_REPLICAS."),
    Alert("OttlaUnderReplicated", "sum by (instance) (kafka_server_replicamanager_underreplicatedpartitions)", "> 0", "2m", "warning",
          "{{ $value }} partitions led by {{ $labels.instance }} have replicas out of sync",
          "A follower is away or too slow; ottla topics describe --under-replicated names the partitions."),
    Alert("OttlaIsrFlaps", "sum(rate(kafka_server_replicamanager_isrshrinks_total[10m]))", "> 0.1", "10m", "warning",
          "Replicas fall out of sync again and again",
          "Brokers, disks or the network between brokers are overloaded."),
    Alert("OttlaUncleanElection", "max(increase(kafka_controller_controllerstats_uncleanleaderelections_total[10m]))", "> 0", "0s", "critical",
          "A leader was elected that was not in sync",
          "Acknowledged records may be lost: unclean.leader.election.enable allowed it."),
    Alert("OttlaLogFolderOffline", "kafka_log_logmanager_offlinelogdirectorycount", "> 0", "0s", "critical",
          "A log folder of {{ $labels.instance }} failed",
          "Its partitions there are offline. Look at the disk, then restart the broker."),
    Alert("OttlaDiskFillsUp", "predict_linear(ottla_log_folder_free_bytes[1h], 6 * 3600)", "< 0", "10m", "warning",
          "The disk of {{ $labels.folder }} on {{ $labels.instance }} is full in six hours at this rate",
          "Shorten retention.ms, move partitions, or add room."),
    Alert("OttlaLoopLate", "ottla_loop_lag_max_seconds", "> 1", "5m", "warning",
          "The event loop of {{ $labels.instance }} was {{ $value }} s late",
          "Every request waited that long: the machine is overloaded, or the disk stalls."),
    Alert("OttlaBusy", "kafka_network_socketserver_networkprocessoravgidle_percent", "< 0.1", "10m", "warning",
          "Broker {{ $labels.instance }} has no time to spare",
          "One event loop does all: move leaders to other brokers."),
    Alert("OttlaProduceSlow", 'histogram_quantile(0.99, sum by (instance, le) (rate(ottla_request_seconds_bucket{api="Produce"}[5m])))', "> 1", "10m", "warning",
          "One in a hundred Produce requests to {{ $labels.instance }} takes {{ $value }} s",
          "ottla_request_phase_seconds tells where the time goes: remote is waiting for followers."),
    Alert("OttlaFileHandles", "process_open_fds{job=\"ottla\"} / process_max_fds{job=\"ottla\"}", "> 0.85", "10m", "warning",
          "Broker {{ $labels.instance }} uses most of its file handles",
          "Raise the limit (ulimit -n, LimitNOFILE=) and restart it."),
    Alert("OttlaConsumerLag", "sum by (consumergroup, topic) (min_over_time(kafka_consumergroup_lag_sum[10m]))", "> 10000", "5m", "warning",
          "Group {{ $labels.consumergroup }} is {{ $value }} records behind in {{ $labels.topic }}",
          "It was behind for ten minutes. ottla groups describe shows its members and partitions."),
    Alert("OttlaTransactionHangs", "max by (instance) (ottla_transaction_age_max_seconds)", "> 900", "5m", "warning",
          "A transaction is open for {{ $value }} s",
          "Readers of committed records wait for it. ottla transactions find-hanging, then abort."),
    Alert("OttlaFailedLogins", "sum by (instance) (rate(ottla_failed_logins_total[5m]))", "> 1", "5m", "warning",
          "More than one login a second fails at {{ $labels.instance }}",
          "The broker's log has their addresses."),
    Alert("OttlaProduceRefused", "sum by (instance) (rate(kafka_server_brokertopicmetrics_failedproducerequests_total{topic=\"\"}[5m]))", "> 10", "10m", "warning",
          "Broker {{ $labels.instance }} refuses {{ $value }} produce requests a second",
          "ottla_request_errors_total and the broker's log tell why."),
)  # fmt: skip


def rules(hold: str | None = None) -> str:
    """A rule file. `hold` takes the place of every alert's own."""
    lines = ["groups:", "  - name: ottla", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(f'{alert.expression} {alert.condition}')}",
            f"        for: {hold or alert.hold}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          description: {json.dumps(alert.description)}",
        ]
    return "\n".join(lines) + "\n"
