"""Which committed offsets are too old to keep: Kafka's rules (KIP-211)."""

from collections.abc import Iterator

from ottla.coordination.groups.classic_group import ClassicGroup, State
from ottla.coordination.groups.consumer_group import ConsumerGroup
from ottla.coordination.groups.offset_table import Committed, OffsetTable
from ottla.coordination.groups.records import OffsetCommit
from ottla.coordination.groups.streams.group import StreamsGroup

Group = ClassicGroup | ConsumerGroup | StreamsGroup


def expired(group: Group, table: OffsetTable, retention_ms: int, now_ms: int) -> Iterator[OffsetCommit]:
    """Tombstones for what may go. Offsets that wait for a transaction's end stay, and so do topics in use."""
    waiting = table.pending_of(group.group_id)
    in_use = group.subscribed_topics() if group.members else frozenset()
    for (topic, partition), entry in table.of_group(group.group_id).items():
        if (topic, partition) in waiting or topic in (in_use or ()):
            continue
        since_ms = _unused_since_ms(group, entry)
        if since_ms is not None and _is_over(entry, since_ms, retention_ms, now_ms):
            yield OffsetCommit(group.group_id, topic, partition, None)


def _unused_since_ms(group: Group, entry: Committed) -> int | None:
    committed_ms = entry.value.commit_timestamp_ms
    if not isinstance(group, ClassicGroup) or group.protocol_type is None:
        return committed_ms  # of a newer protocol, or a consumer that only ever commits
    if group.state is State.EMPTY:
        return group.state_timestamp_ms if group.state_timestamp_ms >= 0 else committed_ms
    if group.state is State.STABLE and group.subscribed_topics() is not None:
        return committed_ms  # of a topic that nobody subscribes to any more
    return None


def _is_over(entry: Committed, since_ms: int, retention_ms: int, now_ms: int) -> bool:
    if entry.value.expire_timestamp_ms >= 0:
        return now_ms >= entry.value.expire_timestamp_ms
    return now_ms - since_ms >= retention_ms
