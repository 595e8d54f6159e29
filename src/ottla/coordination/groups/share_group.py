"""A share group (KIP-932): hard state, all of it from records."""

from dataclasses import dataclass, field, replace

from ottla import errors
from ottla.coordination.groups import records as r
from ottla.coordination.groups.records import NO_PARTITIONS, Partitions
from ottla.frozen import frozen


@frozen
class ShareMember:
    member_id: str
    metadata: r.ShareMemberMetadataValue
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = NO_PARTITIONS


@dataclass(slots=True)
class ShareGroup:
    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    initialized: dict[bytes, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    def copy(self) -> "ShareGroup":
        return replace(
            self,
            members=dict(self.members),
            targets=dict(self.targets),
            initialized=dict(self.initialized),
        )

    def apply(self, record: r.ShareGroupRecord) -> None:
        match record:
            case r.ShareGroupMetadata(value=epochs):
                if epochs is not None:
                    self.epoch, self.metadata_hash = epochs.epoch, epochs.metadata_hash
            case r.ShareMemberMetadata(member_id=member_id, value=metadata):
                self._apply_member(member_id, metadata)
            case r.ShareTargetAssignmentMetadata(value=target):
                self.assignment_epoch = 0 if target is None else target.assignment_epoch
            case r.ShareTargetAssignmentMember(member_id=member_id, value=partitions):
                if partitions is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = partitions
            case r.ShareCurrentAssignment(member_id=member_id, value=current):
                member = self.members.get(member_id)
                if member is not None and current is not None:
                    self.members[member_id] = replace(
                        member,
                        epoch=current.member_epoch,
                        previous_epoch=current.previous_member_epoch,
                        assigned=current.assigned,
                    )
            case r.ShareStatePartitions(value=states):
                known = () if states is None else states.initialized
                self.initialized = {topic_id: (name, numbers) for topic_id, name, numbers in known}

    def _apply_member(self, member_id: str, metadata: r.ShareMemberMetadataValue | None) -> None:
        known = self.members.get(member_id)
        if metadata is None:
            self.members.pop(member_id, None)
        elif known is None:
            self.members[member_id] = ShareMember(member_id, metadata)
        else:
            self.members[member_id] = replace(known, metadata=metadata)

    def tombstones(self) -> list[r.ShareGroupRecord]:
        gone: list[r.ShareGroupRecord] = []
        for member_id in self.members:
            gone.append(r.ShareCurrentAssignment(self.group_id, member_id, None))
        for member_id in self.targets:
            gone.append(r.ShareTargetAssignmentMember(self.group_id, member_id, None))
        gone.append(r.ShareTargetAssignmentMetadata(self.group_id, None))
        for member_id in self.members:
            gone.append(r.ShareMemberMetadata(self.group_id, member_id, None))
        gone.append(r.ShareStatePartitions(self.group_id, None))
        gone.append(r.ShareGroupMetadata(self.group_id, None))
        return gone

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    def subscribed_topics(self) -> frozenset[str]:
        names = (member.metadata.subscribed_topic_names for member in self.members.values())
        return frozenset(name for subscribed in names for name in subscribed)

    def member(self, member_id: str) -> ShareMember:
        if member_id not in self.members:
            raise errors.UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return self.members[member_id]
