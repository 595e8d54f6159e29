"""The steps of a consumer group's heartbeat, on a draft: subscribe, bump the epoch, retarget, reconcile."""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b

from ottla import errors
from ottla.coordination.groups import records as r
from ottla.coordination.groups.assignors import Subscriber, by_name
from ottla.coordination.groups.consumer_group import (
    LEAVE_STATIC_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from ottla.coordination.groups.describe import preferred_assignor
from ottla.coordination.groups.draft import Draft
from ottla.coordination.groups.environment import Client, Environment
from ottla.coordination.groups.reconcile import reconcile
from ottla.coordination.groups.records import Partitions
from ottla.coordination.groups.share_group import ShareGroup

NOBODY = r.MemberMetadataValue(None, None, "", "", (), None, -1, None)


class Membership:
    def __init__(self, environment: Environment) -> None:
        self._env = environment

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        limit = self._env.settings.group_consumer_max_size
        if member_id not in group.members and len(group.members) >= limit:
            raise errors.GroupMaxSizeReached(
                f"The consumer group has reached its maximum capacity of {limit} members."
            )

    def take_static_place(
        self, draft: Draft, instance_id: str, member_id: str, *, must_be_released: bool
    ) -> None:
        """A static member is back under a new id: what belonged to the old one is its own."""
        group = draft.group
        old = group.members[group.statics[instance_id]]
        if old.member_id == member_id:
            return
        # A static member of the classic protocol never says that it goes.
        if must_be_released and not old.is_classic and old.epoch != LEAVE_STATIC_EPOCH:
            raise errors.UnreleasedInstanceId(
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                f"instance id is owned by {old.member_id} member."
            )
        target = group.target_of(old.member_id)
        new = replace(
            old, member_id=member_id, epoch=0, previous_epoch=0, state=MemberState.STABLE, revoking=()
        )
        draft.remove(old.member_id)
        draft.emit(
            r.MemberMetadata(group.group_id, member_id, old.metadata),
            r.TargetAssignmentMember(group.group_id, member_id, target),
            new.current(group.group_id),
        )

    def describe(self, draft: Draft, member_id: str, metadata: r.MemberMetadataValue) -> bool:
        """Stores what a member says about itself; whether its subscription is another now."""
        known = draft.group.members.get(member_id)
        old = known.metadata if known is not None else NOBODY
        if known is None or metadata != old:
            draft.emit(r.MemberMetadata(draft.group.group_id, member_id, metadata))
        return metadata.subscribed_topic_names != old.subscribed_topic_names or (
            metadata.subscribed_topic_regex or None
        ) != (old.subscribed_topic_regex or None)

    def drop_unused_regexes(self, draft: Draft) -> set[str]:
        """The patterns in use are left, and returned."""
        group = draft.group
        patterns = (member.metadata.subscribed_topic_regex for member in group.members.values())
        wanted = {pattern for pattern in patterns if pattern}  # the empty one is none
        for pattern in sorted(group.regexes.keys() - wanted):
            draft.emit(r.RegularExpression(group.group_id, pattern, None))
        return wanted

    def resolve_regexes(self, draft: Draft, now_ms: int, client: Client, *, topics_changed: bool) -> None:
        """Resolves the patterns in use (known ones only if topics have changed), and removes unused ones. As in Kafka,
        a pattern brings the topics that the member who asks may see."""
        wanted = self.drop_unused_regexes(draft)
        if not wanted:
            return
        group = draft.group
        names = self._env.patterns.snapshot(self._env.topics.names())
        for pattern in sorted(wanted):
            known = group.regexes.get(pattern)
            if known is not None and not topics_changed:
                continue
            topics = tuple(filter(client.may_see, self._env.patterns.resolve(pattern, names)))
            if known is None or known.topics != topics:
                version = known.version + 1 if known is not None else 0
                value = r.RegularExpressionValue(topics, version, now_ms)
                draft.emit(r.RegularExpression(group.group_id, pattern, value))

    def metadata_hash(self, group: ConsumerGroup | ShareGroup) -> int:
        """Changes whenever a subscribed topic comes, goes, grows or moves to other racks. 0 for none."""
        topics = self._topics(group.subscribed_topics())
        return self._hash(topics) if topics else 0

    def bump(self, draft: Draft, metadata_hash: int, why: str) -> None:
        group = draft.group
        value = r.ConsumerGroupMetadataValue(group.epoch + 1, metadata_hash)
        draft.emit(r.ConsumerGroupMetadata(group.group_id, value))
        self._env.report(
            f"group {group.group_id} epoch {value.epoch}: {len(draft.group.members)} members, {why}"
        )

    def retarget(self, draft: Draft, now_ms: int) -> None:
        """A new target for everybody, if the group has moved on since the last one."""
        group = draft.group
        if group.epoch <= group.assignment_epoch:
            return
        name = preferred_assignor(group, self._env.settings.group_consumer_assignors[0])
        topics = self._topics(group.subscribed_topics())
        members = {
            member_id: Subscriber(
                frozenset(topics[topic] for topic in group.topics_of(member) if topic in topics),
                group.target_of(member_id),
                member.metadata.instance_id,
            )
            for member_id, member in group.members.items()
        }
        counts = {topic_id: self._env.topics.partition_count(topic) for topic, topic_id in topics.items()}
        for member_id, target in by_name(name)(members, counts).items():
            if group.targets.get(member_id) != target:
                draft.emit(r.TargetAssignmentMember(group.group_id, member_id, target))
        value = r.TargetAssignmentMetadataValue(group.epoch, now_ms)
        draft.emit(r.TargetAssignmentMetadata(group.group_id, value))

    def reconcile(self, draft: Draft, member_id: str, owned: Partitions | None) -> ConsumerMember:
        group = draft.group
        member = group.members[member_id]
        others = _Others(group, member_id)
        updated = reconcile(member, group.target_of(member_id), group.assignment_epoch, owned, others)
        draft.put(updated)
        return updated

    def _topics(self, names: Iterable[str]) -> dict[str, bytes]:
        """Those that exist, with their ids."""
        known = ((name, self._env.topics.topic_id(name)) for name in names)
        return {name: topic_id for name, topic_id in known if topic_id is not None}

    def _hash(self, topics: dict[str, bytes]) -> int:
        digest = blake2b(digest_size=8)
        for name, topic_id in sorted(topics.items()):
            count = self._env.topics.partition_count(name)
            racks = [sorted(self._env.topics.racks(name, partition)) for partition in range(count)]
            digest.update(repr((name, topic_id, count, racks)).encode())
        return int.from_bytes(digest.digest(), "big", signed=True)


class _Others:
    """The partitions that other members have."""

    __slots__ = ("_member_id", "_owners")

    def __init__(self, group: ConsumerGroup, member_id: str) -> None:
        self._owners, self._member_id = group.owners, member_id

    def __contains__(self, partition: object) -> bool:
        return self._owners.get(partition, self._member_id) != self._member_id  # type: ignore[call-overload,no-any-return]
