"""The protocol of a step: whatever fails, wherever, the copy is exact. A rule that is broken on purpose is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ottla.client import Producer
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.mirror import task
from ottla.mirror.clusters import SourceLog, TargetLog
from ottla.mirror.driver import Driver
from ottla.mirror.errors import TakenOver
from ottla.mirror.positions import Position
from ottla.mirror.task import MirrorTask
from ottla.testing import Broker
from tests.mirror.local import link, records, with_offsets

CALLS = ("take_over", "committed", "write_batch", "take_written", "write_journal", "add_positions", "end")


class Killed(OttlaError):
    """A process that dies here does nothing more."""


class Dying:
    """A target whose process dies in a call: before it has an effect, or after."""

    def __init__(self, target: TargetLog, call: str, when: str) -> None:
        self._target, self._call, self._when = target, call, when
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return found

        def called(*arguments: Any, **named: Any) -> Any:
            if self.dead:
                raise Killed(name)
            if name == self._call and self._when == "before":
                self.dead = True
                raise Killed(name)
            result = found(*arguments, **named)
            if name == self._call:
                if name == "write_batch":
                    self._target._open.flush()  # it has reached the broker
                self.dead = True
                raise Killed(name)
            return result

        return called

    def abort(self) -> None:
        """A dead process aborts nothing."""
        if not self.dead:
            self._target.abort()


@pytest.fixture
def sides() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as source, Broker() as target:
        source.create_topic("in", partitions=2)
        yield source, target


class Mirror:
    """A link whose steps can be made to die."""

    def __init__(self, source: Broker, target: Broker, tasks: int = 1) -> None:
        self.source, self.target = source, target
        self.link = link(source.bootstrap, target.bootstrap, tasks=tasks)
        self.driver = Driver(self.link)
        self.driver.start()
        self._opened: list[Any] = []
        self.sent = 0

    def send(self, count: int = 40) -> None:
        with Producer(bootstrap_servers=self.source.bootstrap) as producer:
            for _ in range(count):
                producer.send("in", b"%d" % self.sent, partition=self.sent % 2)
                self.sent += 1

    def worker(self, call: str = "", when: str = "", number: int = 0) -> MirrorTask:
        source, target = SourceLog(self.link), TargetLog(self.link, number)
        topics = {"in"}
        source.refresh(topics)
        target.refresh({"A.in"})
        self._opened += [source, target]
        return MirrorTask(self.link, source, Dying(target, call, when) if call else target)

    def step(self, worker: MirrorTask, *, retried: bool = False, member: GroupMetadata | None = None) -> None:
        for work in self.driver.plan():
            worker.step(work, member or self.driver.member(), retried=retried)

    def is_exact(self) -> bool:
        return all(
            records(self.target.bootstrap, "A.in", p) == records(self.source.bootstrap, "in", p)
            for p in (0, 1)
        )

    def close(self) -> None:
        for each in self._opened:
            each.close()
        self.driver.close()


@pytest.fixture
def mirror(sides: tuple[Broker, Broker]) -> Iterator[Mirror]:
    made = Mirror(*sides)
    yield made
    made.close()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", CALLS)
def test_a_worker_that_dies_anywhere_leaves_an_exact_copy(mirror: Mirror, call: str, when: str) -> None:
    die_and_go_on(mirror, call, when)
    assert mirror.is_exact()


def die_and_go_on(mirror: Mirror, call: str, when: str) -> None:
    first = mirror.worker()
    for _ in range(2):
        mirror.send()
        mirror.step(first)
    mirror.send()
    with pytest.raises(Killed):
        mirror.step(mirror.worker(call, when))
    mirror.step(mirror.worker(), retried=True)
    mirror.send()
    mirror.step(first)  # its last step was not the last one


def test_two_workers_take_turns(mirror: Mirror) -> None:
    workers = [mirror.worker(), mirror.worker()]
    for turn in range(6):
        mirror.send()
        mirror.step(workers[turn % 2])
    assert mirror.is_exact()


def test_a_driver_that_is_replaced_can_commit_nothing_more(
    sides: tuple[Broker, Broker], mirror: Mirror
) -> None:
    """Also under transactional ids that the new layout does not know."""
    mirror.send()
    plan, member = mirror.driver.plan(), mirror.driver.member()
    successor = Mirror(*sides, tasks=3)
    try:
        for number, work in enumerate(successor.driver.plan()):
            successor.worker(number=number).step(work, successor.driver.member())
        with pytest.raises(OttlaError):
            for work in plan:
                stale = mirror.worker(number=7)
                stale._committed = lambda work: {where: Old() for where in work.ends}  # type: ignore
                stale.step(work, member)
        with pytest.raises(TakenOver):
            for _ in range(100):
                mirror.driver.member()
                mirror.driver.wait()
        assert successor.is_exact()
    finally:
        successor.close()


def Old() -> Any:
    """What a driver had read before its successor went on."""
    return Position(0)


def test_an_orphan_of_a_former_layout_does_not_hold_the_next_one_up(sides: tuple[Broker, Broker]) -> None:
    before = Mirror(*sides, tasks=9)
    before.send()
    (work,) = before.driver.plan()[:1]
    with pytest.raises(Killed):
        before.worker("end", "before", number=8).step(work, before.driver.member())
    after = Mirror(*sides, tasks=1)
    try:
        after.step(after.worker())
        assert after.is_exact()  # without a wait for the orphan's time-out of a minute
    finally:
        after.close()
        before.close()


def translated_wrongly(mirror: Mirror) -> int:
    """Offsets of the source that are translated to another record than theirs."""
    mirror.driver.keep(whole=True)
    wrong = 0
    for partition in (0, 1):
        copies = {
            value: at for at, (_, value, *_) in with_offsets(mirror.target.bootstrap, "A.in", partition)
        }
        for at, (_, value, *_) in with_offsets(mirror.source.bootstrap, "in", partition):
            wrong += mirror.driver.translate(TopicPartition("in", partition), at) != copies[value]
    return wrong


def step_where_others_wrote(mirror: Mirror) -> None:
    """Records do not go where they were expected: an aborted step and a stranger have been there before."""
    worker = mirror.worker()
    mirror.send()
    mirror.step(worker)
    mirror.send()
    with pytest.raises(Killed):
        mirror.step(mirror.worker("end", "before"))
    mirror.step(mirror.worker(), retried=True)
    mirror.target.send("A.in", "a stranger's", partition=0)
    mirror.send()
    mirror.step(worker)
    mirror.send()
    mirror.step(worker)


def test_positions_are_right_where_records_went_elsewhere_than_expected(mirror: Mirror) -> None:
    step_where_others_wrote(mirror)
    assert translated_wrongly(mirror) == 0


def test_a_belief_that_is_not_checked_would_be_seen(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MirrorTask, "_see", lambda self, copied: not self._target.take_written())
    step_where_others_wrote(mirror)
    assert translated_wrongly(mirror) > 0


# -- planted bugs: each must be seen ------------------------------------------------------------------------------


def positions_after_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions are committed when the records already are."""

    def add_positions(self: TargetLog, offsets: Any, member: GroupMetadata) -> None:
        owner = self._open
        owner.flush()
        owner.commit_transaction()
        owner.begin_transaction()
        if offsets and _dies_between:
            raise Killed("between records and positions")
        owner.add_offsets(offsets, member)

    _dies_between: list[bool] = []
    monkeypatch.setattr(TargetLog, "add_positions", add_positions)
    monkeypatch.setattr(Mirror, "die_between", _dies_between, raising=False)


