"""Without transactions: results are seen before positions are committed, nothing is lost, some may be counted again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import OttlaError
from ottla.pipelines import Pipeline
from ottla.pipelines.cluster_log import PlainLog
from ottla.pipelines.errors import BadTopology
from ottla.pipelines.topology import AT_LEAST_ONCE
from ottla.streams import App
from ottla.testing import Broker
from tests.pipelines.local import counting, drained, fragile, query, results, send
from tests.pipelines.test_stepping import batches, check

_KILLS = 2
_ROOT = Path(__file__).parents[2]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("in", partitions=2)
        running.create_topic("out", partitions=2)
        yield running


@pytest.fixture(params=["memory", "files"])
def pipeline(broker: Broker, request: pytest.FixtureRequest, tmp_path: Path) -> Pipeline:
    folder = None if request.param == "memory" else str(tmp_path / "state")
    return counting(broker, state_dir=folder, guarantee=AT_LEAST_ONCE)


def check_none_lost(broker: Broker, sent: list[str]) -> None:
    found = results(broker)
    lost = {key: count for key, count in Counter(sent).items() if found.get(key, [0])[-1] < count}
    assert not lost, f"of {lost} only { ({key: found.get(key) for key in lost}) } were counted"


def test_without_failures_counts_are_exact(broker: Broker, pipeline: Pipeline) -> None:
    with query(pipeline, workers=2) as running:
        for sent in batches(broker):
            running.drain()
            check(broker, sent)


def test_workers_that_die_lose_nothing(
    broker: Broker, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(5)
    deaths = fragile(monkeypatch, chance, PlainLog, share=0.08)
    with query(pipeline, workers=2) as running:
        for sent in batches(broker, 12):
            drained(running, chance)
            check_none_lost(broker, sent)
    assert len(deaths) > 10


def test_a_result_is_seen_although_its_step_never_commits(
    broker: Broker, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the choice buys, and what it costs: the step that is done again counts again."""
    plain = PlainLog.commit

    def dying(self: Any, offsets: Any, member: Any) -> None:
        monkeypatch.setattr(PlainLog, "commit", plain)
        raise OttlaError("died before")

    with query(pipeline) as running:
        send(broker, ["a"])
        running.drain()
        send(broker, ["a", "a"])
        monkeypatch.setattr(PlainLog, "commit", dying)
        with pytest.raises(OttlaError):
            running.drain()
        assert results(broker) == {"a": [1, 3]}
        running.replace_workers()
        running.drain()
        assert results(broker) == {"a": [1, 3, 5]}


def test_planted_positions_before_results(
    broker: Broker, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of a step is the guarantee: with positions first, a death loses what they are positions of."""
    write, flush, commit = PlainLog.write, PlainLog.flush, PlainLog.commit
    chance, waiting = random.Random(2), list[tuple[str, Any]]()

    def early(self: Any, offsets: Any, member: Any) -> None:
        commit(self, offsets, member)
        rows = waiting.copy()
        waiting.clear()
        if chance.random() < 0.5:
            raise OttlaError("died before")
        for topic, batch in rows:
            write(self, topic, batch)
        flush(self)

    monkeypatch.setattr(PlainLog, "write", lambda self, topic, rows: waiting.append((topic, rows)))
    monkeypatch.setattr(PlainLog, "flush", lambda self: {})
    monkeypatch.setattr(PlainLog, "commit", early)
    with query(pipeline) as running, pytest.raises(AssertionError, match="were counted"):
        for sent in batches(broker, 12):
            drained(running, chance)
            check_none_lost(broker, sent)


def test_a_second_driver_shuts_the_first_one_out(broker: Broker, pipeline: Pipeline) -> None:
    with query(pipeline) as first:
        send(broker, ["a"])
        works, member = first.driver.plan(), first.driver.member()
        with query(pipeline) as second:
            with pytest.raises(OttlaError, match=r"(?i)fenced"):
                first.workers[0].run(works, member, retried=False)
            second.drain()
            check_none_lost(broker, ["a"])


def test_the_guarantee_may_change_between_runs(broker: Broker, tmp_path: Path) -> None:
    sent: list[str] = []
    for guarantee in ("exactly_once", "at_least_once", "exactly_once"):
        with query(counting(broker, state_dir=str(tmp_path), guarantee=guarantee)) as running:
            send(broker, ["a", "b", "a"])
            sent += ["a", "b", "a"]
            running.drain()
            check(broker, sent)


def test_another_guarantee_is_refused() -> None:
    app = App("words", guarantee="at_most_once")
    app.stream("in").to("out")
    with pytest.raises(
        BadTopology, match="guarantee='at_most_once'; it is 'exactly_once' or 'at_least_once'"
    ):
        app.pipeline()


def test_a_killed_process_loses_nothing(broker: Broker, tmp_path: Path) -> None:
    chance, sent = random.Random(3), list[str]()
    for _ in range(_KILLS):
        process = started(broker, tmp_path)
        before = len(broker.records("out"))
        while len(broker.records("out")) - before < chance.randint(5, 60):
            assert process.poll() is None, "the process ended by itself"
            keys = [f"k{chance.randint(0, 9)}" for _ in range(20)]
            send(broker, keys)
            sent += keys
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with query(counting(broker, state_dir=str(tmp_path), guarantee=AT_LEAST_ONCE)) as running:
        running.drain()
    check_none_lost(broker, sent)


def started(broker: Broker, folder: Path) -> subprocess.Popen[bytes]:
    program = f"""
from tests.pipelines.local import counting, query
with query(counting({broker.bootstrap!r}, state_dir={str(folder)!r}, guarantee={AT_LEAST_ONCE!r})) as running:
    while True:
        running.step()
"""
    return subprocess.Popen([sys.executable, "-c", program], cwd=_ROOT)
