"""A consumer group as it will be once the records of a decision are applied."""

from ottla.coordination.groups import records as r
from ottla.coordination.groups.consumer_group import ConsumerGroup, ConsumerMember
from ottla.coordination.groups.decision import Decision


class Draft:
    """Every record goes into the decision and onto a copy of the group, made at the first record. So
    the steps of a heartbeat see what the steps before them decided, and hard state stays untouched."""

    __slots__ = ("_copied", "_decision", "group")

    def __init__(self, group: ConsumerGroup, decision: Decision) -> None:
        self.group = group
        self._decision = decision
        self._copied = False

    @property
    def changed(self) -> bool:
        return self._copied

    def emit(self, *records: r.ConsumerRecord) -> None:
        if not self._copied and records:
            self.group = self.group.copy()
            self._copied = True
        for record in records:
            self.group.apply(record)
            self._decision.record(record)

    def remove(self, member_id: str) -> None:
        group_id = self.group.group_id
        self.emit(
            r.CurrentMemberAssignment(group_id, member_id, None),
            r.TargetAssignmentMember(group_id, member_id, None),
            r.MemberMetadata(group_id, member_id, None),
        )

    def put(self, member: ConsumerMember) -> None:
        """Records the member's assignment if it has changed."""
        if self.group.members.get(member.member_id) != member:
            self.emit(member.current(self.group.group_id))
