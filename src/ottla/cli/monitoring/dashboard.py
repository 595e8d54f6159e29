"""A dashboard for Grafana, built from a list of panels."""

import json
from typing import Any, NamedTuple

WIDTH, HEIGHT = 8, 7  # of a panel; Grafana's grid has 24 columns
RATE = "$__rate_interval"


class Panel(NamedTuple):
    title: str
    unit: str
    expressions: dict[str, str]  # legend -> PromQL


ROWS: dict[str, tuple[Panel, ...]] = {
    "What is wrong": (
        Panel("Brokers", "none", {
            "answering": 'sum(up{job="ottla"})',
            "ready": "sum(ottla_ready)",
            "away": "max(kafka_controller_kafkacontroller_fencedbrokercount)",
        }),
        Panel("Partitions in trouble", "none", {
            "without a leader": "sum(kafka_controller_kafkacontroller_offlinepartitionscount)",
            "under min.insync.replicas": "sum(kafka_server_replicamanager_underminisrpartitioncount)",
            "under-replicated": "sum(kafka_server_replicamanager_underreplicatedpartitions)",
            "with a failed disk": "sum(kafka_server_replicamanager_offlinereplicacount)",
        }),
        Panel("Controllers and elections", "none", {
            "controllers": "sum(kafka_controller_kafkacontroller_activecontrollercount)",
            "unclean elections": "max(kafka_controller_controllerstats_uncleanleaderelections_total)",
            "failed log folders": "sum(kafka_log_logmanager_offlinelogdirectorycount)",
        }),
    ),
    "Traffic": (
        Panel("Messages in", "cps", {"{{topic}}": f'topk(10, sum by (topic) (rate(kafka_server_brokertopicmetrics_messagesin_total{{topic!=""}}[{RATE}])))'}),
        Panel("Bytes in", "Bps", {"{{topic}}": f'topk(10, sum by (topic) (rate(kafka_server_brokertopicmetrics_bytesin_total{{topic!=""}}[{RATE}])))'}),
        Panel("Bytes out", "Bps", {"{{topic}}": f'topk(10, sum by (topic) (rate(kafka_server_brokertopicmetrics_bytesout_total{{topic!=""}}[{RATE}])))'}),
        Panel("Replication", "Bps", {
            "in {{instance}}": f'rate(kafka_server_brokertopicmetrics_replicationbytesin_total{{topic=""}}[{RATE}])',
            "out {{instance}}": f'rate(kafka_server_brokertopicmetrics_replicationbytesout_total{{topic=""}}[{RATE}])',
        }),
        Panel("Refused", "cps", {
            "produce {{instance}}": f'rate(kafka_server_brokertopicmetrics_failedproducerequests_total{{topic=""}}[{RATE}])',
            "fetch {{instance}}": f'rate(kafka_server_brokertopicmetrics_failedfetchrequests_total{{topic=""}}[{RATE}])',
        }),
        Panel("Connections", "none", {"{{instance}} {{listener}}": "sum by (instance, listener) (kafka_server_socket_server_metrics_connection_count)"}),
    ),
    "Requests": (
        Panel("Requests", "reqps", {"{{api}}": f"topk(10, sum by (api) (rate(ottla_requests_total[{RATE}])))"}),
        Panel("Time of one in a hundred", "s", {
            "Produce": f'histogram_quantile(0.99, sum by (le) (rate(ottla_request_seconds_bucket{{api="Produce"}}[{RATE}])))',
            "Fetch": f'histogram_quantile(0.99, sum by (le) (rate(ottla_request_seconds_bucket{{api="Fetch"}}[{RATE}])))',
        }),
        Panel("Where the time of Produce goes", "s", {
            "{{phase}}": f'sum by (phase) (rate(ottla_request_phase_seconds_sum{{api="Produce"}}[{RATE}])) / on() group_left() sum(rate(ottla_request_seconds_count{{api="Produce"}}[{RATE}]))',
        }),
        Panel("Errors of whole requests", "cps", {"all": f"sum(rate(ottla_request_errors_total[{RATE}])) or vector(0)"}),
        Panel("Clients told to wait", "s", {"seconds a second": f"sum(rate(ottla_throttle_seconds_total[{RATE}])) or vector(0)"}),
        Panel("Logins", "cps", {
            "succeeded": f"sum(rate(ottla_logins_total[{RATE}]))",
            "failed": f"sum(rate(ottla_failed_logins_total[{RATE}]))",
            "denied by ACLs": f"sum(rate(ottla_denied_total[{RATE}]))",
        }),
    ),
    "Groups and transactions": (
        Panel("Lag", "none", {"{{consumergroup}} {{topic}}": "topk(10, sum by (consumergroup, topic) (kafka_consumergroup_lag_sum))"}),
        Panel("Lag by partition", "none", {"{{consumergroup}} {{topic}}-{{partition}}": "topk(10, max by (consumergroup, topic, partition) (kafka_consumergroup_lag))"}),
        Panel("Members", "none", {"{{consumergroup}}": "topk(10, sum by (consumergroup) (kafka_consumergroup_members))"}),
        Panel("Open transactions", "none", {"{{state}}": "sum by (state) (ottla_transactions_open)"}),
        Panel("Oldest open transaction", "s", {"{{instance}}": "ottla_transaction_age_max_seconds"}),
        Panel("ISR changes", "none", {
            "shrinks": f"sum(rate(kafka_server_replicamanager_isrshrinks_total[{RATE}]))",
            "expands": f"sum(rate(kafka_server_replicamanager_isrexpands_total[{RATE}]))",
        }),
    ),
    "Brokers": (
        Panel("Event loop: idle", "percentunit", {"{{instance}}": "kafka_network_socketserver_networkprocessoravgidle_percent"}),
        Panel("Event loop: late by", "s", {"{{instance}}": "ottla_loop_lag_max_seconds"}),
        Panel("Processor", "percentunit", {"{{instance}}": f'rate(process_cpu_seconds_total{{job="ottla"}}[{RATE}])'}),
        Panel("Memory", "bytes", {"{{instance}}": 'process_resident_memory_bytes{job="ottla"}'}),
        Panel("File handles", "percentunit", {"{{instance}}": 'process_open_fds{job="ottla"} / process_max_fds{job="ottla"}'}),
        Panel("Leaders", "none", {"{{instance}}": "kafka_server_replicamanager_leadercount"}),
        Panel("Log sizes", "bytes", {"{{topic}}": "topk(10, sum by (topic) (ottla_log_bytes))"}),
        Panel("Room on disks", "bytes", {"{{instance}} {{folder}}": "ottla_log_folder_free_bytes"}),
        Panel("Disk", "Bps", {
            "read {{instance}}": f"rate(kafka_server_kafkaserver_linux_disk_read_bytes[{RATE}])",
            "written {{instance}}": f"rate(kafka_server_kafkaserver_linux_disk_write_bytes[{RATE}])",
        }),
    ),
}  # fmt: skip


