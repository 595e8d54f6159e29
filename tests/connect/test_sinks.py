"""The file sink: exactly once by the positions beside the file; and sinks as pipelines."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.client import Admin
from ottla.connect.running.threads import SinkRun, ThreadRunner
from ottla.connect.sinks.file import FileSink
from ottla.connect.store.table import ensure_compacted
from ottla.connect.tasks.spec import Spec
from ottla.connect.worker.standalone import Standalone
from ottla.testing import Broker
from tests.connect.waiting import wait_for

STRING = "org.apache.kafka.connect.storage.StringConverter"


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
