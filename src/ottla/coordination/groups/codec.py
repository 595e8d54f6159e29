"""Group records <-> Apache Kafka's bytes: a two-byte type or version, then the fields of Kafka's schema."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.coordination.groups import records as r
from ottla.coordination.groups.packing import Reader, Writer
from ottla.coordination.groups.streams.records import StreamsGroupRecord

T = TypeVar("T")

OFFSET_COMMIT_KEYS = (0, 1)
GROUP_METADATA_KEY = 2
CONSUMER_GROUP_METADATA_KEY = 3
PARTITION_METADATA_KEY = 4
MEMBER_METADATA_KEY = 5
TARGET_ASSIGNMENT_METADATA_KEY = 6
TARGET_ASSIGNMENT_MEMBER_KEY = 7
CURRENT_MEMBER_ASSIGNMENT_KEY = 8
REGULAR_EXPRESSION_KEY = 16
SHARE_KEYS = range(10, 16)
STREAMS_KEYS = range(17, 24)
OLD_STREAMS_KEY = 18  # partition metadata, which no release writes any more

GROUP_METADATA_VERSION = 3  # the highest that is not flexible: what Apache Kafka writes
OFFSET_COMMIT_VERSION = 4
FIRST_FLEXIBLE = 4  # of both values above


class GroupCodec:
    """The RecordCodec of a shard of `__consumer_offsets`."""

    def encode(self, record: r.GroupRecord) -> tuple[bytes, bytes | None]:
        return encode(record)

    def decode(self, key: bytes, value: bytes | None) -> r.GroupRecord | None:
        return decode(key, value)


def encode(record: r.GroupRecord) -> tuple[bytes, bytes | None]:
    match record:
        case r.OffsetCommit():
            key = _key(1, record.group_id, record.topic).int32(record.partition)
            return key.done(), _value(record.value, _write_offset)
        case r.GroupMetadata():
            return _key(GROUP_METADATA_KEY, record.group_id).done(), _value(record.value, _write_group)
        case r.ConsumerGroupMetadata():
            key = _key(CONSUMER_GROUP_METADATA_KEY, record.group_id)
            return key.done(), _value(record.value, _write_epoch)
        case r.MemberMetadata():
            key = _key(MEMBER_METADATA_KEY, record.group_id, record.member_id)
            return key.done(), _value(record.value, _write_member)
        case r.TargetAssignmentMetadata():
            key = _key(TARGET_ASSIGNMENT_METADATA_KEY, record.group_id)
            return key.done(), _value(record.value, _write_target_epoch)
        case r.TargetAssignmentMember():
            key = _key(TARGET_ASSIGNMENT_MEMBER_KEY, record.group_id, record.member_id)
            return key.done(), _value(record.value, _write_target)
        case r.CurrentMemberAssignment():
            key = _key(CURRENT_MEMBER_ASSIGNMENT_KEY, record.group_id, record.member_id)
            return key.done(), _value(record.value, _write_current)
        case r.RegularExpression():
            key = _key(REGULAR_EXPRESSION_KEY, record.group_id, record.regex)
            return key.done(), _value(record.value, _write_regex)
        case r.PartitionMetadata():
            return _key(PARTITION_METADATA_KEY, record.group_id).done(), None
    if isinstance(record, r.ShareGroupRecord):
        from ottla.coordination.groups import share_codec  # few groups share

        return share_codec.encode(record)
    if isinstance(record, StreamsGroupRecord):
        from ottla.coordination.groups.streams import codec as streams_codec

        return streams_codec.encode(record)
    raise TypeError(f"not a group record: {record!r}")


def decode(key: bytes, value: bytes | None) -> r.GroupRecord | None:
    """None for what other releases and other kinds of groups keep here; ValueError for broken bytes."""
    reader = Reader(key)
    match reader.int16():
        case 0 | 1:
            group_id, topic, partition = reader.string(), reader.string(), reader.int32()
            return r.OffsetCommit(group_id, topic, partition, _parsed(value, _read_offset))
        case 2:
            return r.GroupMetadata(reader.string(), _parsed(value, _read_group))
        case 3:
            return r.ConsumerGroupMetadata(reader.string(), _parsed(value, _read_epoch))
        case 4:
            return r.PartitionMetadata(reader.string())
        case 5:
            return r.MemberMetadata(reader.string(), reader.string(), _parsed(value, _read_member))
        case 6:
            return r.TargetAssignmentMetadata(reader.string(), _parsed(value, _read_target_epoch))
        case 7:
            return r.TargetAssignmentMember(reader.string(), reader.string(), _parsed(value, _read_target))
        case 8:
            return r.CurrentMemberAssignment(reader.string(), reader.string(), _parsed(value, _read_current))
        case 16:
            return r.RegularExpression(reader.string(), reader.string(), _parsed(value, _read_regex))
        case kind if kind in SHARE_KEYS:
            from ottla.coordination.groups import share_codec

            return share_codec.decode(kind, reader, value)
        case kind if kind in STREAMS_KEYS and kind != OLD_STREAMS_KEY:
            from ottla.coordination.groups.streams import codec as streams_codec

            return streams_codec.decode(kind, reader, value)
    return None


def _key(record_type: int, *strings: str) -> Writer:
    writer = Writer().int16(record_type)
    for string in strings:
        writer.string(string)
    return writer


def _value(value: T | None, write: Callable[[Writer, T], None]) -> bytes | None:
    if value is None:
        return None
    writer = Writer()
    write(writer, value)
    return writer.done()


def _parsed(value: bytes | None, read: Callable[[Reader, int], T]) -> T | None:
    if value is None:
        return None
    reader = Reader(value)
    return read(reader, reader.int16())


# Offsets


def _write_offset(out: Writer, value: r.OffsetCommitValue) -> None:
    if value.expire_timestamp_ms != -1:  # only version 1 has room for it
        out.int16(1).int64(value.offset).string(value.metadata)
        out.int64(value.commit_timestamp_ms).int64(value.expire_timestamp_ms)
        return
    out.int16(OFFSET_COMMIT_VERSION).int64(value.offset).int32(value.leader_epoch)
    out.compact_string(value.metadata).int64(value.commit_timestamp_ms)
    out.tags({0: value.topic_id} if value.topic_id != r.NO_TOPIC_ID else {})


def _read_offset(source: Reader, version: int) -> r.OffsetCommitValue:
    flexible = version >= FIRST_FLEXIBLE
    offset = source.int64()
    leader_epoch = source.int32() if version >= 3 else -1
    metadata = source.compact_string() if flexible else source.string()
    committed = source.int64()
    expires = source.int64() if version == 1 else -1
    tags = source.tags() if flexible else {}
    return r.OffsetCommitValue(
        offset, metadata, committed, leader_epoch, expires, bytes(tags.get(0, r.NO_TOPIC_ID))
    )


# Classic groups


def _write_group(out: Writer, value: r.GroupMetadataValue) -> None:
    out.int16(GROUP_METADATA_VERSION).string(value.protocol_type).int32(value.generation)
    out.nullable_string(value.protocol).nullable_string(value.leader)
    out.int64(value.state_timestamp_ms).int32(len(value.members))
    for member in value.members:
        out.string(member.member_id).nullable_string(member.group_instance_id)
        out.string(member.client_id).string(member.client_host)
        out.int32(member.rebalance_timeout_ms).int32(member.session_timeout_ms)
        out.blob(member.subscription).blob(member.assignment)


def _read_group(source: Reader, version: int) -> r.GroupMetadataValue:
    source.flexible = version >= FIRST_FLEXIBLE
    protocol_type, generation = source.text(), source.int32()
    protocol, leader = source.nullable_text(), source.nullable_text()
    changed = source.int64() if version >= 2 else -1
    members = tuple(_read_classic_member(source, version) for _ in range(source.count()))
    if source.flexible:
        source.tags()
    return r.GroupMetadataValue(protocol_type, generation, protocol, leader, changed, members)


def _read_classic_member(source: Reader, version: int) -> r.ClassicMemberValue:
    member_id = source.text()
    instance_id = source.nullable_text() if version >= 3 else None
    client_id, client_host = source.text(), source.text()
    rebalance_ms = source.int32() if version >= 1 else -1
    session_ms = source.int32()
    member = r.ClassicMemberValue(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_ms if version >= 1 else session_ms,
        session_ms,
        source.blob(),
        source.blob(),
    )
    if source.flexible:
        source.tags()
    return member


# Consumer groups (KIP-848): version 0 of each, all flexible


def _write_epoch(out: Writer, value: r.ConsumerGroupMetadataValue) -> None:
    out.int16(0).int32(value.epoch)
    out.tags({0: Writer().int64(value.metadata_hash).done()} if value.metadata_hash else {})


def _read_epoch(source: Reader, _version: int) -> r.ConsumerGroupMetadataValue:
    epoch, tags = source.int32(), source.tags()
    return r.ConsumerGroupMetadataValue(epoch, Reader(tags[0]).int64() if 0 in tags else 0)


def _write_member(out: Writer, value: r.MemberMetadataValue) -> None:
    out.int16(0).compact_nullable_string(value.instance_id).compact_nullable_string(value.rack_id)
    out.compact_string(value.client_id).compact_string(value.client_host)
    out.compact_count(len(value.subscribed_topic_names))
    for name in value.subscribed_topic_names:
        out.compact_string(name)
    out.compact_nullable_string(value.subscribed_topic_regex).int32(value.rebalance_timeout_ms)
    out.compact_nullable_string(value.server_assignor)
    out.tags({0: _classic_metadata(value.classic)})  # a null too, as Apache Kafka does


def _classic_metadata(classic: r.ClassicMemberMetadata | None) -> bytes:
    if classic is None:
        return b"\0"
    out = Writer().int8(1)  # a nullable struct starts with a presence byte
    out.int32(classic.session_timeout_ms).compact_count(len(classic.supported_protocols))
    for name, metadata in classic.supported_protocols:
        out.compact_string(name).compact_bytes(metadata).tags({})
    return out.tags({}).done()


def _read_member(source: Reader, _version: int) -> r.MemberMetadataValue:
    source.flexible = True
    instance_id, rack_id = source.nullable_text(), source.nullable_text()
    client_id, client_host = source.text(), source.text()
    names = tuple(source.text() for _ in range(source.count()))
    regex, rebalance_ms, assignor = source.nullable_text(), source.int32(), source.nullable_text()
    tags = source.tags()
    return r.MemberMetadataValue(
        instance_id,
        rack_id,
        client_id,
        client_host,
        names,
        regex,
        rebalance_ms,
        assignor,
        _read_classic_metadata(Reader(tags[0])) if 0 in tags else None,
    )


def _read_classic_metadata(source: Reader) -> r.ClassicMemberMetadata | None:
    if source.int8() <= 0:
        return None
    source.flexible = True
    session_ms = source.int32()
    protocols = []
    for _ in range(source.count()):
        protocols.append((source.text(), source.blob()))
        source.tags()
    return r.ClassicMemberMetadata(session_ms, tuple(protocols))


def _write_target_epoch(out: Writer, value: r.TargetAssignmentMetadataValue) -> None:
    out.int16(0).int32(value.assignment_epoch)
    stamp = value.assignment_timestamp_ms
    out.tags({0: Writer().int64(stamp).done()} if stamp else {})


def _read_target_epoch(source: Reader, _version: int) -> r.TargetAssignmentMetadataValue:
    epoch, tags = source.int32(), source.tags()
    return r.TargetAssignmentMetadataValue(epoch, Reader(tags[0]).int64() if 0 in tags else 0)


def _write_target(out: Writer, value: r.Partitions) -> None:
    out.int16(0)
    topics = _by_topic((partition, 0) for partition in value)
    out.compact_count(len(topics))
    for topic_id, partitions in topics:
        out.raw(topic_id).compact_count(len(partitions))
        for partition, _ in partitions:
            out.int32(partition)
        out.tags({})
    out.tags({})


def _read_target(source: Reader, _version: int) -> r.Partitions:
    partitions = frozenset(partition for partition, _ in _read_assignment(source, 0))
    source.tags()
    return partitions


def _write_current(out: Writer, value: r.CurrentMemberAssignmentValue) -> None:
    out.int16(0).int32(value.member_epoch).int32(value.previous_member_epoch).int8(value.state)
    _write_assignment(out, value.assigned)
    _write_assignment(out, value.pending_revocation)
    out.tags({})


def _read_current(source: Reader, _version: int) -> r.CurrentMemberAssignmentValue:
    epoch, previous, state = source.int32(), source.int32(), source.int8()
    assigned = _read_assignment(source, epoch)
    pending = _read_assignment(source, epoch)
    source.tags()
    return r.CurrentMemberAssignmentValue(epoch, previous, state, assigned, pending)


def _write_assignment(out: Writer, assigned: Iterable[tuple[r.TopicPartition, int]]) -> None:
    topics = _by_topic(assigned)
    out.compact_count(len(topics))
    for topic_id, partitions in topics:
        out.raw(topic_id).compact_count(len(partitions))
        epochs = Writer().compact_count(len(partitions))
        for partition, epoch in partitions:
            out.int32(partition)
            epochs.int32(epoch)
        out.tags({0: epochs.done()})


def _read_assignment(source: Reader, epoch: int) -> tuple[tuple[r.TopicPartition, int], ...]:
    """Releases before 4.3 wrote no epochs: the member's own is the safe one, as nothing older may commit."""
    with_epochs: list[tuple[r.TopicPartition, int]] = []
    source.flexible = True
    for _ in range(source.count()):
        topic_id = source.raw(16)
        partitions = [source.int32() for _ in range(source.count())]
        tags = source.tags()
        epochs = [epoch] * len(partitions)
        if 0 in tags:
            inner = Reader(tags[0])
            inner.flexible = True
            epochs = [inner.int32() for _ in range(inner.count())] or epochs
        with_epochs.extend(
            ((topic_id, partition), at) for partition, at in zip(partitions, epochs, strict=True)
        )
    return tuple(with_epochs)


def _by_topic(
    assigned: Iterable[tuple[r.TopicPartition, int]],
) -> list[tuple[bytes, list[tuple[int, int]]]]:
    topics: dict[bytes, list[tuple[int, int]]] = {}
    for (topic_id, partition), epoch in sorted(assigned):
        topics.setdefault(topic_id, []).append((partition, epoch))
    return list(topics.items())


def _write_regex(out: Writer, value: r.RegularExpressionValue) -> None:
    out.int16(0).compact_count(len(value.topics))
    for name in value.topics:
        out.compact_string(name)
    out.int64(value.version).int64(value.timestamp_ms).tags({})


def _read_regex(source: Reader, _version: int) -> r.RegularExpressionValue:
    source.flexible = True
    topics = tuple(source.text() for _ in range(source.count()))
    value = r.RegularExpressionValue(topics, source.int64(), source.int64())
    source.tags()
    return value
