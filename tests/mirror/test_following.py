"""A mirror that has caught up: tasks wait for records at the source itself, each for its own, and copy them at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from ottla.client import Admin, Producer
from ottla.client.columnar.following import FollowingReader
from ottla.client.columnar.ranges import Range
from ottla.client.values import TopicPartition
from ottla.mirror.errors import SourceChanged
from ottla.mirror.link import Link
from ottla.mirror.local import LocalRunner, run
from ottla.mirror.status import set_control, status
from ottla.mirror.task import Work
from ottla.mirror.worker import LITTLE_BYTES, Worker
from ottla.testing import Broker
from tests.mirror.local import link, records

LIST_OFFSETS = 2


@pytest.fixture
def sides() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as source, Broker() as target:
        source.create_topic("in", partitions=3)
        yield source, target


class Running:
    """A link that runs in a thread until the test is over."""

    def __init__(self, chosen: Link) -> None:
        self.runner = LocalRunner(chosen)
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.runner.run()
        except BaseException as error:
            self.failure = error

    def start(self) -> None:
        self.runner.start()
        self._thread.start()

    def until(self, check: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not check():
            assert self._thread.is_alive(), self.failure
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def join(self) -> BaseException | None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.failure

    def close(self) -> None:
        self.runner.stop()
        self._thread.join(60)
        self.runner.close()


@contextlib.contextmanager
def running(chosen: Link) -> Iterator[Running]:
    link_running = Running(chosen)
    try:
        link_running.start()
        yield link_running
    finally:
        link_running.close()


def is_copied(source: Broker, target: Broker, topic: str = "in", partitions: int = 3) -> bool:
    return all(
        records(target.bootstrap, f"A.{topic}", p) == records(source.bootstrap, topic, p)
        for p in range(partitions)
    )


@pytest.mark.parametrize("mode", ["compatible", "exact"])
def test_records_that_come_one_by_one_are_copied_each_at_once(
    sides: tuple[Broker, Broker], mode: str
) -> None:
    source, target = sides
    with (
        running(link(source.bootstrap, target.bootstrap, mode=mode)) as mirror,
        Producer(bootstrap_servers=source.bootstrap) as producer,
    ):
        for i in range(40):
            producer.send("in", b"%d" % i, partition=i % 3).result(60)
            seen = i // 3 + 1
            mirror.until(lambda: "A.in" in target.topics() and len(target.records("A.in", i % 3)) == seen)  # noqa: B023
        assert is_copied(source, target)


def test_a_task_that_follows_asks_the_source_for_nothing_but_records(sides: tuple[Broker, Broker]) -> None:
    """Each question would be a round trip between a record and its copy."""
    source, target = sides
    # Groups are looked after once a minute here: they ask for offsets, too.
    quiet = link(source.bootstrap, target.bootstrap, sync_groups_s=60, refresh_topics_s=60)
    with running(quiet) as mirror:
        source.send("in", "first", partition=0)
        mirror.until(lambda: "A.in" in target.topics() and len(target.records("A.in", 0)) == 1)
        before, begun = len(source.requests("ListOffsets")), time.monotonic()
        for i in range(50):
            source.send("in", f"v{i}", partition=0)
            mirror.until(lambda: len(target.records("A.in", 0)) == i + 2)  # noqa: B023
        asked = len(source.requests("ListOffsets")) - before
        # A task that has waited for a second without news looks by itself.
        assert asked <= 2 * (time.monotonic() - begun) + 2


def test_single_records_are_copied_where_they_arrive(
    sides: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the loop of the task: a step of its thread would be two switches of threads more for each record."""
    source, target = sides
    steps, run = [], Worker.run

    def counted(self: Worker, *arguments: Any, **named: Any) -> Any:
        steps.append(arguments)
        return run(self, *arguments, **named)

    monkeypatch.setattr(Worker, "run", counted)
    with running(link(source.bootstrap, target.bootstrap, tasks=1)) as mirror:
        source.send("in", "first", partition=0)
        mirror.until(lambda: "A.in" in target.topics() and len(target.records("A.in", 0)) == 1)
        before, begun = len(steps), time.monotonic()
        for i in range(30):
            source.send("in", f"v{i}", partition=i % 2)  # the third stays empty
            mirror.until(lambda: sum(len(target.records("A.in", p)) for p in range(2)) == i + 2)  # noqa: B023
        # A task that has waited for a second without news looks by itself, and may see the record first.
        assert len(steps) - before <= 3 + (time.monotonic() - begun)
        big = b"x" * (LITTLE_BYTES + 1)
        source.send("in", big, partition=0)
        mirror.until(lambda: target.records("A.in", 0)[-1].value == big)
        assert is_copied(source, target)


