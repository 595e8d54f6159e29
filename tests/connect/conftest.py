"""A broker in this process, and workers whose connectors run in threads of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs the extra connect")
pytest.importorskip("starlette", reason="needs the extra connect")

from ottla.connect.running.threads import ThreadRunner
from ottla.connect.worker.settings import WorkerSettings
from ottla.connect.worker.standalone import Standalone
from ottla.testing import Broker
from tests.connect.servers import mariadb, postgres

__all__ = ["mariadb", "postgres"]  # fixtures


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def worker_settings(broker: Broker, **more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "listeners": "http://127.0.0.1:0",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        **more,
    }


@pytest.fixture
def standalone(broker: Broker) -> Iterator[Callable[..., Standalone]]:
    """Starts workers; they stop with the test."""
    started: list[Standalone] = []

    def start(connectors: dict[str, dict[str, str]] | None = None, **more: str) -> Standalone:
        settings = WorkerSettings.parse(worker_settings(broker, **more), distributed=False)
        worker = Standalone(settings, ThreadRunner())
        started.append(worker)
        worker.start(connectors or {})
        return worker

    yield start
    for worker in started:
        worker.close()


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "in.txt"
    file.write_text("one\ntwo\nthree\n")
    return file
