"""Metrics of pipelines: what their stream tasks committed, for Prometheus."""

import signal
import subprocess
import sys
from pathlib import Path

from ottla.cli.monitoring.pipelines import SERIES, families
from ottla.exposition import render
from ottla.testing import Broker
from tests.metrics.programs import get, needs_prometheus, promtool, samples
from tests.pipelines.local import counting, query, send

OTTLA = str(Path(sys.executable).with_name("ottla"))


@needs_prometheus
def test_rates_lag_and_state_of_stream_tasks_are_served():
    with Broker() as broker:
        broker.create_topic("in", partitions=2)
        broker.create_topic("out", partitions=2)
        with query(counting(broker)) as running:
            send(broker, ["a", "b", "a", "k9"])
            running.drain()
            send(broker, ["a"])
        command = [OTTLA, "pipelines", "metrics", "--listen", "0", "--bootstrap", broker.bootstrap]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                address = process.stderr.readline().split()[1]
                _, _, text = get(address, "/metrics")
                assert get(address, "/else")[0] == 404
            finally:
                process.send_signal(signal.SIGINT)
        assert process.returncode == 130
    checked = promtool("check", "metrics", text=text)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    found = samples(text)

    def total(name):
        return sum(value for series, value in found.items() if series.startswith(f"ottla_pipeline_{name}{{"))

    assert found["ottla_pipeline_up"] == 1
    assert total("records_total") == 4
    assert total("lag") == 1
    assert total("state_rows") == 3
    assert total("task_info") == 2
    assert {f"# TYPE {name}" in text for name in SERIES} == {True}


def test_a_cluster_that_is_away_is_told_as_such():
    assert samples("".join(render(families(None))))["ottla_pipeline_up"] == 0
