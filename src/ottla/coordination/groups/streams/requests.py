"""Requests of members and administrators of streams groups: which group it is, then the protocol decides."""

from ottla import errors
from ottla.coordination.groups.classic_group import ClassicGroup
from ottla.coordination.groups.decision import Decision, GroupEffects
from ottla.coordination.groups.environment import Client
from ottla.coordination.groups.state import GroupState
from ottla.coordination.groups.streams import describe
from ottla.coordination.groups.streams.checks import validate
from ottla.coordination.groups.streams.group import JOIN_EPOCH, StreamsGroup
from ottla.coordination.groups.streams.heartbeat import HeartbeatAnswer, refusal
from ottla.coordination.groups.streams.protocol import StreamsProtocol
from ottla.effects import Token, answer_to
from ottla.wire.messages.streams_group_describe import DescribedGroup
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


class StreamsRequests:
    def __init__(self, state: GroupState, protocol: StreamsProtocol) -> None:
        self._state, self._protocol = state, protocol

    def on_streams_group_heartbeat(
        self,
        request: StreamsGroupHeartbeatRequest,
        client: Client,
        token: Token[HeartbeatAnswer],
        now_ms: int,
    ) -> GroupEffects:
        decision = Decision()
        try:
            validate(request)
            if request.member_epoch < JOIN_EPOCH:
                self._leave(request, token, decision)
            else:
                self._heartbeat(request, client, token, now_ms, decision)
        except errors.ProtocolError as error:
            if request.group_id not in self._state.groups:
                self._protocol.forget(request.group_id)
            return answer_to(token, HeartbeatAnswer(refusal(error)))
        return decision.effects()

    def _leave(
        self, request: StreamsGroupHeartbeatRequest, token: Token[HeartbeatAnswer], decision: Decision
    ) -> None:
        group = self._state.groups.get(request.group_id)
        if not isinstance(group, StreamsGroup):
            raise _not_a_streams_group(request.group_id)
        self._protocol.leave(group, request, decision)
        answer = StreamsGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, status=[]
        )
        decision.reply(token, HeartbeatAnswer(answer))

    def _heartbeat(
        self,
        request: StreamsGroupHeartbeatRequest,
        client: Client,
        token: Token[HeartbeatAnswer],
        now_ms: int,
        decision: Decision,
    ) -> None:
        group = self._state.groups.get(request.group_id)
        is_new = not isinstance(group, StreamsGroup)
        if not isinstance(group, StreamsGroup):
            group = self._joined(request, decision)
        self._protocol.on_heartbeat(group, request, client, token, now_ms, decision, is_new=is_new)

    def _joined(self, request: StreamsGroupHeartbeatRequest, decision: Decision) -> StreamsGroup:
        """A new group, which may take the place of a classic one without members; its offsets stay."""
        known = self._state.groups.get(request.group_id)
        if known is None and request.group_id not in self._state.share_groups:
            if request.member_epoch != JOIN_EPOCH:
                raise errors.GroupIdNotFound(f"Streams group {request.group_id} not found.")
            return StreamsGroup(request.group_id)
        if isinstance(known, ClassicGroup) and known.is_empty and request.member_epoch == JOIN_EPOCH:
            decision.record(*known.tombstones())
            return StreamsGroup(request.group_id)
        raise _not_a_streams_group(request.group_id)

    def on_streams_group_describe(
        self, group_ids: list[str], token: Token[list[DescribedGroup]]
    ) -> GroupEffects:
        """Replies with a list of streams_group_describe.DescribedGroup."""
        return answer_to(token, [self._described(group_id) for group_id in group_ids])

    def _described(self, group_id: str) -> DescribedGroup:
        group = self._state.groups.get(group_id)
        if not isinstance(group, StreamsGroup):
            is_there = group is not None or group_id in self._state.share_groups
            return describe.unknown(group_id, is_there=is_there)
        return describe.described(group, self._protocol.configured_of(group))


def _not_a_streams_group(group_id: str) -> errors.GroupIdNotFound:
    return errors.GroupIdNotFound(f"Group {group_id} is not a streams group.")
