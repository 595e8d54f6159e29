"""Records of share groups <-> Apache Kafka's bytes."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.coordination.groups import records as r
from ottla.coordination.groups.packing import Reader, Writer
from ottla.coordination.groups.records import Partitions

T = TypeVar("T")
MEMBER, GROUP, TARGET, TARGET_MEMBER, CURRENT, STATE_PARTITIONS = range(10, 16)
_STABLE = 0
_INT64_BYTES, _UUID_BYTES = 8, 16


def encode(record: r.ShareGroupRecord) -> tuple[bytes, bytes | None]:
    match record:
        case r.ShareMemberMetadata(group_id, member_id, value):
            return _key(MEMBER, group_id, member_id), None if value is None else _member(value)
        case r.ShareGroupMetadata(group_id, epochs):
            data = None
            if epochs is not None:
                data = Writer().int16(0).int32(epochs.epoch).int64(epochs.metadata_hash).tags({}).done()
            return _key(GROUP, group_id), data
        case r.ShareTargetAssignmentMetadata(group_id, target):
            return _key(TARGET, group_id), None if target is None else _target(target)
        case r.ShareTargetAssignmentMember(group_id, member_id, partitions):
            data = None if partitions is None else _topics(Writer().int16(0), partitions).tags({}).done()
            return _key(TARGET_MEMBER, group_id, member_id), data
        case r.ShareCurrentAssignment(group_id, member_id, current):
            return _key(CURRENT, group_id, member_id), None if current is None else _current(current)
        case r.ShareStatePartitions(group_id, states):
            return _key(STATE_PARTITIONS, group_id), None if states is None else _states(states)
    raise TypeError(f"not a record of a share group: {record!r}")


def decode(kind: int, key: Reader, value: bytes | None) -> r.ShareGroupRecord:
    group_id = key.string()
    match kind:
        case 10:
            return r.ShareMemberMetadata(group_id, key.string(), _parsed(value, _read_member))
        case 11:
            return r.ShareGroupMetadata(group_id, _parsed(value, _read_epochs))
        case 12:
            return r.ShareTargetAssignmentMetadata(group_id, _parsed(value, _read_target))
        case 13:
            return r.ShareTargetAssignmentMember(group_id, key.string(), _parsed(value, _read_topics))
        case 14:
            return r.ShareCurrentAssignment(group_id, key.string(), _parsed(value, _read_current))
    return r.ShareStatePartitions(group_id, _parsed(value, _read_states))


def _parsed(value: bytes | None, read: Callable[[Reader], T]) -> T | None:
    if value is None:
        return None
    source = Reader(value, flexible=True)
    source.int16()  # the version
    return read(source)


def _key(kind: int, *texts: str) -> bytes:
    out = Writer().int16(kind)
    for text in texts:
        out.string(text)
    return out.done()


def _member(value: r.ShareMemberMetadataValue) -> bytes:
    out = Writer().int16(0).compact_nullable_string(value.rack_id)
    out.compact_string(value.client_id).compact_string(value.client_host)
    out.compact_count(len(value.subscribed_topic_names))
    for name in value.subscribed_topic_names:
        out.compact_string(name)
    return out.tags({}).done()


def _target(value: r.TargetAssignmentMetadataValue) -> bytes:
    at = value.assignment_timestamp_ms
    out = Writer().int16(0).int32(value.assignment_epoch)
    return out.tags({0: at.to_bytes(_INT64_BYTES, "big", signed=True)} if at else {}).done()


def _current(value: r.ShareCurrentAssignmentValue) -> bytes:
    out = Writer().int16(0).int32(value.member_epoch).int32(value.previous_member_epoch).int8(_STABLE)
    return _topics(out, value.assigned).tags({}).done()


def _states(value: r.ShareStatePartitionsValue) -> bytes:
    out = Writer().int16(0).compact_count(0).compact_count(len(value.initialized))
    for topic_id, name, partitions in value.initialized:
        _numbers(out.raw(topic_id).compact_string(name), partitions).tags({})
    return out.compact_count(0).tags({}).done()


def _topics(out: Writer, partitions: Partitions) -> Writer:
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    out.compact_count(len(topics))
    for topic_id, numbers in topics.items():
        _numbers(out.raw(topic_id), numbers).tags({})
    return out


def _numbers(out: Writer, numbers: Iterable[int]) -> Writer:
    every = list(numbers)
    out.compact_count(len(every))
    for number in every:
        out.int32(number)
    return out


def _read_member(source: Reader) -> r.ShareMemberMetadataValue:
    rack, client_id, host = source.nullable_text(), source.text(), source.text()
    names = tuple(source.text() for _ in range(source.count()))
    return r.ShareMemberMetadataValue(rack, client_id, host, names)


def _read_epochs(source: Reader) -> r.ConsumerGroupMetadataValue:
    return r.ConsumerGroupMetadataValue(source.int32(), source.int64())


def _read_target(source: Reader) -> r.TargetAssignmentMetadataValue:
    epoch, tags = source.int32(), source.tags()
    return r.TargetAssignmentMetadataValue(epoch, int.from_bytes(tags.get(0, b""), "big", signed=True))


def _read_current(source: Reader) -> r.ShareCurrentAssignmentValue:
    epoch, previous, _ = source.int32(), source.int32(), source.int8()
    return r.ShareCurrentAssignmentValue(epoch, previous, _read_topics(source))


def _read_states(source: Reader) -> r.ShareStatePartitionsValue:
    initializing, initialized = _read_infos(source), _read_infos(source)
    return r.ShareStatePartitionsValue((*initialized, *initializing))


def _read_infos(source: Reader) -> tuple[tuple[bytes, str, tuple[int, ...]], ...]:
    infos = []
    for _ in range(source.count()):
        topic_id, name = source.raw(_UUID_BYTES), source.text()
        infos.append((topic_id, name, tuple(source.int32() for _ in range(source.count()))))
        source.tags()
    return tuple(infos)


def _read_topics(source: Reader) -> Partitions:
    partitions = set()
    for _ in range(source.count()):
        topic_id = source.raw(_UUID_BYTES)
        partitions |= {(topic_id, source.int32()) for _ in range(source.count())}
        source.tags()
    return frozenset(partitions)