def dashboard(title: str = "Ottla") -> dict[str, Any]:
    """For Grafana's import; it asks which Prometheus is meant."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row, members in ROWS.items():
        panels.append(
            _at({"type": "row", "title": row, "collapsed": False, "panels": []}, len(panels), 0, y, 24, 1)
        )
        y += 1
        for position, panel in enumerate(members):
            x, line = position % 3 * WIDTH, position // 3
            panels.append(_at(_panel(panel), len(panels), x, y + line * HEIGHT, WIDTH, HEIGHT))
        y += -(-len(members) // 3) * HEIGHT
    return {
        "__inputs": [
            {"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource", "pluginId": "prometheus"}
        ],
        "title": title,
        "uid": "ottla-cluster",
        "tags": ["ottla", "kafka"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "panels": panels,
    }


def text(title: str = "Ottla") -> str:
    return json.dumps(dashboard(title), indent=2) + "\n"


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${DS_PROMETHEUS}"},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": expression, "legendFormat": legend}
            for at, (legend, expression) in enumerate(panel.expressions.items())
        ],
    }


def _at(panel: dict[str, Any], number: int, x: int, y: int, width: int, height: int) -> dict[str, Any]:
    return {"id": number + 1, **panel, "gridPos": {"x": x, "y": y, "w": width, "h": height}}
