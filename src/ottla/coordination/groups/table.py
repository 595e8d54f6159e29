"""The group machine: all groups and offsets of one shard of `__consumer_offsets`, and who answers what."""

from collections.abc import Iterable

from ottla import errors
from ottla.coordination.groups import decision as timers
from ottla.coordination.groups import records as r
from ottla.coordination.groups.administration import Administration
from ottla.coordination.groups.classic import ClassicProtocol
from ottla.coordination.groups.classic_group import ClassicGroup
from ottla.coordination.groups.consumer import ConsumerProtocol
from ottla.coordination.groups.consumer_group import JOIN_EPOCH, ConsumerGroup
from ottla.coordination.groups.decision import Decision, GroupEffects, GroupTimer, TimerKind
from ottla.coordination.groups.deleted_topics import DeletedTopics
from ottla.coordination.groups.environment import Client, Environment
from ottla.coordination.groups.expiry import Group, expired
from ottla.coordination.groups.migration import Migration
from ottla.coordination.groups.mixed import MixedProtocol
from ottla.coordination.groups.offset_requests import OffsetRequests, check_group_id
from ottla.coordination.groups.rebalance import join_error
from ottla.coordination.groups.regex import Question
from ottla.coordination.groups.share import ShareProtocol
from ottla.coordination.groups.share_requests import ShareRequests
from ottla.coordination.groups.state import GroupState
from ottla.coordination.groups.streams.group import StreamsGroup
from ottla.coordination.groups.streams.protocol import StreamsProtocol
from ottla.coordination.groups.streams.requests import StreamsRequests
from ottla.effects import Token, answer_to
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

BATCH_LEAVE_FROM = 3  # LeaveGroup version
PROTOCOL_NEEDED_FROM = 5  # SyncGroup version


