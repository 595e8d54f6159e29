"""The protocol of a step: whatever fails, wherever, counts are exact and no result goes back.

Each rule has a test that breaks it and sees the counts go wrong.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client import Producer
from ottla.client.admin import Admin
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError
from ottla.pipelines import Pipeline, Stage, StoreSpec, cluster_log, stepping
from ottla.pipelines.errors import BadTopology, StateLost, TakenOver
from ottla.pipelines.positions import read_commit
from ottla.pipelines.state.spec import StoreChanged
from ottla.pipelines.topology import TaskId
from ottla.testing import Broker
from tests.pipelines.local import COUNTS, Count, after, counting, drained, fragile, query, results, send


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("in", partitions=2)
        running.create_topic("out", partitions=2)
        yield running


@pytest.fixture(params=["memory", "files"])
def pipeline(broker: Broker, request: pytest.FixtureRequest, tmp_path: Path) -> Pipeline:
    return counting(broker, state_dir=None if request.param == "memory" else str(tmp_path / "state"))


def check(broker: Broker, sent: list[str]) -> None:
    """Exact, and never back: what the promise of exactly once comes down to."""
    found = results(broker)
    assert {key: counts[-1] for key, counts in found.items()} == Counter(sent)
    assert all(counts == sorted(set(counts)) for counts in found.values()), found


def batches(broker: Broker, count: int = 6) -> Iterator[list[str]]:
    """Some keys at a time, sent when they are asked for; all that were sent so far."""
    chance, sent = random.Random(1), list[str]()
    for _ in range(count):
        keys = [f"k{chance.randint(0, 9)}" for _ in range(20)]
        send(broker, keys)
        sent += keys
        yield sent


def test_counts_go_on_in_the_same_worker(broker: Broker, pipeline: Pipeline) -> None:
    with query(pipeline) as running:
        for sent in batches(broker):
            running.drain()
            check(broker, sent)


def test_workers_take_turns_and_each_catches_up_from_the_changelog(
    broker: Broker, pipeline: Pipeline
) -> None:
    with query(pipeline, workers=3) as running:
        for sent in batches(broker):
            running.drain()
            check(broker, sent)


def test_a_new_worker_goes_on_where_the_others_were(broker: Broker, pipeline: Pipeline) -> None:
    with query(pipeline) as running:
        for sent in batches(broker):
            running.drain()
            running.replace_workers()
            check(broker, sent)


def test_files_are_warm_after_a_restart(broker: Broker, tmp_path: Path) -> None:
    with query(counting(broker, state_dir=str(tmp_path))) as running:
        send(broker, ["a", "b", "c"])
        running.drain()
        running.replace_workers()
        send(broker, ["a", "b", "c"])
        assert {commit.figures.restored for commit in running.step()} == {0}
        check(broker, ["a", "b", "c"] * 2)


def test_a_step_that_did_not_commit_leaves_nothing(
    broker: Broker, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dies at a random place of the log's interface, before or behind the call; then another worker does it again."""
    chance = random.Random(5)
    deaths = fragile(monkeypatch, chance, share=0.08)
    with query(pipeline, workers=2) as running:
        for sent in batches(broker, 12):
            drained(running, chance)
            check(broker, sent)
    assert len(deaths) > 10


def test_a_changelog_that_cannot_be_read_yet_is_waited_for(broker: Broker, pipeline: Pipeline) -> None:
    """Somebody's open transaction holds the last stable offset back: the committed state is there all the same."""
    with query(pipeline) as running:
        hold_back(broker)
        send(broker, ["a", "a", "b"])
        running.drain()
        running.replace_workers()
        release = after(0.5, lambda: broker.fence("stranger"))
        send(broker, ["a"])
        running.drain()
        release.join()
        check(broker, ["a", "a", "b", "a"])


def hold_back(broker: Broker) -> None:
    """Opens a transaction in the changelog that nobody ends; what it wrote is never seen."""
    producer = Producer(bootstrap_servers=broker.bootstrap, transactional_id="stranger", linger_ms=0)
    producer.init_transactions()
    producer.begin_transaction()
    for partition in range(2):
        producer.send("count-counts-changelog", b"\0" * 8, key=b"k0", partition=partition)
    producer.flush()
    producer.close(0)


def test_a_step_takes_no_more_than_it_may_hold_and_the_next_one_goes_on(broker: Broker) -> None:
    with query(counting(broker, bytes_max=1)) as running:
        for _ in range(5):
            running.replace_workers()  # a reader fetches ahead, and would have everything at once
            send(broker, ["a", "b", "k9"])
        before = running.driver.plan()
        commits = running.workers[0].run(before, running.driver.member(), retried=False)
        assert all(
            commit.offsets[where] <= work.ends[where]
            for work, commit in zip(before, commits, strict=True)
            for where in work.ends
        )
        running.drain()
        check(broker, ["a", "b", "k9"] * 5)


def test_a_column_that_records_do_not_have_is_refused(broker: Broker) -> None:
    stage = Stage("count", ("in",), Count, (COUNTS,), ("out",), columns=("key", "colour"))
    with query(Pipeline("count", (stage,), {"bootstrap.servers": broker.bootstrap})) as running:
        send(broker, ["a"])
        with pytest.raises(BadTopology, match="records have no column colour"):
            running.drain()


