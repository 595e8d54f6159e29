"""A group of the consumer protocol (KIP-848): hard state, all of it from records."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum

from ottla import errors
from ottla.coordination.groups import records as r
from ottla.coordination.groups.records import NO_PARTITIONS, Partitions, TopicPartition
from ottla.frozen import frozen

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
FIRST_COMMIT_VERSION = 9  # of OffsetCommit, for members of the consumer protocol


class MemberState(IntEnum):
    """As the records number them."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@frozen
class ConsumerMember:
    member_id: str
    metadata: r.MemberMetadataValue
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: tuple[tuple[TopicPartition, int], ...] = ()  # with the epoch of each assignment
    revoking: tuple[tuple[TopicPartition, int], ...] = ()

    @property
    def assigned_partitions(self) -> Partitions:
        return frozenset(partition for partition, _ in self.assigned)

    @property
    def revoking_partitions(self) -> Partitions:
        return frozenset(partition for partition, _ in self.revoking)

    @property
    def is_classic(self) -> bool:
        return self.metadata.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def current(self, group_id: str) -> r.CurrentMemberAssignment:
        value = r.CurrentMemberAssignmentValue(
            self.epoch, self.previous_epoch, int(self.state), self.assigned, self.revoking
        )
        return r.CurrentMemberAssignment(group_id, self.member_id, value)


@dataclass(slots=True)
class ConsumerGroup:
    group_id: str
    epoch: int = 1  # a member's epoch 0 says that it joins
    metadata_hash: int = 0
    assignment_epoch: int = 1
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    statics: dict[str, str] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    regexes: dict[str, r.RegularExpressionValue] = field(default_factory=dict)
    owners: dict[TopicPartition, str] = field(default_factory=dict)  # who has it, or still gives it up

    def copy(self) -> "ConsumerGroup":
        """A draft to try records on. Members are immutable, so the tables are all there is to copy."""
        return replace(
            self,
            members=dict(self.members),
            statics=dict(self.statics),
            targets=dict(self.targets),
            regexes=dict(self.regexes),
            owners=dict(self.owners),
        )

    # Records

    def apply(self, record: r.ConsumerRecord) -> None:
        match record:
            case r.ConsumerGroupMetadata(value=value):
                if value is not None:
                    self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case r.MemberMetadata():
                self._apply_member(record)
            case r.TargetAssignmentMetadata(value=target):
                self.assignment_epoch = target.assignment_epoch if target is not None else 0
            case r.TargetAssignmentMember(member_id=member_id, value=partitions):
                if partitions is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = partitions
            case r.CurrentMemberAssignment():
                self._apply_current(record)
            case r.RegularExpression(regex=regex, value=resolved):
                if resolved is None:
                    self.regexes.pop(regex, None)
                else:
                    self.regexes[regex] = resolved

    def _apply_member(self, record: r.MemberMetadata) -> None:
        old = self.members.get(record.member_id)
        if old is not None:
            instance_id = old.metadata.instance_id
            if instance_id is not None and self.statics.get(instance_id) == record.member_id:
                del self.statics[instance_id]
        if record.value is None:
            if old is not None:
                self._disown(old)
                del self.members[record.member_id]
            return
        self.members[record.member_id] = (
            ConsumerMember(record.member_id, record.value)
            if old is None
            else replace(old, metadata=record.value)
        )
        if record.value.instance_id is not None:
            self.statics[record.value.instance_id] = record.member_id

    def _apply_current(self, record: r.CurrentMemberAssignment) -> None:
        old = self.members.get(record.member_id)
        if old is None:
            return  # a tombstone that outlived its member
        self._disown(old)
        value = record.value or r.CurrentMemberAssignmentValue(0, -1, MemberState.STABLE, ())
        self.members[record.member_id] = replace(
            old,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=_state(value.state),
            assigned=value.assigned,
            revoking=value.pending_revocation,
        )
        for partition, _ in (*value.assigned, *value.pending_revocation):
            self.owners[partition] = record.member_id

    def _disown(self, member: ConsumerMember) -> None:
        for partition, _ in (*member.assigned, *member.revoking):
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]

    def tombstones(self) -> list[r.ConsumerRecord]:
        """Everything that says this group exists, newest facts first, as Apache Kafka orders them."""
        tombstones: list[r.ConsumerRecord] = []
        for member_id in self.members:
            tombstones.append(r.CurrentMemberAssignment(self.group_id, member_id, None))
        for member_id in self.targets:
            tombstones.append(r.TargetAssignmentMember(self.group_id, member_id, None))
        tombstones.append(r.TargetAssignmentMetadata(self.group_id, None))
        for member_id in self.members:
            tombstones.append(r.MemberMetadata(self.group_id, member_id, None))
        for regex in self.regexes:
            tombstones.append(r.RegularExpression(self.group_id, regex, None))
        tombstones.append(r.ConsumerGroupMetadata(self.group_id, None))
        return tombstones

    # Questions

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        settled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if settled else "Reconciling"

    def target_of(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """What a member subscribes to, by name and by pattern."""
        names = frozenset(member.metadata.subscribed_topic_names)
        regex = member.metadata.subscribed_topic_regex
        resolved = self.regexes.get(regex) if regex else None
        return names.union(resolved.topics) if resolved is not None else names

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*(self.topics_of(member) for member in self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    def classic_members(self) -> Iterator[ConsumerMember]:
        return (member for member in self.members.values() if member.is_classic)

    def member(self, member_id: str, instance_id: str | None = None) -> ConsumerMember:
        if instance_id is not None:
            current = self.statics.get(instance_id)
            if current is None:
                raise errors.UnknownMemberId(f"Instance id {instance_id} is unknown.")
            if current != member_id:
                raise errors.FencedInstanceId(
                    f"Static member {member_id} with instance id {instance_id} was fenced by member "
                    f"{current}."
                )
        if member_id not in self.members:
            raise errors.UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return self.members[member_id]

    def validate_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.members.get(member_id or "")
        if member is None:
            raise errors.UnknownMemberId
        if member.epoch != epoch:
            raise errors.StaleMemberEpoch

    def validate_offset_delete(self) -> None:
        """Deleting is fine; topics in use are refused one by one."""


def _state(number: int) -> MemberState:
    return MemberState(number) if number in (0, 1, 2) else MemberState.UNKNOWN
