"""A streams group: hard state, all of it from records."""

from dataclasses import dataclass, field, replace
from enum import IntEnum

from ottla import errors
from ottla.coordination.groups.streams import records as r
from ottla.frozen import frozen

JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2
STREAMS = "streams"


class MemberState(IntEnum):
    """As the records number them."""

    STABLE = 0
    UNREVOKED_TASKS = 1
    UNRELEASED_TASKS = 2
    UNKNOWN = 127


@frozen
class StreamsMember:
    member_id: str
    metadata: r.MemberValue
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: r.Held = r.NOTHING_HELD
    revoking: r.Held = r.NOTHING_HELD

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def current(self, group_id: str) -> r.StreamsCurrentAssignment:
        value = r.CurrentValue(self.epoch, self.previous_epoch, int(self.state), self.assigned, self.revoking)
        return r.StreamsCurrentAssignment(group_id, self.member_id, value)


@dataclass(slots=True)
class StreamsGroup:
    group_id: str
    epoch: int = 1  # a member's epoch 0 says that it joins
    metadata_hash: int = 0
    validated_topology_epoch: int = 0
    assignment_configs: tuple[tuple[str, str], ...] = ()
    assignment_epoch: int = 1
    assignment_timestamp_ms: int = 0
    topology: r.TopologyValue | None = None
    members: dict[str, StreamsMember] = field(default_factory=dict)
    targets: dict[str, r.TasksByRole] = field(default_factory=dict)

    def copy(self) -> "StreamsGroup":
        """A draft to try records on. Members are immutable, so the tables are all there is to copy."""
        return replace(self, members=dict(self.members), targets=dict(self.targets))

    # Records

    def apply(self, record: r.StreamsGroupRecord) -> None:
        match record:
            case r.StreamsGroupMetadata(value=value):
                if value is not None:
                    self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
                    self.validated_topology_epoch = value.validated_topology_epoch
                    self.assignment_configs = value.assignment_configs
            case r.StreamsMemberMetadata(member_id=member_id, value=metadata):
                self._apply_member(member_id, metadata)
            case r.StreamsTargetMetadata(value=target):
                self.assignment_epoch = -1 if target is None else target.assignment_epoch
                self.assignment_timestamp_ms = 0 if target is None else target.assignment_timestamp_ms
            case r.StreamsTargetMember(member_id=member_id, value=tasks):
                if tasks is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = tasks
            case r.StreamsCurrentAssignment(member_id=member_id, value=current):
                self._apply_current(member_id, current)
            case r.StreamsTopology(value=topology):
                self.topology = topology

    def _apply_member(self, member_id: str, metadata: r.MemberValue | None) -> None:
        known = self.members.get(member_id)
        if metadata is None:
            self.members.pop(member_id, None)
        elif known is None:
            self.members[member_id] = StreamsMember(member_id, metadata)
        else:
            self.members[member_id] = replace(known, metadata=metadata)

    def _apply_current(self, member_id: str, current: r.CurrentValue | None) -> None:
        known = self.members.get(member_id)
        if known is None:
            return  # a tombstone that outlived its member
        value = current or r.CurrentValue(-1, -1, MemberState.STABLE)
        self.members[member_id] = replace(
            known,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if value.state in (0, 1, 2) else MemberState.UNKNOWN,
            assigned=value.assigned,
            revoking=value.pending_revocation,
        )

    def tombstones(self) -> list[r.StreamsGroupRecord]:
        """Everything that says this group exists, in Apache Kafka's order."""
        gone: list[r.StreamsGroupRecord] = []
        for member_id in self.members:
            gone.append(r.StreamsCurrentAssignment(self.group_id, member_id, None))
        for member_id in self.targets:
            gone.append(r.StreamsTargetMember(self.group_id, member_id, None))
        gone.append(r.StreamsTargetMetadata(self.group_id, None))
        for member_id in self.members:
            gone.append(r.StreamsMemberMetadata(self.group_id, member_id, None))
        gone.append(r.StreamsGroupMetadata(self.group_id, None))
        gone.append(r.StreamsTopology(self.group_id, None))
        return gone

    # Questions

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        settled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if settled else "Reconciling"

    def target_of(self, member_id: str) -> r.TasksByRole:
        return self.targets.get(member_id, r.NOTHING_WANTED)

    def member(self, member_id: str) -> StreamsMember:
        if member_id not in self.members:
            raise errors.UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return self.members[member_id]

    def subscribed_topics(self) -> frozenset[str]:
        if self.topology is None or self.is_empty:
            return frozenset()
        return frozenset(name for part in self.topology.subtopologies for name in part.inputs)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    def validate_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        if self.member(member_id or "").epoch != epoch:
            raise errors.StaleMemberEpoch

    def validate_offset_delete(self) -> None:
        """Deleting is fine; topics in use are refused one by one."""
