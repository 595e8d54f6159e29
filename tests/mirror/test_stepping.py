"""The protocol of a step: whatever fails, wherever, the copy is exact. A rule that is broken on purpose is seen."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ottla.client import Producer
from ottla.client.loop.connection import Connection
from ottla.client.session import Engine
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.mirror import positions, task
from ottla.mirror.clusters import SourceLog, TargetLog
from ottla.mirror.driver import Driver
from ottla.mirror.errors import TakenOver
from ottla.mirror.link import Link
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
        if inspect.iscoroutinefunction(found):
            return self._dying(name, found)

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

    def _dying(self, name: str, found: Callable[..., Coroutine[Any, Any, Any]]) -> Any:
        async def called(*arguments: Any, **named: Any) -> Any:
            if self.dead:
                raise Killed(name)
            if name == self._call and self._when == "before":
                self.dead = True
                raise Killed(name)
            result = await found(*arguments, **named)
            if name == self._call:
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

    def follower(self) -> Follower:
        follower = Follower(self.link)
        self._opened.append(follower)
        return follower

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


class Follower:
    """A task whose reader and writer share a loop, as in `worker.Worker`."""

    def __init__(self, chosen: Link) -> None:
        self._engine = Engine("follower")
        self._source, self._target = SourceLog(chosen, self._engine), TargetLog(chosen, 0, self._engine)
        self._source.refresh({"in"})
        self._target.refresh({"A.in"})
        self.dying = Dying(self._target, "", "")
        self.task = MirrorTask(chosen, self._source, self.dying, alone=True)

    def follow(self, known: Mapping[TopicPartition, Position], member: GroupMetadata) -> None:
        assert self.task.follows(known)
        self._engine.run(self._follow({where: each.source for where, each in known.items()}, member))

    async def _follow(self, starts: Mapping[TopicPartition, int], member: GroupMetadata) -> None:
        assert await self._source.follow(starts, 60)
        await self.task.step_followed(self._source.take_held(tolerate=False), member)

    def close(self) -> None:
        self._target.close()
        self._source.close()
        self._engine.close()


@pytest.fixture
def mirror(sides: tuple[Broker, Broker]) -> Iterator[Mirror]:
    made = Mirror(*sides)
    yield made
    made.close()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", CALLS)
def test_a_worker_that_dies_anywhere_leaves_an_exact_copy(
    mirror: Mirror, call: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if call == "write_journal":
        monkeypatch.setattr(task, "RUNS_IN_POSITION_MAX", 0)  # every step writes to it
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


@pytest.mark.parametrize(
    ("call", "when"),
    [("write_batch", "before"), ("take_written", "after"), ("add_positions", "after"), ("end", "after")],
)
def test_a_worker_that_dies_while_it_follows_leaves_an_exact_copy(
    mirror: Mirror, call: str, when: str
) -> None:
    follower = mirror.follower()
    mirror.send()
    (work,) = mirror.driver.plan()
    known = follower.task.step(work, mirror.driver.member())
    mirror.send(4)
    follower.dying._call, follower.dying._when = call, when
    with pytest.raises(Killed):
        follower.follow(known, mirror.driver.member())
    mirror.send()
    mirror.step(mirror.worker(), retried=True)
    assert mirror.is_exact()
    assert translated_wrongly(mirror) == 0
    # Had it only slept, it could write nothing more.
    follower.dying.dead, follower.dying._call = False, ""
    mirror.send(4)
    with pytest.raises(OttlaError):
        follower.follow(known, mirror.driver.member())
    mirror.step(mirror.worker(), retried=True)
    assert mirror.is_exact()


def test_records_and_positions_leave_in_the_turn_of_the_loop_that_brought_them(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one packet, and before the next fetch: on a busy machine each packet is a wait for the processor."""
    events: list[str] = []
    take, send = SourceLog.take_held, Connection.send

    def taking(self: SourceLog, *, tolerate: bool) -> Any:
        events.append("taken")
        asyncio.get_running_loop().call_soon(events.append, "next turn")
        return take(self, tolerate=tolerate)

    def sending(self: Connection, request: Any, version: int, **more: Any) -> Any:
        events.append(type(request).__name__)
        return send(self, request, version, **more)

    follower = mirror.follower()
    mirror.send()
    (work,) = mirror.driver.plan()
    known = follower.task.step(work, mirror.driver.member())
    mirror.send(4)
    monkeypatch.setattr(SourceLog, "take_held", taking)
    monkeypatch.setattr(Connection, "send", sending)
    follower.follow(known, mirror.driver.member())
    taken = events.index("taken")
    assert events[taken + 1 : taken + 4] == ["ProduceRequest", "TxnOffsetCommitRequest", "next turn"]


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


# Runs in the positions alone, some of them in the journal, all of them there.
@pytest.mark.parametrize("runs_max", [24, 2, 0])
def test_positions_are_right_where_records_went_elsewhere_than_expected(
    mirror: Mirror, runs_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "RUNS_IN_POSITION_MAX", runs_max)
    step_where_others_wrote(mirror)
    assert translated_wrongly(mirror) == 0


def test_most_steps_leave_the_journal_alone(mirror: Mirror) -> None:
    worker = mirror.worker()
    for _ in range(10):
        mirror.send(2)
        mirror.step(worker)
    runs = [record for record in mirror.target.records(mirror.link.journal) if record.key[:1] == b"r"]
    assert len(runs) == 2  # the first of each partition
    assert translated_wrongly(mirror) == 0


@pytest.mark.parametrize("runs_max", [24, 0])
def test_a_belief_that_is_not_checked_would_be_seen(
    mirror: Mirror, runs_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "RUNS_IN_POSITION_MAX", runs_max)
    monkeypatch.setattr(MirrorTask, "_see", lambda self, copied, acknowledged: False)
    step_where_others_wrote(mirror)
    assert translated_wrongly(mirror) > 0


def test_runs_that_positions_forget_would_be_seen(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "_packed", lambda runs: [])
    step_where_others_wrote(mirror)
    assert translated_wrongly(mirror) > 0


# -- planted bugs: each must be seen ------------------------------------------------------------------------------


def positions_after_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions are committed when the records already are."""

    async def add_positions(self: TargetLog, offsets: Any, member: GroupMetadata) -> None:
        owner = self._open
        await owner.take_written()
        await owner.end()
        if offsets and _dies_between:
            raise Killed("between records and positions")
        await owner.add_offsets(offsets, member)

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
