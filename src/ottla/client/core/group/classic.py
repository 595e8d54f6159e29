"""The classic protocol: members join, one of them shares out, all are told; heartbeats until next time."""

import contextlib
import logging
from collections.abc import Callable

from ottla import errors
from ottla.client.core.cluster import GROUP, Cluster
from ottla.client.core.dialogue import check
from ottla.client.core.group.assignors import ASSIGNORS, names_of
from ottla.client.core.group.member import Member
from ottla.client.core.retries import is_retriable
from ottla.client.core.runtime import Task
from ottla.client.core.subscriptions import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

log = logging.getLogger(__name__)


class ClassicMember(Member):
    def __init__(self, cluster: Cluster, notify: Callable[[], None]) -> None:
        super().__init__(cluster, notify)
        self._assignors = names_of(self._settings.partition_assignment_strategy)
        self.member_id = ""
        self.generation = -1
        self._needs_join = False
        self._joining: Task[None] | None = None
        self._heart: Task[None] | None = None
        self._watch: Task[None] | None = None
        self._target: frozenset[TopicPartition] | None = None
        self._counts: dict[str, int] = {}

    @property
    def _cooperative(self) -> bool:
        return all(name.startswith("cooperative") for name in self._assignors)

    @property
    def must_revoke_all(self) -> bool:
        return self._needs_join and self._joining is None and not self._cooperative and bool(self.owned)

    @property
    def is_member(self) -> bool:
        return self.generation >= 0

    def metadata(self) -> GroupMetadata:
        return GroupMetadata(self.group, self.generation, self.member_id, self._settings.group_instance_id)

    def subscribe(self, topics: frozenset[str], pattern: str | None) -> None:
        if topics != self.topics:
            self.topics = topics
            self._needs_join = True
        if self._heart is None:
            self._heart = self._start(self._beat())
            self._watch = self._start(self._watch_polls())

    @property
    def is_settled(self) -> bool:
        steady = self.generation >= 0 and not self.lost and self.failure is None
        return steady and not self._needs_join and self._joining is None and self._target is None

    async def target(self, timeout_s: float) -> frozenset[TopicPartition] | None:
        if self.lost or self.must_revoke_all:
            return None  # a heartbeat has reported it since the consumer looked: partitions are given up before joining
        if self._needs_join and self._joining is None:
            self._needs_join = False
            self._joining = self._start(self._join_until_done())
        if self._joining is not None:
            await self._runtime.wait([self._joining], timeout_s)
            if not self._joining.done():
                return None
            self._joining = None
        target, self._target = self._target, None
        return target

    def reached(self, owned: frozenset[TopicPartition]) -> None:
        let_go = self.owned - owned
        self.owned = owned
        if self.lost:
            self.lost = False
            self._needs_join = True
        elif self._cooperative and let_go:
            self._needs_join = True  # a second rebalance hands the partitions to their new owners
            self._notify()

    async def leave(self) -> None:
        for task in (self._heart, self._joining, self._watch):
            if task is not None:
                task.cancel()
        self._heart = self._joining = self._watch = None
        if self.member_id and self._settings.group_instance_id is None:
            member = MemberIdentity(member_id=self.member_id)
            member.group_instance_id = None
            request = LeaveGroupRequest(group_id=self.group, member_id=self.member_id, members=[member])
            with contextlib.suppress(OttlaError):  # the session will end by itself
                await self._cluster.ask_coordinator(GROUP, self.group, request, timeout_ms=5_000)
        self._forget()

    # -- joining -----------------------------------------------------------------------------------

    async def _join_until_done(self) -> None:
        backoff = self._cluster.backoff()
        while True:
            try:
                self._target = await self._join_and_sync()
                self._notify()
                return
            except errors.MemberIdRequired:
                continue  # the id is taken from the answer: join again with it
            except (errors.UnknownMemberId, errors.IllegalGeneration, errors.RebalanceInProgress) as error:
                if not isinstance(error, errors.RebalanceInProgress):
                    self._forget()
            except OttlaError as error:
                self._cluster.forget_stale(error)
                if not is_retriable(error):
                    self.failure = error
                    self._notify()
                    return
                await self._runtime.sleep(backoff.next_ms() / 1000)

    async def _join_and_sync(self) -> frozenset[TopicPartition]:
        subscription = Subscription(
            tuple(self.topics), tuple(self.owned), self.generation, self._settings.client_rack or None
        )
        data = encode_subscription(subscription)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.max_poll_interval_ms,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name in self._assignors],
        )
        request.group_instance_id = self._settings.group_instance_id
        patience_ms = self._settings.max_poll_interval_ms + 5_000
        joined = await self._cluster.ask_coordinator(GROUP, self.group, request, timeout_ms=patience_ms)
        if joined.error_code == errors.MemberIdRequired.code:
            self.member_id = joined.member_id
        check(joined)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        sync = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=await self._share_out(joined) if joined.leader == joined.member_id else [],
        )
        sync.group_instance_id = self._settings.group_instance_id
        sync.protocol_type, sync.protocol_name = "consumer", joined.protocol_name
        synced = await self._cluster.ask_coordinator(GROUP, self.group, sync, timeout_ms=patience_ms)
        check(synced)
        return frozenset(decode_assignment(synced.assignment))

    async def _share_out(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """The leader's duty; skipped when the broker says that a static member only came back."""
        if joined.skip_assignment:
            return []
        members = {member.member_id: decode_subscription(member.metadata) for member in joined.members}
        topics = {topic for subscription in members.values() for topic in subscription.topics}
        await self._cluster.refresh(topics)
        self._counts = self._partition_counts(topics)
        name = joined.protocol_name or self._assignors[0]
        assignment = ASSIGNORS[name](members, self._counts)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
            for member, partitions in assignment.items()
        ]

    def _partition_counts(self, topics: set[str]) -> dict[str, int]:
        known = self._cluster.image.topics
        return {topic: len(known[topic].partitions) for topic in topics if topic in known}

    # -- heartbeats --------------------------------------------------------------------------------

    async def _beat(self) -> None:
        while self.failure is None:
            await self._runtime.sleep(self._settings.heartbeat_interval_ms / 1000)
            joining = self._joining is not None and not self._joining.done()
            if self.generation < 0 or joining or self.lost:
                continue
            try:
                await self._watch_counts()
                await self._heartbeat()
            except OttlaError as error:
                self._cluster.forget_stale(error)
                if not is_retriable(error):
                    self.failure = error
                    self._notify()

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id
        )
        request.group_instance_id = self._settings.group_instance_id
        answer = await self._cluster.ask_coordinator(GROUP, self.group, request)
        if self._joining is not None or request.generation_id != self.generation:
            return  # a join has begun or ended since: the answer speaks of a generation that is over
        try:
            check(answer)
        except errors.RebalanceInProgress:
            self._needs_join = True
            self._notify()
        except (errors.UnknownMemberId, errors.IllegalGeneration):
            self._forget()
            self.lost = True
            self._notify()

    async def _watch_counts(self) -> None:
        """The leader notices when a topic that it shared out has more partitions now."""
        for topic in self._counts:
            with contextlib.suppress(OttlaError):
                await self._cluster.topic(topic)  # asks when what is known is too old
        if self._counts and self._partition_counts(set(self._counts)) != self._counts:
            self._counts = {}
            self._needs_join = True
            self._notify()

    async def _leave_late(self) -> None:
        if self._settings.group_instance_id is not None:
            self._forget()  # a static member is expected back: its session ends by itself
            return
        member = MemberIdentity(member_id=self.member_id)
        member.group_instance_id = None
        request = LeaveGroupRequest(group_id=self.group, member_id=self.member_id, members=[member])
        self._forget()
        await self._cluster.ask_coordinator(GROUP, self.group, request, timeout_ms=5_000)

    def _forget(self) -> None:
        self.member_id, self.generation = "", -1