# -- planted bugs: each must be seen ------------------------------------------------------------------


def test_planted_a_stale_token_is_trusted(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepping.StreamTask, "_restore", lambda self, before: 0)
    with query(counting(broker), workers=2) as running, pytest.raises((AssertionError, RuntimeError)):
        for sent in batches(broker):
            running.drain()
            check(broker, sent)


def test_planted_restored_to_the_last_stable_offset(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = stepping.StreamTask._restore_store

    def to_stable(self: Any, name: str, known: int, end: Any, **named: Any) -> tuple[int, int]:
        where = TopicPartition(self._pipeline.changelog(name), self.task.partition)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            stable = admin.list_offsets({where: -1}, committed_only=True)[where].offset
        return plain(self, name, known, end._replace(offset=min(stable, end.offset)), **named)

    monkeypatch.setattr(stepping.StreamTask, "_restore_store", to_stable)
    with query(counting(broker)) as running:
        hold_back(broker)
        send(broker, ["a", "a", "b"])
        running.drain()
        running.replace_workers()
        send(broker, ["a"])
        running.drain()
        with pytest.raises(AssertionError):
            check(broker, ["a", "a", "b", "a"])


def test_planted_clean_before_the_transaction_has_ended(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = cluster_log.TransactionalLog.commit
    failing = [True]

    def early(self: Any, offsets: Any, member: Any) -> None:
        if not failing or not failing.pop():
            plain(self, offsets, member)
            return
        commit = read_commit(TaskId("count", 0), offsets, offsets)
        files = stepping_files[-1]
        files.commit(commit.token, {name: end.offset for name, end in commit.ends.items()})
        raise OttlaError("died before EndTxn")

    stepping_files: list[Any] = []
    begin = stepping.StreamTask._restore

    def noted(self: Any, before: Any) -> int:
        stepping_files.append(self._files)
        if self._files.is_usable(0, 1 << 60):
            return 0  # "clean" is believed, as it would be if the token said nothing
        return begin(self, before)

    monkeypatch.setattr(stepping.StreamTask, "_restore", noted)
    monkeypatch.setattr(cluster_log.TransactionalLog, "commit", early)
    with query(counting(broker, state_dir=str(tmp_path))) as running:
        send(broker, ["a", "a"])
        with pytest.raises(OttlaError):
            running.drain()
        running.drain()
        with pytest.raises(AssertionError):
            check(broker, ["a", "a"])


# -- two drivers ---------------------------------------------------------------------------------------


def test_a_second_driver_shuts_the_first_one_out(broker: Broker, pipeline: Pipeline) -> None:
    with query(pipeline) as first:
        send(broker, ["a"])
        works, member = first.driver.plan(), first.driver.member()
        with query(pipeline) as second:
            with pytest.raises(OttlaError, match=r"(?i)fenced"):
                first.workers[0].run(works, member, retried=False)
            second.drain()
            send(broker, ["a", "b"])
            second.drain()
            check(broker, ["a", "a", "b"])
            with pytest.raises(TakenOver):
                while True:  # it hears of it with its next heartbeat
                    first.driver.plan()


# -- what is lost ----------------------------------------------------------------------------------------


def test_positions_that_expired_are_not_taken_for_a_new_pipeline(broker: Broker) -> None:
    with query(counting(broker)) as running:
        send(broker, ["a"])
        running.drain()
    broker.advance(minutes=5)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.delete_group("count")
    with (
        pytest.raises(StateLost, match="has no committed positions, but its changelog"),
        query(counting(broker)),
    ):
        pass


def test_a_changelog_that_was_deleted_is_refused_by_name(broker: Broker) -> None:
    with query(counting(broker)) as running:
        send(broker, ["a", "b", "c"])
        running.drain()
    broker.delete_topic("count-counts-changelog")
    with query(counting(broker)) as running:
        send(broker, ["a", "b", "c"])
        with pytest.raises(StateLost, match=r"store counts: its changelog .* was deleted or cut"):
            running.drain()


def test_an_input_that_was_deleted_and_created_again_is_refused(broker: Broker) -> None:
    with query(counting(broker)) as running:
        send(broker, ["a", "b", "c"])
        running.drain()
        broker.delete_topic("in")
        broker.create_topic("in", partitions=2)
        with pytest.raises(StateLost, match="has no committed position for in-0"):
            running.drain()


def test_a_store_that_changed_is_named(broker: Broker) -> None:
    with query(counting(broker)) as running:
        send(broker, ["a"])
        running.drain()
    other = StoreSpec("counts", (("n", "int64"), ("more", "int64")))
    stage = Stage("count", ("in",), Count, (other,), ("out",))
    changed = Pipeline("count", (stage,), {"bootstrap.servers": broker.bootstrap})
    with query(changed) as running:
        send(broker, ["a"])
        with pytest.raises(StoreChanged, match="store counts has changed"):
            running.drain()


def test_a_store_that_is_new_begins_empty(broker: Broker) -> None:
    with query(counting(broker)) as running:
        send(broker, ["a"])
        running.drain()
    stage = Stage("count", ("in",), Count, (COUNTS, StoreSpec("more", (("n", "int64"),))), ("out",))
    with query(Pipeline("count", (stage,), {"bootstrap.servers": broker.bootstrap})) as running:
        send(broker, ["a"])
        running.drain()
        check(broker, ["a", "a"])