def remembered_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker trusts what it has committed last, and takes over instead of being fenced."""

    def stand(self: MirrorTask, work: task.Work, retried: bool) -> Any:
        self._target.take_over()
        known = {where: self._known[where] for where in work.ends if where in self._known}
        return {**self._committed(work), **known}

    monkeypatch.setattr(MirrorTask, "_stand", stand)


def position_one_short(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = MirrorTask._pass

    def _pass(self: MirrorTask, chunk: Any, where: TopicPartition, progress: Any) -> None:
        passed(self, chunk, where, progress)
        progress.position = replace(progress.position, source=progress.position.source - 1)

    monkeypatch.setattr(MirrorTask, "_pass", _pass)


@pytest.mark.parametrize("plant", [remembered_positions, position_one_short])
def test_a_planted_bug_is_seen(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    die_and_go_on(mirror, "end", "after")
    assert not mirror.is_exact()


def test_positions_outside_of_the_transaction_would_be_seen(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions_after_the_records(monkeypatch)
    mirror.send()
    mirror.die_between.append(True)  # type: ignore[attr-defined]
    with pytest.raises(Killed):
        mirror.step(mirror.worker())
    mirror.die_between.clear()  # type: ignore[attr-defined]
    mirror.step(mirror.worker(), retried=True)
    assert not mirror.is_exact()
