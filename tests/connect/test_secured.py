"""A worker whose every connection is TLS with a login, as a user that has the rights it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.connect.running.threads import ThreadRunner
from ottla.connect.worker.settings import WorkerSettings
from ottla.connect.worker.standalone import Standalone
from ottla.testing import Broker
from tests.connect.conftest import worker_settings
from tests.connect.waiting import wait_for


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_lines_go_from_file_to_file_over_sasl_ssl(lines: Path, tmp_path: Path, mechanism: str) -> None:
    with Broker(security="SASL_SSL", users={"connect": "secret"}, authorizer=True) as broker:
        broker.allow("connect", "ALL", topic="*")
        broker.allow("connect", "ALL", group="*")
        broker.allow("connect", "ALL", transactional_id="*")
        settings = worker_settings(broker) | broker.client_settings("connect", mechanism=mechanism)
        copied = tmp_path / "out.txt"
        connectors = {
            "source": {"connector.class": "FileStreamSource", "file": str(lines), "topic": "lines"},
            "sink": {"connector.class": "FileStreamSink", "file": str(copied), "topics": "lines"},
        }
        worker = Standalone(WorkerSettings.parse(settings, distributed=False), ThreadRunner())
        try:
            worker.start(
                {name: {"name": name, "tasks.max": "1", **each} for name, each in connectors.items()}
            )
            wait_for(lambda: copied.exists() and copied.read_text().count("\n") == 3)
        finally:
            worker.close()
    assert copied.read_text() == lines.read_text()
