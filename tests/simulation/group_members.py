"""Simulated members of groups: they do what clients do, over a network that loses and repeats."""

from __future__ import annotations

from random import Random
from typing import Any

from ottla import errors as e
from ottla.coordination.groups.subscription import parse_assignment, parse_subscription
from tests.unit.coordination.groups.coordinator import (
    Call,
    GroupCoordinator,
    assignment,
    partitions_of,
    subscription,
)

Partition = tuple[bytes, int]


class Lost(Exception):
    """No answer came: the client tries again later."""


class Member:
    """What both kinds share: an owner of partitions who may crash."""

    instance: str | None = None

    def __init__(self, coordinator: GroupCoordinator, random: Random, name: str, topics: list[str]) -> None:
        self.coordinator, self.random, self.name, self.topics = coordinator, random, name, topics
        self.member_id, self.epoch = name, 0
        self.owned: set[Partition] = set()
        self.alive = True
        self.faulty = True  # the network

    def step(self) -> None:
        """One poll of the client."""
        raise NotImplementedError

    def leave(self) -> None:
        raise NotImplementedError

    def commit(self, topic: str, partition: int, offset: int) -> bool:
        """True when it is acknowledged."""
        code = self.coordinator.commit(
            offset, topic=topic, partition=partition, member_id=self.member_id, generation=self.epoch
        )
        return code == 0

    def crash(self) -> None:
        self.alive = False
        self.owned = set()

    def send(self, request: Any) -> Any:
        """May get lost on the way there, be delivered twice, or lose its answer."""
        luck = self.random.random() if self.faulty else 1.0
        if luck < 0.05:
            raise Lost
        answer = request()
        if luck < 0.10:
            answer = request()
        if luck < 0.18 or isinstance(answer, e.ProtocolError):
            raise Lost
        return answer


class ConsumerMember(Member):
    """Of the consumer protocol."""

    def __init__(self, *args: Any, instance: str | None = None) -> None:
        super().__init__(*args)
        self.instance = instance
        self.stubborn = False  # keeps what it should give up
        self.unsure = False  # no answer came: it says everything once more, and is told everything
        self.reported: set[Partition] = set()  # what the coordinator knows it owns: only a change is sent

    def step(self) -> None:
        if not self.alive:
            return
        try:
            answer = self.send(self._beat)
        except Lost:
            self.unsure = True
            return
        self.unsure, self.reported = False, self.owned
        if answer.error_code in (e.FencedMemberEpoch.code, e.UnknownMemberId.code, e.GroupIdNotFound.code):
            self.owned, self.epoch, self.stubborn = set(), 0, False
            return
        if answer.error_code:
            assert answer.error_code == e.UnreleasedInstanceId.code, answer
            return
        assert answer.member_epoch >= self.epoch, (
            f"the epoch falls from {self.epoch} to {answer.member_epoch}"
        )
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            given = partitions_of(answer)
            assert given is not None
            self.owned = self.owned | given if self.stubborn else given

    def leave(self) -> None:
        self.crash()
        try:
            self.send(lambda: self.coordinator.beat(self.member_id, -1, instance=self.instance))
        except Lost:
            return

    def _beat(self) -> Any:
        if self.epoch == 0:
            return self.coordinator.subscribe(
                self.member_id, self.topics, instance=self.instance, rebalance_ms=20_000
            )
        full: dict[str, Any] = {"topics": self.topics, "rebalance_ms": 20_000} if self.unsure else {}
        owned = self.owned if self.unsure or self.owned != self.reported else None
        return self.coordinator.beat(self.member_id, self.epoch, owned=owned, instance=self.instance, **full)


class ClassicMember(Member):
    """Of the classic protocol: eager, and a fair leader."""

    def __init__(self, *args: Any, instance: str | None = None) -> None:
        super().__init__(*args)
        self.instance = instance  # of a static member: its successor takes its place
        self.member_id, self.epoch = "", -1  # a classic member's epoch is its generation
        self.waiting: Call | None = None  # the JoinGroup or SyncGroup on its way
        self.phase = "out"

    def step(self) -> None:
        if not self.alive:
            return
        if self.phase == "out":
            self._join()
        elif self.waiting is not None:
            self._look()
        else:
            self._heartbeat()

    def leave(self) -> None:
        self.crash()
        if self.member_id:
            try:
                self.send(lambda: self.coordinator.leave((self.member_id, self.instance)))
            except Lost:
                return

    def _join(self) -> None:
        self.owned = set()  # eager: everything is given up first
        self.phase = "joining"
        self.waiting = self._call(
            lambda: self.coordinator.join(
                self.member_id,
                protocols={"range": subscription(*self.topics)},
                instance=self.instance,
                client=self.name,
                rebalance_ms=20_000,
            )
        )

    def _call(self, request: Any) -> Call | None:
        try:
            call: Call = self.send(request)
        except Lost:
            self.phase = "out"
            return None
        return call

    def _look(self) -> None:
        assert self.waiting is not None
        answer = self.waiting.answer
        if answer is None:
            return
        self.waiting = None
        if isinstance(answer, e.ProtocolError):
            self.phase = "out"
        elif self.phase == "joining":
            self._on_joined(answer)
        else:
            self._on_synced(answer)

    def _on_joined(self, answer: Any) -> None:
        self.phase = "out"
        if answer.error_code == e.MemberIdRequired.code:
            self.member_id = answer.member_id
        elif answer.error_code == e.UnknownMemberId.code:
            self.member_id = ""
        elif answer.error_code == e.FencedInstanceId.code:
            self._on_fenced()
        elif answer.error_code == 0:
            self.member_id, self.epoch = answer.member_id, answer.generation_id
            self.phase = "syncing"
            plan = self._plan(answer) if answer.leader == answer.member_id else {}
            self.waiting = self._call(
                lambda: self.coordinator.sync(self.member_id, self.epoch, plan, instance=self.instance)
            )

    def _on_synced(self, answer: Any) -> None:
        self.phase = "in" if answer.error_code == 0 else "out"
        if answer.error_code == e.UnknownMemberId.code:
            self.member_id = ""
        if answer.error_code == e.FencedInstanceId.code:
            self._on_fenced()
        if answer.error_code == 0:
            topics = self.coordinator.topics
            self.owned = {
                (topic_id, number)
                for name, numbers in parse_assignment(answer.assignment).items()
                if (topic_id := topics.topic_id(name)) is not None
                for number in numbers
            }

    def _heartbeat(self) -> None:
        try:
            code = self.send(
                lambda: self.coordinator.heartbeat(self.member_id, self.epoch, instance=self.instance)
            )
        except Lost:
            return
        if code:
            self.phase, self.owned = "out", set()
        if code == e.UnknownMemberId.code:
            self.member_id = ""
        if code == e.FencedInstanceId.code:
            self._on_fenced()

    def _on_fenced(self) -> None:
        """A join of its own was delivered twice, or its answer was lost: it joins once more, without an id."""
        self.member_id = ""

    def _plan(self, answer: Any) -> dict[str, bytes]:
        """Round robin over those who want the topic."""
        plans: dict[str, dict[str, list[int]]] = {each.member_id: {} for each in answer.members}
        wanted = {each.member_id: parse_subscription(each.metadata).topics for each in answer.members}
        for name in sorted({name for names in wanted.values() for name in names}):
            takers = [each for each, names in wanted.items() if name in names]
            for number in range(self.coordinator.topics.partition_count(name)):
                plans[takers[number % len(takers)]].setdefault(name, []).append(number)
        return {member_id: assignment(**plan) for member_id, plan in plans.items()}
