"""Several workers: one is active, the others stand by; and Java's worker before and after ours on the same topics."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.running.threads import ThreadRunner
from ottla.connect.worker.distributed import Distributed
from ottla.connect.worker.settings import WorkerSettings
from ottla.testing import Broker
from tests.connect.conftest import worker_settings
from tests.connect.rest_script import java_worker
from tests.connect.waiting import wait_for
from tests.oracle.cluster import why_not

STRING = "org.apache.kafka.connect.storage.StringConverter"


@contextmanager
def worker(bootstrap: str, **more: str) -> Iterator[Distributed]:
    """Runs in a thread, as `ottla connect --distributed` does in a process."""
    settings = {
        "bootstrap.servers": bootstrap,
        "listeners": "http://127.0.0.1:0",
        "session.timeout.ms": "6000",
        **more,
    }
    running = Distributed(WorkerSettings.parse(settings, distributed=True), ThreadRunner())
    stopping = threading.Event()
    running.start()
    thread = threading.Thread(target=running.run, args=(stopping,), daemon=True)
    thread.start()
    try:
        yield running
    finally:
        stopping.set()
        thread.join(30)
        running.close()


def ask(url: str, method: str = "GET", body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as response:
        text = response.read()
        return json.loads(text) if text else None


def connectors(folder: Path) -> dict[str, dict[str, str]]:
    return {
        "source": {"connector.class": "FileStreamSource", "file": f"{folder}/in.txt", "topic": "lines"},
        "sink": {"connector.class": "FileStreamSink", "file": f"{folder}/out.txt", "topics": "lines"},
    }


def append(folder: Path, *lines: str) -> None:
    with (folder / "in.txt").open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def out(folder: Path) -> list[str]:
    file = folder / "out.txt"
    return file.read_text().splitlines() if file.exists() else []


def test_a_worker_that_stands_by_forwards_and_takes_over(broker: Broker, tmp_path: Path) -> None:
    more = {name: value for name, value in worker_settings(broker).items() if "partitions" in name}
    append(tmp_path, "one", "two")
    with worker(broker.bootstrap, **more) as second_life:
        with worker(broker.bootstrap, **more) as first:
            active = wait_for(lambda: next((each for each in (first, second_life) if each.is_active), None))
            other = second_life if active is first else first
            for name, config in connectors(tmp_path).items():
                told = wait_for(lambda: _created(other.url, name, config))  # noqa: B023
                assert told["name"] == name
            wait_for(lambda: out(tmp_path) == ["one", "two"])
            assert sorted(ask(f"{other.url}/connectors")) == ["sink", "source"]
        wait_for(lambda: second_life.is_active)
        append(tmp_path, "three")
        wait_for(lambda: len(out(tmp_path)) >= 3)
        assert out(tmp_path) == ["one", "two", "three"]
        keys = {record.key.decode() for record in broker.records("connect-configs")}
    last = {record.key.decode(): record.value for record in broker.records("connect-status")}
    assert json.loads(last["status-task-source-0"])["state"] == "UNASSIGNED"
    assert {"connector-source", "task-source-0", "commit-source", "connector-sink"} <= keys


def _created(url: str, name: str, config: dict[str, str]) -> Any:
    """Members are still being assigned in the first moments: 409, as Java says then."""
    try:
        return ask(f"{url}/connectors", "POST", {"name": name, "config": config})
    except urllib.error.HTTPError as error:
        assert error.code == 409, error.read()
        return None


def test_what_was_active_and_does_not_know_that_it_is_no_longer_cannot_write(broker: Broker) -> None:
    from ottla.connect.worker.distributed import _Active
    from ottla.connect.worker.standalone import ensure_topics

    settings = WorkerSettings.parse(worker_settings(broker), distributed=True)
    ensure_topics(settings, ("config", "offset", "status"))
    zombie = _Active(settings, ThreadRunner(), "a:1")
    successor = _Active(settings, ThreadRunner(), "b:2")
    config = {"connector.class": "FileStreamSource", "topic": "t", "file": "/nowhere/at/all", "name": "x"}
    successor.herder.create("x", dict(config))
    with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
        zombie.herder.create("y", {**config, "name": "y"})
    written = {record.key for record in broker.records("connect-configs")}
    assert b"connector-x" in written and b"connector-y" not in written
    for active in (zombie, successor):
        active.close()


def test_a_connector_of_a_class_that_is_not_here_is_listed_and_the_others_run(
    broker: Broker, tmp_path: Path
) -> None:
    """As after taking over from a Java worker with connectors from jars."""
    from ottla.connect.store import configs
    from ottla.connect.worker.distributed import _Active
    from ottla.connect.worker.standalone import ensure_topics

    settings = WorkerSettings.parse(worker_settings(broker), distributed=True)
    ensure_topics(settings, ("config", "offset", "status"))
    append(tmp_path, "one")
    foreign = {"connector.class": "com.example.Jar", "name": "jar"}
    for name, config in (("jar", foreign), ("paused", foreign), ("source", connectors(tmp_path)["source"])):
        key, value = configs.connector_record(name, dict(config))
        broker.send("connect-configs", value, key=key)
    key, value = configs.target_record("paused", configs.PAUSED)
    broker.send("connect-configs", value, key=key)
    active = _Active(settings, ThreadRunner(), "a:1")
    try:
        assert active.herder.connectors() == ["jar", "paused", "source"]
        assert active.herder.info("jar")["type"] == "unknown"
        status = active.herder.status("jar")
        assert status["connector"]["state"] == "FAILED" and "com.example.Jar" in status["connector"]["trace"]
        wait_for(lambda: "lines" in broker.topics() and list(broker.records("lines")))
        active.herder.delete("jar")
        assert active.herder.connectors() == ["paused", "source"]
    finally:
        active.close()


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
def test_java_and_ours_take_connectors_over_from_each_other(tmp_path: Path) -> None:
    """Java's worker writes configs, offsets and statuses; ours goes on with them; then Java's goes on with ours."""
    from tests.oracle.ottla import Ottla
    from tests.oracle.ports import free_ports

    append(tmp_path, "one", "two")
    with Ottla(options=["--memory"]) as broker:
        port = free_ports(1)[0]
        with java_worker(broker.bootstrap, port, tmp_path) as java:
            for name, config in connectors(tmp_path).items():
                ask(f"{java}/connectors", "POST", {"name": name, "config": config})
            wait_for(lambda: out(tmp_path) == ["one", "two"])
            wait_for(lambda: _position(java) == 8)
            wait_for(lambda: ask(f"{java}/connectors/sink/topics") == {"sink": {"topics": ["lines"]}})
        with worker(broker.bootstrap) as ours:
            wait_for(lambda: ours.is_active)
            assert sorted(ask(f"{ours.url}/connectors")) == ["sink", "source"]
            assert ask(f"{ours.url}/connectors/source/config")["file"] == f"{tmp_path}/in.txt"
            append(tmp_path, "three")
            wait_for(lambda: len(out(tmp_path)) >= 3)
            assert out(tmp_path) == ["one", "two", "three"]
            ask(f"{ours.url}/connectors/sink/pause", "PUT")
            wait_for(lambda: _position(ours.url) == 14)
        with java_worker(broker.bootstrap, port, tmp_path) as java:
            wait_for(lambda: sorted(ask(f"{java}/connectors")) == ["sink", "source"])
            wait_for(lambda: ask(f"{java}/connectors/sink/status")["connector"]["state"] == "PAUSED")
            assert _position(java) == 14
            append(tmp_path, "four")
            ask(f"{java}/connectors/sink/resume", "PUT")
            wait_for(lambda: len(out(tmp_path)) >= 4)
            assert out(tmp_path) == ["one", "two", "three", "four"]


def _position(url: str) -> Any:
    told = ask(f"{url}/connectors/source/offsets")["offsets"]
    return told[0]["offset"]["position"] if told else None
