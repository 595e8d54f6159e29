"""The consumer protocol (KIP-848): ConsumerGroupHeartbeat 0-1, and commits of its members."""

from collections.abc import Iterable
from dataclasses import replace

from ottla import errors
from ottla.coordination.groups import decision as timers
from ottla.coordination.groups import records as r
from ottla.coordination.groups import regex as regexes
from ottla.coordination.groups.consumer_group import (
    FIRST_COMMIT_VERSION,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from ottla.coordination.groups.decision import Decision
from ottla.coordination.groups.draft import Draft
from ottla.coordination.groups.environment import Client, Environment
from ottla.coordination.groups.membership import NOBODY, Membership
from ottla.coordination.groups.offsets import PartitionCheck, anything
from ottla.coordination.groups.records import Partitions
from ottla.effects import Token
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)

CLIENT_MADE_IDS_FROM = 1  # version: members choose their ids themselves


class ConsumerProtocol:
    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self.membership = Membership(environment)
        # Soft state: when a group changed last, and which version of the topics it has looked at.
        self._changed_ms: dict[str, int] = {}
        self._topics_seen: dict[str, int] = {}
        self._topics_version = 0

    def validate(self, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        """What is wrong with the request itself; the texts are Kafka's."""
        joins = request.member_epoch == JOIN_EPOCH
        _refuse_if(not request.group_id.strip(), "GroupId can't be empty.")
        _refuse_if(
            not request.member_id.strip() and (version >= CLIENT_MADE_IDS_FROM or not joins),
            "MemberId can't be empty.",
        )
        _refuse_if(
            request.instance_id is not None and not request.instance_id.strip(), "InstanceId can't be empty."
        )
        _refuse_if(request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty.")
        _refuse_if(request.member_epoch < LEAVE_STATIC_EPOCH, "MemberEpoch is invalid.")
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            _refuse_if(request.instance_id is None, "InstanceId can't be null.")
        if joins:
            _refuse_if(
                request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request."
            )
            _refuse_if(
                request.topic_partitions is None or len(request.topic_partitions) > 0,
                "TopicPartitions must be empty when (re-)joining.",
            )
            _refuse_if(
                request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-empty when (re-)joining.",
            )
        assignors = self._env.settings.group_consumer_assignors
        if request.server_assignor is not None and request.server_assignor not in assignors:
            raise errors.UnsupportedAssignor(
                f"ServerAssignor {request.server_assignor} is not supported. "
                f"Supported assignors: {', '.join(assignors)}."
            )
        if request.subscribed_topic_regex:
            regexes.check(request.subscribed_topic_regex, self._env.settings.group_consumer_regex_max_length)

    def on_heartbeat(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        token: Token[ConsumerGroupHeartbeatResponse],
        now_ms: int,
        decision: Decision,
    ) -> None:
        draft = Draft(group, decision)
        owned = _partitions(request)
        member_id = request.member_id or self._env.new_id()
        self.membership.check_room(group, member_id)
        self._admit(draft, request, member_id, owned)
        before = draft.group.members.get(member_id)
        metadata = _described(before.metadata if before is not None else NOBODY, request, client)
        changed = self.membership.describe(draft, member_id, metadata)
        updated = self.settle(draft, member_id, client, owned, now_ms, subscription_changed=changed)
        self._arm(group.group_id, updated, before, decision)
        decision.reply(token, self._answer(request, updated, before, now_ms))

    def settle(
        self,
        draft: Draft,
        member_id: str,
        client: Client,
        owned: Partitions | None,
        now_ms: int,
        *,
        subscription_changed: bool,
    ) -> ConsumerMember:
        """The steps after a member has said what it wants."""
        group_id = draft.group.group_id
        stale = self._topics_seen.get(group_id) != self._topics_version
        if subscription_changed or stale:
            self.membership.resolve_regexes(draft, now_ms, client, topics_changed=stale)
            current = self.membership.metadata_hash(draft.group)
            if subscription_changed or current != draft.group.metadata_hash:
                why = f"{member_id} subscribes" if subscription_changed else "topics changed"
                self.membership.bump(draft, current, why)
            else:
                self._topics_seen[group_id] = self._topics_version  # seen, and nothing to write
        self.membership.retarget(draft, now_ms)
        updated = self.membership.reconcile(draft, member_id, owned)
        if draft.changed:
            self._changed_ms[group_id] = now_ms
        return updated

    def _admit(
        self,
        draft: Draft,
        request: ConsumerGroupHeartbeatRequest,
        member_id: str,
        owned: Partitions | None,
    ) -> None:
        """A member that joins is let in; one that is in must know its epoch."""
        if request.member_epoch == JOIN_EPOCH:
            if request.instance_id is not None and request.instance_id in draft.group.statics:
                self.membership.take_static_place(
                    draft, request.instance_id, member_id, must_be_released=True
                )
            return
        member = draft.group.member(member_id, request.instance_id)
        if request.member_epoch == member.epoch:
            return
        # The answer that carried the new epoch may have got lost.
        lost = request.member_epoch == member.previous_epoch and request.member_epoch < member.epoch
        if not lost or owned is None or not owned <= member.assigned_partitions:
            relation = "greater" if request.member_epoch > member.epoch else "smaller"
            raise errors.FencedMemberEpoch(
                f"The consumer group member has a {relation} member epoch ({request.member_epoch}) than the "
                f"one known by the group coordinator ({member.epoch}). The member must abandon all its "
                "partitions and rejoin."
            )

    def on_leave(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        token: Token[ConsumerGroupHeartbeatResponse],
        decision: Decision,
    ) -> str | None:
        """The member to remove; None when a static member will be back."""
        member = group.member(request.member_id, request.instance_id)
        answer = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        decision.reply(token, answer)
        if request.member_epoch == LEAVE_EPOCH:
            return member.member_id
        away = replace(member, epoch=LEAVE_STATIC_EPOCH, state=MemberState.STABLE, revoking=())
        decision.record(away.current(group.group_id))
        decision.disarm(timers.revocation(group.group_id, member.member_id))
        decision.arm(
            timers.session(group.group_id, member.member_id), self.session_timeout_ms(group.group_id, member)
        )
        self._env.report(f"group {group.group_id} epoch {group.epoch}: {member.member_id} is away")
        return None

    def remove(
        self, group: ConsumerGroup, member_ids: list[str], why: str, now_ms: int, decision: Decision
    ) -> None:
        """Removes the members and frees their partitions. The next heartbeat of any member computes the new target."""
        draft = Draft(group, decision)
        for member_id in member_ids:
            draft.remove(member_id)
        self.membership.drop_unused_regexes(draft)
        current = self.membership.metadata_hash(draft.group)
        self.membership.bump(draft, current, f"{', '.join(member_ids)}: {why}")
        self.disarm(group.group_id, member_ids, decision)
        self._changed_ms[group.group_id] = now_ms

    def disarm(self, group_id: str, member_ids: Iterable[str], decision: Decision) -> None:
        for member_id in member_ids:
            decision.disarm(
                timers.session(group_id, member_id),
                timers.revocation(group_id, member_id),
                timers.rejoin(group_id, member_id),
            )

    def check_commit(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int | None,
        *,
        transactional: bool,
    ) -> PartitionCheck:
        """Members commit under their epoch. A commit on its way while the epoch moved on still counts for
        what the member has had since (KIP-1251)."""
        if epoch < 0 and group.is_empty:
            return anything
        if transactional and epoch == -1 and member_id == "" and instance_id is None:
            return anything  # TxnOffsetCommit need not name a member; its producer is fenced instead
        member = group.member(member_id, instance_id)
        if member.is_classic:
            if member.epoch != epoch:
                raise errors.IllegalGeneration
            return anything
        if version is not None and version < FIRST_COMMIT_VERSION:
            raise errors.UnsupportedVersion("Members of a consumer group commit with version 9 or above.")
        if epoch > member.epoch:
            raise errors.StaleMemberEpoch
        if epoch == member.epoch:
            return anything
        assigned = dict(member.assigned)

        def had_it_then(topic_id: bytes, partition: int) -> None:
            if assigned.get((topic_id, partition), epoch + 1) > epoch:
                raise errors.StaleMemberEpoch

        return had_it_then

    def open_questions(
        self, group: ConsumerGroup | None, request: ConsumerGroupHeartbeatRequest
    ) -> list[regexes.Question]:
        """Names that patterns have not been matched with, and that the heartbeat will need."""
        patterns = {request.subscribed_topic_regex or ""}
        if group is not None and self._topics_seen.get(group.group_id) != self._topics_version:
            patterns |= {member.metadata.subscribed_topic_regex or "" for member in group.members.values()}
        patterns.discard("")
        if not patterns:
            return []
        names = self._env.patterns.snapshot(self._env.topics.names())
        questions = (self._env.patterns.question(pattern, names) for pattern in sorted(patterns))
        return [question for question in questions if question is not None]

    def on_topics_changed(self) -> None:
        self._topics_version += 1

    def forget(self, group_id: str) -> None:
        self._changed_ms.pop(group_id, None)
        self._topics_seen.pop(group_id, None)

    def on_loaded(self, group: ConsumerGroup, now_ms: int, decision: Decision) -> None:
        self._changed_ms[group.group_id] = now_ms
        for member in group.members.values():
            self._arm(group.group_id, member, None, decision)

    def session_timeout_ms(self, group_id: str, member: ConsumerMember) -> int:
        classic = member.metadata.classic
        if classic is not None:
            return classic.session_timeout_ms
        return self._env.settings_of(group_id).group_consumer_session_timeout_ms

    def _arm(
        self, group_id: str, member: ConsumerMember, before: ConsumerMember | None, decision: Decision
    ) -> None:
        """Its session, and the time it has to give up what it must."""
        name = timers.session(group_id, member.member_id)
        decision.arm(name, self.session_timeout_ms(group_id, member))
        was_revoking = before is not None and before.state is MemberState.UNREVOKED_PARTITIONS
        revokes = member.state is MemberState.UNREVOKED_PARTITIONS
        if revokes and not was_revoking:
            decision.arm(timers.revocation(group_id, member.member_id), member.metadata.rebalance_timeout_ms)
        elif was_revoking and not revokes:
            decision.disarm(timers.revocation(group_id, member.member_id))

    def _answer(
        self,
        request: ConsumerGroupHeartbeatRequest,
        member: ConsumerMember,
        before: ConsumerMember | None,
        now_ms: int,
    ) -> ConsumerGroupHeartbeatResponse:
        """With the assignment when it changed, or when the member asks with a full request."""
        full = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        joins = request.member_epoch == JOIN_EPOCH
        news = before is None or before.assigned_partitions != member.assigned_partitions
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._heartbeat_interval_ms(request.group_id, now_ms),
            assignment=_assignment(member.assigned_partitions) if joins or full or news else None,
        )

    def _heartbeat_interval_ms(self, group_id: str, now_ms: int) -> int:
        settings = self._env.settings_of(group_id)
        usual = settings.group_consumer_heartbeat_interval_ms
        until = self._changed_ms.get(group_id, 0) + settings.group_consumer_short_heartbeat_period_ms
        if group_id in self._changed_ms and now_ms < until:
            return min(usual, settings.group_consumer_short_heartbeat_interval_ms)
        return usual


def _described(
    old: r.MemberMetadataValue, request: ConsumerGroupHeartbeatRequest, client: Client
) -> r.MemberMetadataValue:
    """Fields that the request leaves out keep their values."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout = request.rebalance_timeout_ms
    return r.MemberMetadataValue(
        request.instance_id if request.instance_id is not None else old.instance_id,
        request.rack_id if request.rack_id is not None else old.rack_id,
        client.client_id,
        client.host,
        tuple(sorted(set(names))) if names is not None else old.subscribed_topic_names,
        regex if regex is not None else old.subscribed_topic_regex,
        timeout if timeout != -1 else old.rebalance_timeout_ms,
        request.server_assignor if request.server_assignor is not None else old.server_assignor,
    )


def _partitions(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return frozenset(
        (topic.topic_id, number) for topic in request.topic_partitions for number in topic.partitions
    )


def _assignment(partitions: Partitions) -> Assignment:
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return Assignment(
        topic_partitions=[
            ResponseTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ]
    )


def _refuse_if(condition: bool, message: str) -> None:
    if condition:
        raise errors.InvalidRequest(message)
