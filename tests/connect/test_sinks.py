"""The file sink: exactly once by the positions beside the file; and sinks as pipelines."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.client import Admin
from ottla.client.values import TopicPartition
from ottla.connect.errors import ConnectError
from ottla.connect.rest.bodies import offset_changes
from ottla.connect.running.threads import SinkRun, ThreadRunner
from ottla.connect.sinks.file import FileSink
from ottla.connect.store.table import ensure_compacted
from ottla.connect.tasks.sink import SharedSink
from ottla.connect.tasks.spec import Spec
from ottla.connect.worker.standalone import Standalone
from ottla.testing import Broker
from tests.connect.waiting import wait_for

STRING = "org.apache.kafka.connect.storage.StringConverter"
IN = TopicPartition("in", 0)


class Death(BaseException):
    """What a kill looks like from the inside."""


@pytest.fixture
def spec_of(broker: Broker, tmp_path: Path) -> Callable[..., Spec]:
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        ensure_compacted(admin, "connect-status", 1, 1)

    def make(**config: str) -> Spec:
        given = {
            "connector.class": "FileStreamSink",
            "file": str(tmp_path / "out.txt"),
            "value.converter": STRING,
        }
        return Spec("sink", {**given, **config}, {"bootstrap.servers": broker.bootstrap})

    return make


def run(spec: Spec) -> SinkRun:
    started = ThreadRunner().start(spec, threading.Event())
    assert isinstance(started, SinkRun)
    return started


def drain(spec: Spec) -> None:
    running = run(spec)
    try:
        while running.step():
            pass
    finally:
        running.stop()


@pytest.mark.parametrize("seed", [0, 2])
def test_lines_come_exactly_once_though_steps_die_anywhere(
    broker: Broker, spec_of: Callable[..., Spec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    broker.create_topic("in", partitions=2)
    spec = spec_of(topics="in")
    write, commit = FileSink.write, FileSink.commit

    def write_or_die(self: Any, batch: Any) -> None:
        write(self, batch)
        if chance.random() < 0.2:
            self._file.flush()
            raise Death("the file is longer than its positions tell")

    def commit_or_die(self: Any, positions: Any) -> None:
        commit(self, positions)
        if chance.random() < 0.3:
            raise Death("the group does not know yet")

    monkeypatch.setattr(FileSink, "write", write_or_die)
    monkeypatch.setattr(FileSink, "commit", commit_or_die)
    sent = []
    for number in range(25):
        sent.append(f"line {number}")
        broker.send("in", sent[-1], partition=chance.randint(0, 1))
        try:
            drain(spec)
        except Death:
            continue
    monkeypatch.undo()
    drain(spec)
    assert sorted((tmp_path / "out.txt").read_text().splitlines()) == sorted(sent)


def test_a_file_that_was_restored_from_a_backup_is_filled_up_again(
    broker: Broker, spec_of: Callable[..., Spec], tmp_path: Path
) -> None:
    """The other side is behind the group's offsets: they go back."""
    broker.create_topic("in", partitions=1)
    spec, out = spec_of(topics="in"), tmp_path / "out.txt"
    broker.send("in", "one")
    drain(spec)
    beside = tmp_path / ".out.txt.positions"
    backup = out.read_bytes(), beside.read_bytes()
    broker.send("in", "two")
    drain(spec)
    assert out.read_text() == "one\ntwo\n"
    out.write_bytes(backup[0])
    beside.write_bytes(backup[1])
    broker.send("in", "three")
    drain(spec)
    assert out.read_text() == "one\ntwo\nthree\n"


def test_a_topic_that_was_created_again_is_refused_until_the_position_is_removed(
    broker: Broker, spec_of: Callable[..., Spec], standalone: Callable[..., Standalone], tmp_path: Path
) -> None:
    """Records of the new topic below the old topic's position were left out silently."""
    broker.create_topic("in", partitions=1)
    spec, out = spec_of(topics="in"), tmp_path / "out.txt"
    for value in ("a", "b", "c"):
        broker.send("in", value)
    drain(spec)
    broker.delete_topic("in")
    broker.create_topic("in", partitions=1)
    broker.send("in", "first of the new topic")
    with pytest.raises(
        ConnectError, match=r"the sink has in-0 up to offset 3, and the topic ends at 1: .*created again"
    ) as refused:
        drain(spec)
    removal = '{"offsets": [{"partition": {"kafka_topic": "in", "kafka_partition": 0}, "offset": null}]}'
    assert f"PATCH /connectors/sink/offsets with {removal}" in str(refused.value)
    herder = standalone({"sink": {"name": "sink", **spec.config}}).herder
    herder.stop("sink")
    herder.alter_offsets("sink", offset_changes(removal.encode()))
    herder.resume("sink")
    wait_for(lambda: out.read_text() == "a\nb\nc\nfirst of the new topic\n")


JSON = "org.apache.kafka.connect.json.JsonConverter"
REPLACED = r"the sink's position of in-0 .* is of another topic of that name: .*created again"


def a_row(number: int) -> str:
    schema = {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}
    return json.dumps({"schema": schema, "payload": {"id": number}})


