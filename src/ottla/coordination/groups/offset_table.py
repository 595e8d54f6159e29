"""The committed offsets of a shard, and those that wait for the end of their transaction: hard state."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.coordination.groups.records import OffsetCommit, OffsetCommitValue
from ottla.frozen import frozen

Partition = tuple[str, int]  # topic name, partition


@frozen
class Committed:
    value: OffsetCommitValue
    log_offset: int  # of the record: the later one counts, whatever order transactions end in


@dataclass(slots=True)
class OffsetTable:
    committed: dict[str, dict[Partition, Committed]] = field(default_factory=dict)  # by group
    pending: dict[int, dict[str, dict[Partition, Committed]]] = field(
        default_factory=dict
    )  # by producer, group

    def apply(self, record: OffsetCommit, log_offset: int, producer: tuple[int, int] | None) -> None:
        partition = (record.topic, record.partition)
        if record.value is None:
            self._forget(record.group_id, partition)
        elif producer is None:
            entry = Committed(record.value, log_offset)
            self.committed.setdefault(record.group_id, {})[partition] = entry
        else:
            groups = self.pending.setdefault(producer[0], {})
            groups.setdefault(record.group_id, {})[partition] = Committed(record.value, log_offset)

    def apply_marker(self, producer_id: int, *, committed: bool) -> None:
        groups = self.pending.pop(producer_id, {})
        if not committed:
            return
        for group_id, offsets in groups.items():
            known = self.committed.setdefault(group_id, {})
            for partition, entry in offsets.items():
                if partition not in known or known[partition].log_offset < entry.log_offset:
                    known[partition] = entry

    def of_group(self, group_id: str) -> dict[Partition, Committed]:
        return self.committed.get(group_id, {})

    def pending_of(self, group_id: str) -> set[Partition]:
        partitions: set[Partition] = set()
        for groups in self.pending.values():
            partitions.update(groups.get(group_id, ()))
        return partitions

    def has(self, group_id: str) -> bool:
        return bool(self.committed.get(group_id)) or bool(self.pending_of(group_id))

    def tombstones(self, group_id: str) -> Iterator[OffsetCommit]:
        for topic, partition in sorted({*self.of_group(group_id), *self.pending_of(group_id)}):
            yield OffsetCommit(group_id, topic, partition, None)

    def _forget(self, group_id: str, partition: Partition) -> None:
        known = self.committed.get(group_id, {})
        known.pop(partition, None)
        if not known:
            self.committed.pop(group_id, None)
        for producer_id in list(self.pending):
            groups = self.pending[producer_id]
            groups.get(group_id, {}).pop(partition, None)
            if not groups.get(group_id, True):
                del groups[group_id]
            if not groups:
                del self.pending[producer_id]
