"""The share group protocol (KIP-932): ShareGroupHeartbeat 1. Members share partitions, so nothing is revoked."""

from ottla import errors
from ottla.coordination.groups import decision as timers
from ottla.coordination.groups import records as r
from ottla.coordination.groups.assignors import Subscriber, simple
from ottla.coordination.groups.decision import Decision
from ottla.coordination.groups.environment import Client, Environment
from ottla.coordination.groups.membership import Membership
from ottla.coordination.groups.records import Partitions
from ottla.coordination.groups.share_group import ShareGroup, ShareMember
from ottla.effects import Token
from ottla.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH, LEAVE_EPOCH = 0, -1


class _Draft:
    """The group as it will be once the records of the decision are applied."""

    def __init__(self, group: ShareGroup, decision: Decision) -> None:
        self.group, self._decision = group.copy(), decision

    def emit(self, record: r.ShareGroupRecord) -> None:
        self.group.apply(record)
        self._decision.record(record)


class ShareProtocol:
    def __init__(self, environment: Environment) -> None:
        self._env = environment
        self._membership = Membership(environment)

    def on_heartbeat(
        self,
        group: ShareGroup,
        request: ShareGroupHeartbeatRequest,
        client: Client,
        token: Token[ShareGroupHeartbeatResponse],
        now_ms: int,
        decision: Decision,
    ) -> None:
        before = group.members.get(request.member_id)
        self._check(group, request, before)
        draft = _Draft(group, decision)
        metadata = _described(request, client, before)
        if before is None or metadata != before.metadata:
            draft.emit(r.ShareMemberMetadata(group.group_id, request.member_id, metadata))
        current_hash = self._membership.metadata_hash(draft.group)
        old = () if before is None else before.metadata.subscribed_topic_names
        if metadata.subscribed_topic_names != old or current_hash != group.metadata_hash:
            self._bump(draft, current_hash)
        self._retarget(draft, now_ms)
        member = self._move(draft, request.member_id)
        session_ms = self._env.settings_of(group.group_id).group_share_session_timeout_ms
        decision.arm(timers.session(group.group_id, request.member_id), session_ms)
        news = before is None or before.assigned != member.assigned or request.member_epoch == JOIN_EPOCH
        full = request.subscribed_topic_names is not None
        decision.reply(token, self._answer(group.group_id, member, with_assignment=news or full))

    def _check(
        self, group: ShareGroup, request: ShareGroupHeartbeatRequest, member: ShareMember | None
    ) -> None:
        settings = self._env.settings_of(group.group_id)
        if request.member_epoch == JOIN_EPOCH:
            if request.subscribed_topic_names is None:
                raise errors.InvalidRequest("SubscribedTopicNames must be set in first request.")
            if member is None and len(group.members) >= settings.group_share_max_size:
                raise errors.GroupMaxSizeReached(
                    f"The share group has reached its maximum capacity of {settings.group_share_max_size} members."
                )
            return
        known = group.member(request.member_id)
        if request.member_epoch not in (known.epoch, known.previous_epoch):
            relation = "greater" if request.member_epoch > known.epoch else "smaller"
            raise errors.FencedMemberEpoch(
                f"The share group member has a {relation} member epoch ({request.member_epoch}) than the one known "
                f"by the group coordinator ({known.epoch}). The member must abandon all its partitions and rejoin."
            )

    def remove(self, group: ShareGroup, member_ids: list[str], why: str, decision: Decision) -> None:
        draft = _Draft(group, decision)
        for member_id in member_ids:
            draft.emit(r.ShareCurrentAssignment(group.group_id, member_id, None))
            draft.emit(r.ShareTargetAssignmentMember(group.group_id, member_id, None))
            draft.emit(r.ShareMemberMetadata(group.group_id, member_id, None))
            decision.disarm(timers.session(group.group_id, member_id))
        self._bump(draft, self._membership.metadata_hash(draft.group))
        self._env.report(f"share group {group.group_id}: {', '.join(member_ids)} {why}")

    def on_loaded(self, group: ShareGroup, decision: Decision) -> None:
        session_ms = self._env.settings_of(group.group_id).group_share_session_timeout_ms
        for member_id in group.members:
            decision.arm(timers.session(group.group_id, member_id), session_ms)

    def _bump(self, draft: _Draft, metadata_hash: int) -> None:
        value = r.ConsumerGroupMetadataValue(draft.group.epoch + 1, metadata_hash)
        draft.emit(r.ShareGroupMetadata(draft.group.group_id, value))

    def _retarget(self, draft: _Draft, now_ms: int) -> None:
        group = draft.group
        if group.epoch <= group.assignment_epoch:
            return
        ids = {name: self._env.topics.topic_id(name) for name in group.subscribed_topics()}
        known = {name: topic_id for name, topic_id in ids.items() if topic_id is not None}
        members = {
            member_id: Subscriber(
                frozenset(known[name] for name in member.metadata.subscribed_topic_names if name in known),
                group.targets.get(member_id, r.NO_PARTITIONS),
            )
            for member_id, member in group.members.items()
        }
        counts = {topic_id: self._env.topics.partition_count(name) for name, topic_id in known.items()}
        for member_id, target in simple.assign(members, counts).items():
            if group.targets.get(member_id) != target:
                draft.emit(r.ShareTargetAssignmentMember(group.group_id, member_id, target))
        draft.emit(
            r.ShareTargetAssignmentMetadata(
                group.group_id, r.TargetAssignmentMetadataValue(group.epoch, now_ms)
            )
        )
        self._note_states(draft, known)

    def _note_states(self, draft: _Draft, known: dict[str, bytes]) -> None:
        """Which share-partitions have states from now on, for those who list and delete them."""
        group = draft.group
        noted = dict(group.initialized)
        for name, topic_id in known.items():
            noted[topic_id] = (name, tuple(range(self._env.topics.partition_count(name))))
        if noted != group.initialized:
            rows = tuple((topic_id, *entry) for topic_id, entry in sorted(noted.items()))
            draft.emit(r.ShareStatePartitions(group.group_id, r.ShareStatePartitionsValue(rows)))

    def _move(self, draft: _Draft, member_id: str) -> ShareMember:
        """The member goes to the newest target at once."""
        group = draft.group
        member = group.members[member_id]
        target = group.targets.get(member_id, frozenset())
        if member.epoch != group.assignment_epoch or member.assigned != target:
            value = r.ShareCurrentAssignmentValue(group.assignment_epoch, member.epoch, target)
            draft.emit(r.ShareCurrentAssignment(group.group_id, member_id, value))
        return draft.group.members[member_id]

    def _answer(
        self, group_id: str, member: ShareMember, *, with_assignment: bool
    ) -> ShareGroupHeartbeatResponse:
        return ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._env.settings_of(group_id).group_share_heartbeat_interval_ms,
            assignment=_assignment(member.assigned) if with_assignment else None,
        )


def _described(
    request: ShareGroupHeartbeatRequest, client: Client, before: ShareMember | None
) -> r.ShareMemberMetadataValue:
    old = None if before is None else before.metadata
    names = request.subscribed_topic_names
    subscribed = () if old is None else old.subscribed_topic_names
    return r.ShareMemberMetadataValue(
        request.rack_id if request.rack_id is not None else (old.rack_id if old is not None else None),
        client.client_id,
        client.host,
        subscribed if names is None else tuple(sorted(set(names))),
    )


def _assignment(partitions: Partitions) -> Assignment:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    rows = [
        TopicPartitions(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()
    ]
    return Assignment(topic_partitions=rows)