@pytest.fixture(params=["file", "sql", "files", "delta", "iceberg"])
def exact(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The settings of a sink that keeps its positions itself."""
    match request.param:
        case "file":
            return {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt")}
        case "sql":
            url = f"jdbc:sqlite:{tmp_path}/rows.db"
            return {"connector.class": "sql-sink", "connection.url": url, "auto.create": "true"}
        case "files":
            return {"connector.class": "files", "path": str(tmp_path / "lake")}
        case "delta":
            pytest.importorskip("deltalake")
            return {"connector.class": "delta", "table.uri.format": f"{tmp_path}/${{topic}}"}
        case _:
            pytest.importorskip("pyiceberg")
            catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"}
            named = {f"catalog.{name}": value for name, value in catalog.items()}
            return {"connector.class": "iceberg", **named}


def test_a_topic_that_was_created_again_is_refused_though_it_has_grown_past_the_position(
    broker: Broker, spec_of: Callable[..., Spec], exact: dict[str, str]
) -> None:
    """Its first records were left out silently, up to the position of the deleted topic."""
    broker.create_topic("in", partitions=1)
    spec = spec_of(**{"topics": "in", **exact, "value.converter": JSON})
    for number in range(3):
        broker.send("in", a_row(number))
    drain(spec)
    drain(spec)  # of the same topic, it begins behind what is there
    broker.delete_topic("in")
    broker.create_topic("in", partitions=1)
    for number in range(5):
        broker.send("in", a_row(number))
    with pytest.raises(ConnectError, match=REPLACED) as refused:
        drain(spec)
    assert "PATCH /connectors/sink/offsets" in str(refused.value)


def test_a_position_from_before_topic_ids_were_stored_counts_and_gets_one(
    broker: Broker, spec_of: Callable[..., Spec], exact: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("in", partitions=1)
    spec = spec_of(**{"topics": "in", **exact, "value.converter": JSON})
    broker.send("in", a_row(0))
    with monkeypatch.context() as before:
        before.setattr(SharedSink, "know_topic", lambda *_: None)
        drain(spec)
    broker.send("in", a_row(1))
    drain(spec)
    sink = spec.sink()
    assert sink.positions([IN]) == {IN: 2}
    sink.rollback()
    sink.close()
    broker.delete_topic("in")
    broker.create_topic("in", partitions=1)
    for number in range(5):
        broker.send("in", a_row(number))
    with pytest.raises(ConnectError, match=REPLACED):
        drain(spec)


@pytest.mark.parametrize("forgotten", [[IN], None])
@pytest.mark.parametrize("exact", ["file", "sql"], indirect=True)
def test_a_position_that_was_removed_takes_its_topic_id_along(
    broker: Broker,
    spec_of: Callable[..., Spec],
    exact: dict[str, str],
    forgotten: list[TopicPartition] | None,
) -> None:
    broker.create_topic("in", partitions=1)
    spec = spec_of(**{"topics": "in", **exact, "value.converter": JSON})
    for number in range(3):
        broker.send("in", a_row(number))
    drain(spec)
    broker.delete_topic("in")
    broker.create_topic("in", partitions=1)
    for number in range(5):
        broker.send("in", a_row(number))
    sink = spec.sink()
    sink.forget(forgotten)
    sink.close()
    drain(spec)
    drain(spec)
    sink = spec.sink()
    assert sink.positions([IN]) == {IN: 5}
    sink.rollback()
    sink.close()


def test_a_regular_expression_takes_up_topics_that_come_later(
    broker: Broker, standalone: Callable[..., Standalone], tmp_path: Path
) -> None:
    out = tmp_path / "out.txt"
    config = {"connector.class": "FileStreamSink", "topics.regex": "ward-.*", "value.converter": STRING}
    worker = standalone({"sink": {"name": "sink", **config, "file": str(out)}})
    broker.create_topic("ward-1", partitions=1)
    broker.send("ward-1", "one")
    wait_for(lambda: out.exists() and out.read_text() == "one\n")
    broker.create_topic("ward-2", partitions=1)
    broker.send("ward-2", "two")
    wait_for(lambda: out.read_text() == "one\ntwo\n")
    wait_for(lambda: worker.herder.topics("sink") == {"sink": {"topics": ["ward-1", "ward-2"]}})


def test_offsets_of_a_sink_can_be_set_back(
    broker: Broker, standalone: Callable[..., Standalone], tmp_path: Path
) -> None:
    out = tmp_path / "out.txt"
    config = {
        "connector.class": "FileStreamSink",
        "topics": "in",
        "value.converter": STRING,
        "file": str(out),
    }
    broker.create_topic("in", partitions=1)
    for value in ("a", "b", "c"):
        broker.send("in", value)
    herder = standalone({"sink": {"name": "sink", **config}}).herder
    wait_for(lambda: out.exists() and out.read_text() == "a\nb\nc\n")
    herder.stop("sink")
    herder.alter_offsets("sink", [({"kafka_topic": "in", "kafka_partition": 0}, {"kafka_offset": 1})])
    herder.resume("sink")
    wait_for(lambda: out.read_text() == "a\nb\nc\nb\nc\n")
