"""A client of Kafka Connect's REST API from PyPI, as it is, against a worker of ours."""

from __future__ import annotations

import pytest
from requests.exceptions import HTTPError

from tests.connect.waiting import wait_for

kafka_connect = pytest.importorskip("kafka_connect", reason="needs kafka-connect-py")


def test_kafka_connect_py_drives_a_worker(standalone, lines):
    worker = standalone()
    client = kafka_connect.KafkaConnect(url=f"http://127.0.0.1:{worker.port}")
    assert client.get_cluster_info()["kafka_cluster_id"]
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(lines), "topic": "lines"}
    assert client.create_connector({"name": "lines", "config": config})["name"] == "lines"

    def state() -> str:
        return client.get_connector_status("lines")["connector"]["state"]

    wait_for(lambda: state() == "RUNNING" and client.get_connector_status("lines")["tasks"])
    assert client.list_connectors() == ["lines"] or list(client.list_connectors()) == ["lines"]
    assert client.get_connector_config("lines")["file"] == str(lines)
    assert client.get_connector("lines")["type"] == "source"
    client.pause_connector("lines")
    wait_for(lambda: state() == "PAUSED")
    assert list(client.list_connectors(state="PAUSED")) == ["lines"]
    client.resume_connector("lines")
    wait_for(lambda: state() == "RUNNING")
    client.restart_connector("lines", include_tasks=True, only_failed=False)
    wait_for(lambda: state() == "RUNNING")
    assert client.update_connector("lines", {**config, "tasks.max": "2"})["config"]["tasks.max"] == "2"
    client.stop_connector("lines")
    wait_for(lambda: state() == "STOPPED")
    client.delete_connector("lines")
    assert not list(client.list_connectors())
    with pytest.raises(HTTPError, match="404"):
        client.get_connector("lines")
