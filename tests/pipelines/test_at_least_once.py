"""Without transactions: results are seen before positions are committed, nothing is lost, some may be counted again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin import Admin
from ottla.errors import OttlaError
from ottla.pipelines import Pipeline
from ottla.pipelines.cluster_log import PlainLog
from ottla.pipelines.errors import BadTopology
from ottla.pipelines.stepping import StreamTask
from ottla.pipelines.topology import AT_LEAST_ONCE
from ottla.pipelines.worker import Worker
from ottla.streams import App
from ottla.testing import Broker
from tests.pipelines.local import Count, counting, drained, fragile, query, results, send
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


@pytest.mark.parametrize("driver", ["same", "other"])
def test_what_a_worker_that_was_thought_dead_can_do(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    """Not a promise but its limit, as docs/pipelines.md has it: the row that it writes late is the last of its key."""
    pipeline, plain = counting(broker, guarantee=AT_LEAST_ONCE), StreamTask._write
    with query(pipeline) as first, ExitStack() as others:

        def late(self: StreamTask, *arguments: Any) -> Any:
            """The step hangs before it writes. Meanwhile another worker does it, and one more."""
            monkeypatch.setattr(StreamTask, "_write", plain)
            first.workers = [Worker(pipeline)]
            running = first if driver == "same" else others.enter_context(query(pipeline))
            running.drain()
            send(broker, ["a", "a"])
            running.drain()
            return plain(self, *arguments)

        send(broker, ["a"])
        hung, works, member = first.workers[0], first.driver.plan(), first.driver.member()
        monkeypatch.setattr(StreamTask, "_write", late)
        if driver == "same":
            hung.run(works, member, retried=False)
        else:
            with pytest.raises(OttlaError, match=r"(?i)fenced"):
                hung.run(works, member, retried=False)
        hung.close()
    assert results(broker) == {"a": [1, 3, 1]}  # readers see the older result last
    with query(pipeline) as running:
        send(broker, ["a"])
        running.drain()
    # Its position went back with the count, or was refused: then two are missing.
    assert results(broker)["a"][-1] == (4 if driver == "same" else 2)


def test_the_guarantee_may_change_between_runs(broker: Broker, tmp_path: Path) -> None:
    sent: list[str] = []
    for guarantee in ("exactly_once", "at_least_once", "exactly_once"):
        with query(counting(broker, state_dir=str(tmp_path), guarantee=guarantee)) as running:
            send(broker, ["a", "b", "a"])
            sent += ["a", "b", "a"]
            running.drain()
            check(broker, sent)


@pytest.mark.parametrize("committed_with", ["at_least_once", "exactly_once"])
def test_rows_of_a_failed_step_that_replaced_committed_ones_are_restored_with_exactly_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, committed_with: str
) -> None:
    """Compaction removes the committed row, so the one that the failed step wrote is all there is."""
    with query(counting(broker, guarantee=committed_with)) as running:
        short_segments(broker)
        send(broker, ["a"])
        running.drain()
        assert results(broker) == {"a": [1]}
    send(broker, ["a"])
    for _ in range(2):  # the second row closes the segment of the first
        broker.advance(seconds=5)
        failed_step(broker, monkeypatch)
    broker.advance(minutes=10)
    rows = [record.value for record in broker.records(CHANGELOG)]
    assert one_row(1) not in rows, "the changelog was not compacted"
    with query(counting(broker, guarantee="exactly_once")) as running:
        running.drain()
        check_none_lost(broker, ["a", "a"])


@pytest.mark.parametrize("host", ["warm", "new"])
def test_all_hosts_restore_the_same_after_a_change_to_exactly_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str
) -> None:
    warm = str(tmp_path / "warm")
    with query(counting(broker, state_dir=warm, guarantee="exactly_once")) as running:
        send(broker, ["a"])
        running.drain()
    send(broker, ["a"])
    failed_step(broker, monkeypatch, state_dir=str(tmp_path / "other"))
    folder = warm if host == "warm" else str(tmp_path / "new")
    with query(counting(broker, state_dir=folder, guarantee="exactly_once")) as running:
        running.drain()
    assert results(broker) == {"a": [1, 2, 3]}


@pytest.mark.parametrize("has_committed", [True, False])
def test_the_first_exact_step_commits_an_end_behind_the_rows_of_failed_steps(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, has_committed: bool
) -> None:
    """Also of a store that it does not change: the next host restores to the committed end alone."""
    if has_committed:
        with query(counting(broker, guarantee=AT_LEAST_ONCE)) as running:
            send(broker, ["a"])
            running.drain()
    else:
        with query(counting(broker, guarantee=AT_LEAST_ONCE)):
            pass
    send(broker, ["a"])
    failed_step(broker, monkeypatch)
    with query(counting(broker, guarantee="exactly_once")) as running:
        with monkeypatch.context() as patched:
            patched.setattr(Count, "process", lambda self, rows, step: None)
            (commit,) = [commit for commit in running.step() if commit.token]
        (end,) = commit.ends.values()
        assert end.offset == len(broker.records(CHANGELOG))
        assert commit.is_exact
        running.replace_workers()
        send(broker, ["a"])
        running.drain()
    assert results(broker)["a"][-1] == (3 if has_committed else 2)


def test_files_of_at_least_once_are_not_used_with_exactly_once(broker: Broker, tmp_path: Path) -> None:
    """They may lack rows that another worker left in the changelog and never committed."""
    for guarantee, restored in (("at_least_once", 0), ("exactly_once", 1), ("exactly_once", 0)):
        with query(counting(broker, state_dir=str(tmp_path), guarantee=guarantee)) as running:
            send(broker, ["a"])
            assert sum(commit.figures.restored for commit in running.step()) == restored
    check(broker, ["a"] * 3)


CHANGELOG = "count-counts-changelog"


def failed_step(broker: Broker, monkeypatch: pytest.MonkeyPatch, state_dir: str | None = None) -> None:
    """Without transactions: its results and changelog rows are written, its positions are not."""

    def dying(self: Any, *arguments: Any) -> None:
        raise OttlaError("died before its positions")

    pipeline = counting(broker, state_dir=state_dir, guarantee=AT_LEAST_ONCE)
    with query(pipeline) as running, monkeypatch.context() as patched:
        patched.setattr(StreamTask, "_figures", dying)
        with pytest.raises(OttlaError, match="died before its positions"):
            running.drain()


def short_segments(broker: Broker) -> None:
    """So that everything but the last row can be compacted."""
    settings = {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_configs("topic", CHANGELOG, set_=settings)


def one_row(count: int) -> bytes:
    return count.to_bytes(8, "big")


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