def test_topics_and_partitions_that_come_later_are_followed_too(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    with (
        running(link(source.bootstrap, target.bootstrap, refresh_topics_s=0.2)) as mirror,
        Admin(bootstrap_servers=source.bootstrap) as admin,
    ):
        source.send("in", "first", partition=0)
        admin.add_partitions("in", 5)
        source.create_topic("in-2", partitions=1)
        source.send("in", "late", partition=4)
        source.send("in-2", "other")
        mirror.until(lambda: target.topics().get("A.in") == 5 and "A.in-2" in target.topics())
        mirror.until(lambda: is_copied(source, target, "in", 5) and is_copied(source, target, "in-2", 1))


def test_a_pause_holds_records_back_that_were_fetched_already(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    chosen = link(source.bootstrap, target.bootstrap)
    with running(chosen) as mirror:
        source.send("in", "first", partition=0)
        mirror.until(lambda: "A.in" in target.topics() and len(target.records("A.in", 0)) == 1)
        set_control(chosen, paused=True)
        mirror.until(lambda: mirror.runner.driver.keeper.journal.control.paused)
        for _ in range(20):
            source.send("in", "held", partition=0)
        assert status(chosen).lag == 20
        set_control(chosen, paused=False)
        mirror.until(lambda: is_copied(source, target))


def test_a_source_that_is_re_created_under_a_mirror_that_waits_stops_it(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    with running(link(source.bootstrap, target.bootstrap, refresh_topics_s=60)) as mirror:
        for i in range(5):
            source.send("in", f"v{i}", partition=0)
        mirror.until(lambda: "A.in" in target.topics() and len(target.records("A.in", 0)) == 5)
        source.delete_topic("in")
        source.create_topic("in", partitions=3)
        failure = mirror.join()
        assert failure is not None and "in" in str(failure)
        assert not isinstance(failure, AssertionError)
    assert [record.value for record in target.records("A.in", 0)] == [b"v%d" % i for i in range(5)]


def test_a_source_that_was_cut_stops_a_mirror_that_follows(sides: tuple[Broker, Broker]) -> None:
    """The fetch is out of range; what that means is found out by a look at the ends."""
    source, target = sides
    with running(link(source.bootstrap, target.bootstrap)) as mirror:
        source.send("in", "v", partition=0)
        mirror.until(lambda: "A.in" in target.topics() and len(target.records("A.in", 0)) == 1)
        survey = mirror.runner.driver.survey
        survey.ends = lambda partitions: dict.fromkeys(partitions, 0)  # type: ignore[method-assign]
        assert isinstance(mirror.join(), SourceChanged)


@pytest.mark.parametrize("mode", ["compatible", "exact"])
def test_a_step_for_some_partitions_leaves_what_has_arrived_of_others(
    sides: tuple[Broker, Broker], mode: str
) -> None:
    """The reader follows all of them; a step that was planned by a look may be about one."""
    source, target = sides
    chosen = link(source.bootstrap, target.bootstrap, mode=mode, tasks=1)
    runner = LocalRunner(chosen)
    try:
        runner.start()
        worker, driver = runner._worker(0), runner.driver
        source.send("in", "first", partition=0)
        (work,) = driver.plan(task=0)
        known = {**driver.positions, **worker.run(work, driver.member(), retried=True)}
        for partition in (0, 1):
            source.send("in", "second", partition=partition)
        assert worker.follow(known, lambda *_: None, 30)  # held, not copied
        source.send("in", "third", partition=2)
        some = Work(0, {TopicPartition("in", 0): 2}, work.bytes_max)
        known |= worker.run(some, driver.member(), retried=False)
        while not is_copied(source, target):
            ends = worker.follow(known, lambda *_: None, 30)
            assert ends is not None
            known |= worker.run(Work(0, dict(ends), work.bytes_max), driver.member(), retried=False)
    finally:
        runner.close()


def test_what_is_fetched_ahead_is_not_fetched_again() -> None:
    with Broker() as broker:
        broker.create_topic("t", partitions=2)
        with FollowingReader(bootstrap_servers=broker.bootstrap) as reader:
            positions, begun = {0: 0, 1: 0}, time.monotonic()
            for i in range(20):
                broker.send("t", f"v{i}", partition=i % 2)
                ends = reader.wait([Range("t", p, at, at) for p, at in positions.items()], 30)
                assert ends[TopicPartition("t", i % 2)] == i // 2 + 1
                ranges = [Range("t", p, at, ends[TopicPartition("t", p)]) for p, at in positions.items()]
                for chunks in reader.read_chunks(ranges):
                    for chunk in chunks:
                        assert chunk.fetch_offset == positions[chunk.partition.partition]
                        positions[chunk.partition.partition] = chunk.end()[0]
            assert positions == {0: 10, 1: 10}
            assert reader.wait([Range("t", 0, 10, 10), Range("t", 1, 10, 10)], 0.05) == {}
            # Two at most for each: the one with the record, the next; and those that waited in vain.
            assert len(broker.requests("Fetch")) < 45 + 4 * (time.monotonic() - begun)


def test_a_reader_that_follows_can_read_something_else_in_between() -> None:
    with Broker() as broker:
        for i in range(10):
            broker.send("t", f"v{i}")
        with FollowingReader(bootstrap_servers=broker.bootstrap) as reader:
            assert reader.wait([Range("t", 0, 4, 4)], 30) == {TopicPartition("t", 0): 10}
            rows = [r for b in reader.read([Range("t", 0, 1, 3)]) for r in b.column("offset").to_pylist()]
            assert rows == [1, 2]
            assert reader.wait([Range("t", 0, 7, 7)], 30) == {TopicPartition("t", 0): 10}
            rows = [r for b in reader.read([Range("t", 0, 7, 10)]) for r in b.column("offset").to_pylist()]
            assert rows == [7, 8, 9]
            assert reader.wait([Range("t", 0, 99, 99)], 30) == {}  # out of range: a read says so


@pytest.mark.parametrize("mode", ["compatible", "exact"])
def test_a_mirror_that_its_group_has_forgotten_joins_again_and_goes_on(
    sides: tuple[Broker, Broker], mode: str
) -> None:
    """A target that was away for longer than the session has no member left. Nobody else has taken over."""
    source, target = sides
    chosen = link(source.bootstrap, target.bootstrap, mode=mode)
    stopped = threading.Event()
    with ThreadPoolExecutor(1) as pool, Admin(bootstrap_servers=target.bootstrap) as admin:
        ended = pool.submit(run, chosen, stopped=stopped)
        try:
            source.send("in", b"before", partition=0)
            until(ended, lambda: "A.in" in target.topics() and is_copied(source, target))
            (member,) = admin.describe_group(chosen.group).members
            admin.remove_members(chosen.group, [member])
            until(ended, lambda: others(admin, chosen.group, member.id))
            source.send("in", b"after", partition=0)
            until(ended, lambda: is_copied(source, target))
        finally:
            stopped.set()
        assert ended.exception(60) is None


def others(admin: Admin, group: str, member_id: str) -> bool:
    return any(member.id != member_id for member in admin.describe_group(group).members)


def until(ended: Future[None], check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not check():
        assert not ended.done(), ended.exception()
        assert time.monotonic() < deadline
        time.sleep(0.01)
