"""Requests about offsets: who may commit, read and delete, then `Offsets` does it.

The empty group id is one like any other here, as it has always been in Kafka.
"""

from ottla import errors
from ottla.coordination.groups.classic import ClassicProtocol
from ottla.coordination.groups.classic_group import ClassicGroup
from ottla.coordination.groups.consumer import ConsumerProtocol
from ottla.coordination.groups.consumer_group import FIRST_COMMIT_VERSION
from ottla.coordination.groups.decision import Decision, GroupEffects
from ottla.coordination.groups.environment import Environment
from ottla.coordination.groups.offsets import (
    Offsets,
    PartitionCheck,
    anything,
    refuse_commit,
    refuse_transactional,
)
from ottla.coordination.groups.state import GroupState
from ottla.coordination.groups.streams.group import StreamsGroup
from ottla.coordination.groups.streams.protocol import StreamsProtocol
from ottla.effects import Effects, Token, answer_to, reply_to
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse


class OffsetRequests:
    def __init__(
        self,
        environment: Environment,
        state: GroupState,
        classic: ClassicProtocol,
        consumer: ConsumerProtocol,
        streams: StreamsProtocol,
    ) -> None:
        self._state, self._classic, self._consumer, self._streams = state, classic, consumer, streams
        self._offsets = Offsets(environment, state.offsets)

    def on_offset_commit(
        self, request: OffsetCommitRequest, version: int, token: Token[OffsetCommitResponse], now_ms: int
    ) -> GroupEffects:
        decision = Decision()
        try:
            check = self._check_commit(
                request.group_id,
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                version,
                transactional=False,
            )
            records, answer = self._offsets.commit(request, check, now_ms)
        except errors.ProtocolError as error:
            decision.reply(token, refuse_commit(request, error.code))
            return decision.effects()
        self._extend_session(request, decision)
        decision.record(*records)
        decision.reply(token, answer)
        return decision.effects()

    def on_txn_offset_commit(
        self, request: TxnOffsetCommitRequest, token: Token[TxnOffsetCommitResponse], now_ms: int
    ) -> GroupEffects:
        """The records belong to the producer's transaction: they count when its marker says so."""
        try:
            check_group_id(request.group_id)
            check = self._check_commit(
                request.group_id,
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                None,
                transactional=True,
            )
            records, answer = self._offsets.commit_in_transaction(request, check, now_ms)
        except errors.StaleMemberEpoch:
            answer = refuse_transactional(request, errors.IllegalGeneration.code)
            return answer_to(token, answer)
        except errors.ProtocolError as error:
            return answer_to(token, refuse_transactional(request, error.code))
        producer = (request.producer_id, request.producer_epoch)
        return Effects(tuple(records), (reply_to(token, answer),), producer=producer if records else None)

    def _check_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int | None,
        *,
        transactional: bool,
    ) -> PartitionCheck:
        """Who may commit at all; what is left to check for each partition."""
        if group_id in self._state.share_groups:
            raise errors.GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        group = self._state.groups.get(group_id)
        if group is None:
            if generation >= 0:  # from version 9 on, so for all members of the new protocol, it has a name
                not_found = version is not None and version >= FIRST_COMMIT_VERSION
                raise errors.GroupIdNotFound if not_found else errors.IllegalGeneration
            return anything
        if isinstance(group, ClassicGroup):
            group.validate_commit(member_id, instance_id, generation, transactional=transactional)
            return anything
        if isinstance(group, StreamsGroup):
            return self._streams.check_commit(
                group, member_id, instance_id, generation, version, transactional=transactional
            )
        return self._consumer.check_commit(
            group, member_id, instance_id, generation, version, transactional=transactional
        )

    def _extend_session(self, request: OffsetCommitRequest, decision: Decision) -> None:
        """A commit shows that the member is alive: its session (classic protocol) restarts."""
        group = self._state.groups.get(request.group_id)
        if isinstance(group, ClassicGroup) and request.member_id in group.members:
            self._classic.rebalance.keep_alive(group, group.members[request.member_id], decision)

    def on_offset_fetch(
        self,
        request: OffsetFetchRequestGroup,
        require_stable: bool,
        token: Token[OffsetFetchResponseGroup],
        now_ms: int,
    ) -> GroupEffects:
        try:
            group = self._state.groups.get(request.group_id)
            if group is not None:
                group.validate_fetch(request.member_id, request.member_epoch)
        except errors.ProtocolError as error:
            refused = OffsetFetchResponseGroup(group_id=request.group_id, error_code=error.code)
            return answer_to(token, refused)
        answer = self._offsets.fetch(request, require_stable=require_stable)
        return answer_to(token, answer)

    def on_offset_delete(
        self, request: OffsetDeleteRequest, token: Token[OffsetDeleteResponse], now_ms: int
    ) -> GroupEffects:
        try:
            group = self._state.existing(request.group_id)
            group.validate_offset_delete()
        except errors.ProtocolError as error:
            return answer_to(token, OffsetDeleteResponse(error_code=error.code))
        records, answer = self._offsets.delete(request, group.is_subscribed_to)
        return Effects(tuple(records), (reply_to(token, answer),))


def check_group_id(group_id: str) -> None:
    if not group_id:
        raise errors.InvalidGroupId
