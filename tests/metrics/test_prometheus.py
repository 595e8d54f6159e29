"""A real Prometheus scrapes three brokers with the files that `ottla generate` writes."""

import contextlib
import io
import json

import pytest

from ottla.cli.main import main
from ottla.cli.monitoring.alerts import ALERTS
from ottla.client import Consumer, Producer
from ottla.errors import OttlaError
from ottla.testing import Cluster
from tests.metrics.programs import Prometheus, needs_prometheus, promtool

pytestmark = needs_prometheus

# What Strimzi's dashboards and alerts ask for, and kafka_exporter's.
TOPIC_METRICS = (
    "messagesin", "bytesin", "bytesout", "totalproducerequests", "totalfetchrequests", "failedproducerequests",
    "failedfetchrequests",
)  # fmt: skip
STRIMZI = (
    *(f'kafka_server_brokertopicmetrics_{name}_total{{topic!=""}}' for name in TOPIC_METRICS),
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_server_replicamanager_underminisrpartitioncount",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    'kafka_cluster_partition_atminisr{topic="orders",partition="0"}',
    "kafka_cluster_partition_underminisr",
    'kafka_log_log_size{topic="orders",partition="0"}',
    "kafka_log_logmanager_offlinelogdirectorycount",
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    'kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"}',
    "kafka_server_kafkaserver_linux_disk_read_bytes",
    "kafka_server_kafkaserver_linux_disk_write_bytes",
    "process_open_fds",
)
REQUEST_TIMES = (
    *(
        f'kafka_network_requestmetrics_{part}timems{{request="Produce",quantile="0.99"}}'
        for part in ("total", "requestqueue", "local", "remote", "responsequeue", "responsesend")
    ),
    'kafka_network_requestmetrics_totaltimems_count{request="Fetch"}',
    'kafka_network_requestmetrics_requests_total{request="Metadata"}',
)
KAFKA_EXPORTER = (
    'kafka_consumergroup_lag{consumergroup="readers",topic="orders",partition="0"}',
    'kafka_consumergroup_current_offset{consumergroup="readers",topic="orders",partition="0"}',
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_oldest_offset",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_leader_is_preferred",
    "kafka_topic_partition_under_replicated_partition",
    'kafka_topic_partitions{topic="orders"}',
)


def generated(*arguments):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["generate", *arguments]) == 0
    return out.getvalue()


def dashboard_expressions():
    panels = json.loads(generated("grafana-dashboard"))["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Three brokers with some load, and a Prometheus that has scraped them."""
    folder = tmp_path_factory.mktemp("prometheus")
    rules = folder / "alerts.yml"
    rules.write_text(generated("alerts", "--for", "1s"))
    with Cluster(brokers=3, min_insync_replicas=2) as cluster:
        cluster.create_topic("orders", 3)
        configuration = generated(
            "prometheus-config", *(broker.http for broker in cluster),
            "--interval", "1s", "--partitions-interval", "1s", "--alerts", str(rules),
        )  # fmt: skip
        with Prometheus(folder, configuration) as prometheus:
            client = {"bootstrap.servers": cluster.bootstrap}
            with (
                Producer(client) as producer,
                Consumer({**client, "group.id": "readers", "auto.offset.reset": "earliest"}) as consumer,
            ):
                consumer.subscribe(["orders"])

                def loaded():
                    """Rates need samples from before the last scrape too, and some in between."""
                    for number in range(100):
                        producer.send("orders", b"v" * 100, key=str(number).encode())
                    producer.flush()
                    consumer.poll(0.2)
                    with contextlib.suppress(OttlaError):  # while its group still settles
                        consumer.commit()
                    return prometheus.value('rate(ottla_request_seconds_count{api="Fetch"}[5s]) > 0')

                prometheus.until(loaded, "rates")
                prometheus.until(
                    lambda: loaded() and prometheus.value("count(kafka_consumergroup_lag) >= 3"), "lag"
                )
                yield cluster, prometheus


def test_every_series_of_strimzis_dashboards_and_of_kafka_exporter_is_there(watched):
    _, prometheus = watched
    assert [name for name in STRIMZI + REQUEST_TIMES + KAFKA_EXPORTER if not prometheus.value(name)] == []


def test_every_expression_of_the_dashboard_returns_data(watched):
    _, prometheus = watched
    expressions = [each.replace("$__rate_interval", "10s") for each in dashboard_expressions()]
    assert len(expressions) > 40
    assert [each for each in expressions if not prometheus.value(each)] == []


def test_every_expression_of_the_alerts_returns_data(watched):
    _, prometheus = watched
    expressions = [
        alert.expression.replace("[5m]", "[10s]").replace("[10m]", "[10s]").replace("[1h]", "[10s]")
        for alert in ALERTS
    ]
    assert [each for each in expressions if not prometheus.value(each)] == []


def test_the_sum_over_topics_is_what_is_told_without_a_topic(watched):
    _, prometheus = watched
    together = 'sum(kafka_server_brokertopicmetrics_messagesin_total{topic!=""})'
    total = 'sum(kafka_server_brokertopicmetrics_messagesin_total{topic=""})'
    # The same scrape: nothing was counted in between.
    assert float(prometheus.value(f"{together} / {total}")[0]["value"][1]) == pytest.approx(1)


def test_the_rules_are_what_promtool_wants(tmp_path):
    path = tmp_path / "alerts.yml"
    path.write_text(generated("alerts"))
    checked = promtool("check", "rules", str(path))
    assert checked.returncode == 0, checked.stderr
    assert f"{len(ALERTS)} rules found" in checked.stdout


def test_a_killed_broker_fires_the_alerts(watched):
    cluster, prometheus = watched
    victim = next(broker for broker in cluster if broker is not cluster.controller)
    instance = victim.http
    cluster.kill(victim.broker_id)

    def fired():
        alerts = prometheus.ask("alerts")["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    wanted = {"OttlaBrokerDown", "OttlaUnderReplicated", "OttlaBrokerFenced"}
    prometheus.until(lambda: wanted <= fired(), f"alerts {wanted}")
    down = prometheus.value('up{job="ottla"} == 0')
    assert [each["metric"]["instance"] for each in down] == [instance]
