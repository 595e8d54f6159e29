"""The hard state of a shard of `__consumer_offsets`: groups and offsets, changed by records alone."""

from collections.abc import Callable, Sequence

from ottla import errors
from ottla.coordination.groups import records as r
from ottla.coordination.groups.classic_group import ClassicGroup
from ottla.coordination.groups.consumer_group import ConsumerGroup
from ottla.coordination.groups.expiry import Group
from ottla.coordination.groups.offset_table import OffsetTable
from ottla.coordination.groups.share_group import ShareGroup
from ottla.coordination.groups.streams.group import StreamsGroup
from ottla.coordination.groups.streams.records import StreamsGroupMetadata, StreamsGroupRecord


class GroupState:
    """Classic groups carry soft state too (who waits for what); the consumer ones none."""

    def __init__(self, on_group_gone: Callable[[str], None] = lambda group_id: None) -> None:
        self.groups: dict[str, Group] = {}
        self.share_groups: dict[str, ShareGroup] = {}
        self.offsets = OffsetTable()
        self._successors: dict[str, tuple[Sequence[r.GroupRecord], ClassicGroup]] = {}  # soft: see `succeed`
        self.loaded = False  # from then on a classic group is more than its last record
        self._on_group_gone = on_group_gone

    def existing(self, group_id: str) -> Group:
        if group_id not in self.groups:
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        return self.groups[group_id]

    def succeed(self, tombstones: Sequence[r.GroupRecord], successor: ClassicGroup) -> None:
        """The classic group takes over once these tombstones of its predecessor are applied: these objects, not
        their equals. If the log refuses them the successor's timers never start, so that tombstones of a later
        decision must not install it."""
        self._successors[successor.group_id] = (tombstones, successor)

    def apply(self, record: r.GroupRecord, offset: int, producer: tuple[int, int] | None) -> None:
        match record:
            case r.OffsetCommit():
                self.offsets.apply(record, offset, producer)
                if record.value is not None:  # committed offsets make a group
                    self.groups.setdefault(record.group_id, ClassicGroup(record.group_id))
            case r.GroupMetadata():
                self._apply_classic(record)
            case r.PartitionMetadata():
                pass
            case r.ShareGroupMetadata(group_id, None):
                self.share_groups.pop(group_id, None)
            case _ if isinstance(record, r.ShareGroupRecord):
                self._apply_share(record)
            case _ if isinstance(record, StreamsGroupRecord):
                self._apply_streams(record)
            case _:
                self._apply_consumer(record)

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool, offset: int) -> None:
        self.offsets.apply_marker(producer_id, committed=committed)

    def _apply_classic(self, record: r.GroupMetadata) -> None:
        group = self.groups.get(record.group_id)
        if record.value is None:
            if isinstance(group, ClassicGroup):
                del self.groups[record.group_id]
        elif self.loaded and isinstance(group, ClassicGroup):
            group.on_recorded(record.value)
        else:
            self.groups[record.group_id] = ClassicGroup.from_record(record.group_id, record.value)

    def _apply_share(self, record: r.ShareGroupRecord) -> None:
        group = self.share_groups.get(record.group_id)
        if group is None:
            if record.value is None:
                return  # a tombstone that outlived its group
            group = self.share_groups[record.group_id] = ShareGroup(record.group_id)
        group.apply(record)

    def _apply_consumer(self, record: r.ConsumerRecord) -> None:
        group = self.groups.get(record.group_id)
        if record.value is None:
            if not isinstance(group, ConsumerGroup):
                return
            if isinstance(record, r.ConsumerGroupMetadata):
                self._remove(record)
                return
        if not isinstance(group, ConsumerGroup):
            group = self.groups[record.group_id] = ConsumerGroup(record.group_id)
        group.apply(record)

    def _apply_streams(self, record: StreamsGroupRecord) -> None:
        group = self.groups.get(record.group_id)
        if record.value is None:
            if not isinstance(group, StreamsGroup):
                return  # a tombstone that outlived its group
            if isinstance(record, StreamsGroupMetadata):
                self._remove(record)
                return
        if not isinstance(group, StreamsGroup):
            group = self.groups[record.group_id] = StreamsGroup(record.group_id)
        group.apply(record)

    def _remove(self, tombstone: r.ConsumerGroupMetadata | StreamsGroupMetadata) -> None:
        group_id = tombstone.group_id
        del self.groups[group_id]
        if group_id in self._successors:
            expected, successor = self._successors.pop(group_id)
            if any(tombstone is record for record in expected):
                self.groups[group_id] = successor
        self._on_group_gone(group_id)
