"""Classic members inside a consumer group: the classic requests, answered from the group's own state.

They rejoin whenever they have something to give up or to get; the server makes their assignments.
"""

from collections.abc import Iterable

from ottla import errors
from ottla.coordination.groups import decision as timers
from ottla.coordination.groups import records as r
from ottla.coordination.groups.classic import MEMBER_ID_REQUIRED_FROM, new_member_id
from ottla.coordination.groups.consumer import ConsumerProtocol
from ottla.coordination.groups.consumer_group import ConsumerGroup, ConsumerMember, MemberState
from ottla.coordination.groups.decision import Decision
from ottla.coordination.groups.draft import Draft
from ottla.coordination.groups.environment import Client, Environment
from ottla.coordination.groups.rebalance import join_error
from ottla.coordination.groups.records import Partitions
from ottla.coordination.groups.subscription import (
    CONSUMER,
    parse_subscription,
    version_of,
    write_assignment,
)
from ottla.effects import Token
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class MixedProtocol:
    def __init__(self, environment: Environment, consumer: ConsumerProtocol) -> None:
        self._env = environment
        self._consumer = consumer
        self._rejoining: set[tuple[str, str]] = set()  # soft: whose timer already runs

    def on_join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        version: int,
        client: Client,
        token: Token[JoinGroupResponse],
        now_ms: int,
        decision: Decision,
    ) -> None:
        protocol = self._common_protocol(group, request)
        self._consumer.membership.check_room(group, request.member_id)
        member_id = request.member_id
        if member_id == "":
            member_id = new_member_id(request, client, self._env)
            if request.group_instance_id is None and version >= MEMBER_ID_REQUIRED_FROM:
                decision.reply(token, join_error(errors.MemberIdRequired.code, version, member_id))
                return
        elif request.group_instance_id is not None:
            group.member(member_id, request.group_instance_id)
        subscription = _readable(protocol)
        draft = Draft(group, decision)
        if request.group_instance_id in group.statics:
            assert request.group_instance_id is not None
            self._consumer.membership.take_static_place(
                draft, request.group_instance_id, member_id, must_be_released=False
            )
        metadata = _described(request, subscription, client)
        changed = self._consumer.membership.describe(draft, member_id, metadata)
        owned = self._owned(draft.group.members[member_id], subscription)
        member = self._consumer.settle(draft, member_id, client, owned, now_ms, subscription_changed=changed)
        self._expect(group.group_id, member, decision)
        answer = JoinGroupResponse(
            generation_id=member.epoch,
            protocol_type=CONSUMER,
            protocol_name=protocol.name,
            member_id=member_id,
        )
        decision.reply(token, answer)

    def on_sync(
        self,
        group: ConsumerGroup,
        request: SyncGroupRequest,
        token: Token[SyncGroupResponse],
        decision: Decision,
    ) -> None:
        member = self._classic_member(group, request.member_id, request.group_instance_id)
        if request.generation_id != member.epoch:
            raise errors.IllegalGeneration
        if request.protocol_type not in (None, CONSUMER):
            raise errors.InconsistentGroupProtocol
        if request.protocol_name not in (None, *(name for name, _ in _protocols(member))):
            raise errors.InconsistentGroupProtocol
        if member.epoch < group.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._ask_to_rejoin(group.group_id, member, decision)
            raise errors.RebalanceInProgress
        self._synced(group.group_id, member, decision)
        decision.reply(
            token,
            SyncGroupResponse(
                protocol_type=CONSUMER,
                protocol_name=request.protocol_name,
                assignment=self._assignment(member),
            ),
        )

    def on_heartbeat(
        self,
        group: ConsumerGroup,
        request: HeartbeatRequest,
        token: Token[HeartbeatResponse],
        decision: Decision,
    ) -> None:
        member = self._classic_member(group, request.member_id, request.group_instance_id)
        if request.generation_id != member.epoch:
            raise errors.IllegalGeneration
        self._keep_alive(group.group_id, member, decision)
        code = errors.NONE
        if _must_rejoin(group, member):
            self._ask_to_rejoin(group.group_id, member, decision)
            code = errors.RebalanceInProgress.code
        decision.reply(token, HeartbeatResponse(error_code=code))

    def leaving(
        self, group: ConsumerGroup, members: list[MemberIdentity]
    ) -> tuple[list[str], list[MemberResponse]]:
        """Who goes, and the answers. An administrator names a static member by its instance alone."""
        leaving: list[str] = []
        answers = []
        for member in members:
            code = errors.NONE
            try:
                member_id = member.member_id
                if member_id == "":
                    member_id = group.statics.get(member.group_instance_id or "", "")
                known_id = group.member(member_id, member.group_instance_id).member_id
                if known_id not in leaving:
                    leaving.append(known_id)
            except errors.ProtocolError as error:
                code = error.code
            answers.append(
                MemberResponse(
                    member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=code
                )
            )
        return leaving, answers

    def forget(self, group_id: str, member_ids: Iterable[str]) -> None:
        self._rejoining.difference_update((group_id, member_id) for member_id in member_ids)

    # Below: the steps

    def _common_protocol(self, group: ConsumerGroup, request: JoinGroupRequest) -> JoinGroupRequestProtocol:
        """The first that all classic members of the group know."""
        if request.protocol_type != CONSUMER or not request.protocols:
            raise errors.InconsistentGroupProtocol
        common = {protocol.name for protocol in request.protocols}
        for member in group.classic_members():
            if member.member_id != request.member_id:
                common &= {name for name, _ in _protocols(member)}
        chosen = next((protocol for protocol in request.protocols if protocol.name in common), None)
        if chosen is None:
            raise errors.InconsistentGroupProtocol
        return chosen

    def _owned(self, member: ConsumerMember, subscription: ConsumerProtocolSubscription) -> Partitions:
        """What it still has. An eager member has given up everything before it joins; what a member
        remembers of another epoch does not count."""
        if subscription.generation_id not in (-1, member.epoch):
            return frozenset()
        topics = self._env.topics
        return frozenset(
            (topic_id, number)
            for topic in subscription.owned_partitions
            if (topic_id := topics.topic_id(topic.topic)) is not None
            for number in topic.partitions
        )

    def _classic_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> ConsumerMember:
        member = group.member(member_id, instance_id)
        if not member.is_classic:
            raise errors.UnknownMemberId
        return member

    def _assignment(self, member: ConsumerMember) -> bytes:
        partitions: dict[str, list[int]] = {}
        for topic_id, partition in member.assigned_partitions:
            name = self._env.topics.topic_name(topic_id)
            if name is not None:
                partitions.setdefault(name, []).append(partition)
        return write_assignment(partitions, version_of(_protocols(member)[0][1]))

    # Timers: the session always runs; after a join the sync is due, after a hint the join

    def _keep_alive(self, group_id: str, member: ConsumerMember, decision: Decision) -> None:
        name = timers.session(group_id, member.member_id)
        decision.arm(name, self._consumer.session_timeout_ms(group_id, member))

    def _expect(self, group_id: str, member: ConsumerMember, decision: Decision) -> None:
        self._keep_alive(group_id, member, decision)
        self._rejoining.discard((group_id, member.member_id))
        decision.disarm(timers.revocation(group_id, member.member_id))  # runs after a restart
        decision.arm(timers.rejoin(group_id, member.member_id), member.metadata.rebalance_timeout_ms)

    def _synced(self, group_id: str, member: ConsumerMember, decision: Decision) -> None:
        self._keep_alive(group_id, member, decision)
        self._rejoining.discard((group_id, member.member_id))
        decision.disarm(timers.rejoin(group_id, member.member_id))

    def _ask_to_rejoin(self, group_id: str, member: ConsumerMember, decision: Decision) -> None:
        key = (group_id, member.member_id)
        if key not in self._rejoining:
            self._rejoining.add(key)
            decision.arm(timers.rejoin(group_id, member.member_id), member.metadata.rebalance_timeout_ms)


def _must_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """The group moved on, or there is something to give up, or what it waits for is free now."""
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    missing = group.target_of(member.member_id) - member.assigned_partitions
    return any(partition not in group.owners for partition in missing)


def _readable(protocol: JoinGroupRequestProtocol) -> ConsumerProtocolSubscription:
    try:
        return parse_subscription(bytes(protocol.metadata))
    except errors.InvalidRequest as error:
        raise errors.InconsistentGroupProtocol from error


def _protocols(member: ConsumerMember) -> tuple[tuple[str, bytes], ...]:
    return member.metadata.classic.supported_protocols if member.metadata.classic is not None else ()


def _described(
    request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, client: Client
) -> r.MemberMetadataValue:
    timeout = request.rebalance_timeout_ms
    return r.MemberMetadataValue(
        request.group_instance_id,
        subscription.rack_id,
        client.client_id,
        client.host,
        tuple(sorted(set(subscription.topics))),
        "",
        timeout if timeout >= 0 else request.session_timeout_ms,
        None,
        r.ClassicMemberMetadata(
            request.session_timeout_ms,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        ),
    )