class GroupTable:
    """A Machine of the coordination contract. Each `on_` answers its own token, errors included."""

    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self._classic = ClassicProtocol(environment)
        self._consumer = ConsumerProtocol(environment)
        self._migration = Migration(environment, self._classic.rebalance)
        self._mixed = MixedProtocol(environment, self._consumer)
        self._share = ShareProtocol(environment)
        self._streams = StreamsProtocol(environment)
        self.state = GroupState(self._on_group_gone)
        self._deleted_topics = DeletedTopics(environment, self.state)
        offsets = OffsetRequests(environment, self.state, self._classic, self._consumer, self._streams)
        self.on_offset_commit = offsets.on_offset_commit
        self.on_txn_offset_commit = offsets.on_txn_offset_commit
        self.on_offset_fetch = offsets.on_offset_fetch
        self.on_offset_delete = offsets.on_offset_delete
        administration = Administration(environment, self.state)
        self.on_list_groups = administration.on_list_groups
        self.on_describe_groups = administration.on_describe_groups
        self.on_consumer_group_describe = administration.on_consumer_group_describe
        self.on_delete_groups = administration.on_delete_groups
        self.on_share_group_describe = administration.on_share_group_describe
        share = ShareRequests(environment, self.state, self._share)
        self.on_share_group_heartbeat = share.on_share_group_heartbeat
        self.on_share_states = share.on_share_states
        streams = StreamsRequests(self.state, self._streams)
        self.on_streams_group_heartbeat = streams.on_streams_group_heartbeat
        self.on_streams_group_describe = streams.on_streams_group_describe

    def _on_group_gone(self, group_id: str) -> None:
        self._consumer.forget(group_id)
        self._streams.forget(group_id)

    # Records

    def apply(self, record: r.GroupRecord, offset: int, producer: tuple[int, int] | None) -> None:
        self.state.apply(record, offset, producer)

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool, offset: int) -> None:
        self.state.apply_marker(producer_id, producer_epoch, committed, offset)

    def on_loaded(self, now_ms: int) -> GroupEffects:
        """All that was replayed: sessions start now, so that members have time to come back."""
        self.state.loaded = True
        decision = Decision()
        for group in self.state.groups.values():
            if isinstance(group, ClassicGroup):
                self._classic.on_loaded(group, decision)
            elif isinstance(group, StreamsGroup):
                self._streams.on_loaded(group, decision)
            else:
                self._consumer.on_loaded(group, now_ms, decision)
        for share_group in self.state.share_groups.values():
            self._share.on_loaded(share_group, decision)
        self._deleted_topics.look(decision)
        decision.arm(timers.EXPIRY, self._env.settings.offsets_retention_check_interval_ms)
        return decision.effects()

    # Time

    def on_timer(self, name: GroupTimer, now_ms: int) -> GroupEffects:
        decision = Decision()
        if name.kind is TimerKind.EXPIRY:
            self._expire(now_ms, decision)
        elif name.kind is TimerKind.DELETED_TOPICS:
            self._deleted_topics.on_due(decision)
        else:
            self._on_due(name, self.state.groups.get(name.group_id), now_ms, decision)
        if self._is_retried(name):
            decision.retry(name)
        return decision.effects()

    def _is_retried(self, timer: GroupTimer) -> bool:
        """The members of classic groups are soft state: a time-out removes them whether it is written or not, and
        `Rebalance` retries what must be written."""
        match timer.kind:
            case TimerKind.EXPIRY | TimerKind.FIRST_ASSIGNMENT:
                return True
            case TimerKind.SESSION | TimerKind.REVOCATION | TimerKind.REJOIN:
                return (
                    isinstance(self.state.groups.get(timer.group_id), ConsumerGroup | StreamsGroup)
                    or timer.group_id in self.state.share_groups
                )
            case _:
                return False

    def _on_due(self, timer: GroupTimer, group: Group | None, now_ms: int, decision: Decision) -> None:
        """A timer may outlive its group, or find another kind of group under its id."""
        match timer.kind, group:
            case TimerKind.SESSION, ClassicGroup():
                self._classic.on_session_timeout(group, timer.member_id, now_ms, decision)
            case ((TimerKind.SESSION | TimerKind.REVOCATION | TimerKind.REJOIN), _):
                self._fence(timer, now_ms, decision)
            case TimerKind.JOIN, ClassicGroup():
                self._classic.rebalance.on_join_timeout(group, now_ms, decision)
            case TimerKind.SYNC, ClassicGroup():
                self._classic.rebalance.on_sync_timeout(group, now_ms, decision)
            case TimerKind.HOLD, ClassicGroup():
                self._classic.on_hold_over(group, decision)
            case TimerKind.REBALANCE, ClassicGroup():
                if group.members:
                    self._classic.rebalance.prepare(group, now_ms, decision, "back to the classic protocol")
            case TimerKind.FIRST_ASSIGNMENT, StreamsGroup():
                self._streams.on_delay_over(group, now_ms, decision)

    def _fence(self, timer: GroupTimer, now_ms: int, decision: Decision) -> None:
        group_id, member_id, why = timer.group_id, timer.member_id, f"{timer.kind.value} timed out"
        group = self.state.groups.get(group_id)
        share_group = self.state.share_groups.get(group_id)
        if share_group is not None and member_id in share_group.members:
            self._share.remove(share_group, [member_id], why, decision)
        elif isinstance(group, ConsumerGroup) and member_id in group.members:
            self._remove_consumer_members(group, [member_id], why, now_ms, decision)
        elif isinstance(group, StreamsGroup) and member_id in group.members:
            self._streams.remove(group, member_id, why, decision)

    def _remove_consumer_members(
        self, group: ConsumerGroup, member_ids: list[str], why: str, now_ms: int, decision: Decision
    ) -> None:
        """The last member of the new protocol takes the group back to the classic one."""
        self._mixed.forget(group.group_id, member_ids)
        if self._migration.should_downgrade(group, member_ids):
            self._consumer.disarm(group.group_id, group.members, decision)
            self._migration.downgrade(group, member_ids, now_ms, decision)
        else:
            self._consumer.remove(group, member_ids, why, now_ms, decision)

    def _expire(self, now_ms: int, decision: Decision) -> None:
        retention_ms = self._env.settings.offsets_retention_ms
        for group in list(self.state.groups.values()):
            gone = list(expired(group, self.state.offsets, retention_ms, now_ms))
            decision.record(*gone)
            remaining = len(self.state.offsets.of_group(group.group_id)) - len(gone)
            if group.is_empty and not remaining and not self.state.offsets.pending_of(group.group_id):
                self._env.report(f"group {group.group_id} dead: empty, and no offsets are left")
                decision.record(*group.tombstones())
        self._streams.forget_all_but(self.state.groups)
        self._deleted_topics.look(decision)
        decision.arm(timers.EXPIRY, self._env.settings.offsets_retention_check_interval_ms)

    # Topics

    def on_topics_changed(self) -> None:
        """New, grown or deleted topics: consumer groups look at them with their next heartbeat."""
        self._consumer.on_topics_changed()
        self._streams.on_topics_changed()

    def on_topic_deleted(self, name: str, now_ms: int) -> GroupEffects:
        """Tombstones for all offsets of the topic. Share groups have none: they forget its states."""
        decision = Decision()
        self._deleted_topics.look(decision)
        for group_id in sorted({*self.state.offsets.committed, *self._pending_groups()}):
            for record in self.state.offsets.tombstones(group_id):
                if record.topic == name:
                    decision.record(record)
        return decision.effects()

    def _pending_groups(self) -> Iterable[str]:
        return (group_id for groups in self.state.offsets.pending.values() for group_id in groups)

    # The classic protocol

    def on_join_group(
        self,
        request: JoinGroupRequest,
        version: int,
        client: Client,
        token: Token[JoinGroupResponse],
        now_ms: int,
    ) -> GroupEffects:
        decision = Decision()
        try:
            self._join(request, version, client, token, now_ms, decision)
        except errors.ProtocolError as error:
            code, member_id = error.code, request.member_id
            if isinstance(error, errors.GroupMaxSizeReached):
                member_id = ""
            decision.reply(token, join_error(code, version, member_id))
        return decision.effects()

    def _join(
        self,
        request: JoinGroupRequest,
        version: int,
        client: Client,
        token: Token[JoinGroupResponse],
        now_ms: int,
        decision: Decision,
    ) -> None:
        check_group_id(request.group_id)
        settings = self._env.settings
        least, most = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
        if not least <= request.session_timeout_ms <= most:
            raise errors.InvalidSessionTimeout
        group = self.state.groups.get(request.group_id)
        if request.group_id in self.state.share_groups:
            raise errors.InconsistentGroupProtocol
        if isinstance(group, ConsumerGroup):
            if not group.is_empty:
                self._mixed.on_join(group, request, version, client, token, now_ms, decision)
                return
            self._join_in_place_of(group, request, version, client, token, now_ms, decision)
            return
        if isinstance(group, StreamsGroup):
            if not group.is_empty:
                raise errors.InconsistentGroupProtocol
            self._join_in_place_of(group, request, version, client, token, now_ms, decision)
            return
        if group is None:
            if request.member_id != "":
                raise errors.UnknownMemberId
            group = ClassicGroup(request.group_id)
            self._classic.on_join(group, request, version, client, token, now_ms, decision)
            self.state.groups[request.group_id] = group  # only there if the join was accepted
            return
        self._classic.on_join(group, request, version, client, token, now_ms, decision)

    def _join_in_place_of(
        self,
        group: ConsumerGroup | StreamsGroup,
        request: JoinGroupRequest,
        version: int,
        client: Client,
        token: Token[JoinGroupResponse],
        now_ms: int,
        decision: Decision,
    ) -> None:
        """A classic group takes the place of one without members, if the join is accepted."""
        successor = ClassicGroup(request.group_id)
        self._classic.on_join(successor, request, version, client, token, now_ms, decision)
        tombstones = group.tombstones()
        decision.record(*tombstones)
        self.state.succeed(tombstones, successor)

    def on_sync_group(
        self, request: SyncGroupRequest, version: int, token: Token[SyncGroupResponse], now_ms: int
    ) -> GroupEffects:
        decision = Decision()
        try:
            check_group_id(request.group_id)
            if version >= PROTOCOL_NEEDED_FROM and None in (request.protocol_type, request.protocol_name):
                raise errors.InconsistentGroupProtocol
            group = self.state.groups.get(request.group_id)
            if group is None or isinstance(group, StreamsGroup):
                raise errors.UnknownMemberId
            if isinstance(group, ClassicGroup):
                self._classic.on_sync(group, request, token, now_ms, decision)
            else:
                self._mixed.on_sync(group, request, token, decision)
        except errors.ProtocolError as error:
            decision.reply(token, SyncGroupResponse(error_code=error.code))
        return decision.effects()

    def on_heartbeat(
        self, request: HeartbeatRequest, token: Token[HeartbeatResponse], now_ms: int
    ) -> GroupEffects:
        decision = Decision()
        try:
            check_group_id(request.group_id)
            group = self.state.groups.get(request.group_id)
            if group is None or isinstance(group, StreamsGroup):
                raise errors.UnknownMemberId
            if isinstance(group, ClassicGroup):
                self._classic.on_heartbeat(group, request, token, decision)
            else:
                self._mixed.on_heartbeat(group, request, token, decision)
        except errors.ProtocolError as error:
            decision.reply(token, HeartbeatResponse(error_code=error.code))
        return decision.effects()

    def on_leave_group(
        self, request: LeaveGroupRequest, version: int, token: Token[LeaveGroupResponse], now_ms: int
    ) -> GroupEffects:
        decision = Decision()
        batched = version >= BATCH_LEAVE_FROM
        members = request.members if batched else [MemberIdentity(member_id=request.member_id)]
        try:
            check_group_id(request.group_id)
            answers = self._leave(request.group_id, members, now_ms, decision)
        except errors.ProtocolError as error:
            decision.reply(token, LeaveGroupResponse(error_code=error.code))
            return decision.effects()
        code = errors.NONE if batched else answers[0].error_code
        decision.reply(token, LeaveGroupResponse(error_code=code, members=answers if batched else []))
        return decision.effects()

    def _leave(
        self, group_id: str, members: list[MemberIdentity], now_ms: int, decision: Decision
    ) -> list[MemberResponse]:
        group = self.state.groups.get(group_id)
        if group is None or isinstance(group, StreamsGroup):
            group = ClassicGroup(group_id)  # where nobody is in
        if isinstance(group, ClassicGroup):
            return self._classic.on_leave(group, members, now_ms, decision)
        leaving, answers = self._mixed.leaving(group, members)
        if leaving:
            self._remove_consumer_members(group, leaving, "left", now_ms, decision)
        return answers

    # The consumer protocol

    def on_consumer_group_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client: Client,
        token: Token[ConsumerGroupHeartbeatResponse],
        now_ms: int,
    ) -> GroupEffects:
        decision = Decision()
        try:
            self._consumer.validate(request, version)
            self._consumer_heartbeat(request, client, token, now_ms, decision)
        except errors.ProtocolError as error:
            answer = ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            return answer_to(token, answer)
        return decision.effects()

    def open_questions(self, request: ConsumerGroupHeartbeatRequest) -> list[Question]:
        """What a heartbeat needs to know about patterns. `learn` takes the answers; finding them takes long."""
        group = self.state.groups.get(request.group_id)
        return self._consumer.open_questions(group if isinstance(group, ConsumerGroup) else None, request)

    def learn(self, question: Question, fitting: frozenset[str]) -> None:
        self._env.patterns.learn(question, fitting)

    def _consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        token: Token[ConsumerGroupHeartbeatResponse],
        now_ms: int,
        decision: Decision,
    ) -> None:
        group = self.state.groups.get(request.group_id)
        if request.group_id in self.state.share_groups or isinstance(group, StreamsGroup):
            raise errors.GroupIdNotFound(f"Group {request.group_id} is not a consumer group.")
        if request.member_epoch < JOIN_EPOCH:
            if not isinstance(group, ConsumerGroup):
                raise errors.GroupIdNotFound(f"Group {request.group_id} not found.")
            leaving = self._consumer.on_leave(group, request, token, decision)
            if leaving is not None:
                self._remove_consumer_members(group, [leaving], "left", now_ms, decision)
            return
        classic = group if isinstance(group, ClassicGroup) else None
        if classic is not None and request.member_epoch == JOIN_EPOCH:
            group = self._migration.upgrade(classic, decision)
        if group is None and request.member_epoch == JOIN_EPOCH:
            group = ConsumerGroup(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise errors.GroupIdNotFound(f"Consumer group {request.group_id} not found.")
        self._consumer.on_heartbeat(group, request, client, token, now_ms, decision)
        if classic is not None:
            self._migration.release(classic, decision)
