"""Records of streams groups <-> Apache Kafka's bytes: version 0 of each, all flexible."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.coordination.groups.packing import Reader, Writer
from ottla.coordination.groups.streams import records as r

T = TypeVar("T")
GROUP, MEMBER, TARGET, TARGET_MEMBER, CURRENT, TOPOLOGY = 17, 19, 20, 21, 22, 23
_INT64 = 8


def encode(record: r.StreamsGroupRecord) -> tuple[bytes, bytes | None]:
    match record:
        case r.StreamsGroupMetadata(group_id, value):
            return _key(GROUP, group_id), None if value is None else _group(value)
        case r.StreamsMemberMetadata(group_id, member_id, metadata):
            return _key(MEMBER, group_id, member_id), None if metadata is None else _member(metadata)
        case r.StreamsTargetMetadata(group_id, target):
            return _key(TARGET, group_id), None if target is None else _target(target)
        case r.StreamsTargetMember(group_id, member_id, tasks):
            return _key(TARGET_MEMBER, group_id, member_id), None if tasks is None else _target_tasks(tasks)
        case r.StreamsCurrentAssignment(group_id, member_id, current):
            return _key(CURRENT, group_id, member_id), None if current is None else _current(current)
        case r.StreamsTopology(group_id, topology):
            return _key(TOPOLOGY, group_id), None if topology is None else _topology(topology)
    raise TypeError(f"not a record of a streams group: {record!r}")


def decode(kind: int, key: Reader, value: bytes | None) -> r.StreamsGroupRecord:
    group_id = key.string()
    match kind:
        case 17:
            return r.StreamsGroupMetadata(group_id, _parsed(value, _read_group))
        case 19:
            return r.StreamsMemberMetadata(group_id, key.string(), _parsed(value, _read_member))
        case 20:
            return r.StreamsTargetMetadata(group_id, _parsed(value, _read_target))
        case 21:
            return r.StreamsTargetMember(group_id, key.string(), _parsed(value, _read_target_tasks))
        case 22:
            return r.StreamsCurrentAssignment(group_id, key.string(), _parsed(value, _read_current))
    return r.StreamsTopology(group_id, _parsed(value, _read_topology))


def _key(kind: int, *texts: str) -> bytes:
    out = Writer().int16(kind)
    for text in texts:
        out.string(text)
    return out.done()


def _parsed(value: bytes | None, read: Callable[[Reader], T]) -> T | None:
    if value is None:
        return None
    source = Reader(value, flexible=True)
    source.int16()  # the version
    return read(source)


# Groups and members


def _group(value: r.GroupValue) -> bytes:
    tags = {}
    if value.validated_topology_epoch != -1:
        tags[0] = Writer().int32(value.validated_topology_epoch).done()
    if value.assignment_configs:
        tags[1] = _pairs(Writer(), value.assignment_configs).done()
    return Writer().int16(0).int32(value.epoch).int64(value.metadata_hash).tags(tags).done()


def _read_group(source: Reader) -> r.GroupValue:
    epoch, metadata_hash, tags = source.int32(), source.int64(), source.tags()
    validated = int.from_bytes(tags[0], "big", signed=True) if 0 in tags else -1
    configs = _read_pairs(Reader(tags[1], flexible=True)) if 1 in tags else ()
    return r.GroupValue(epoch, metadata_hash, validated, configs)


def _member(value: r.MemberValue) -> bytes:
    out = Writer().int16(0).compact_nullable_string(value.instance_id)
    out.compact_nullable_string(value.rack_id).compact_string(value.client_id)
    out.compact_string(value.client_host).int32(value.rebalance_timeout_ms)
    out.int32(value.topology_epoch).compact_string(value.process_id)
    if value.user_endpoint is None:
        out.int8(-1)
    else:
        host, port = value.user_endpoint
        out.int8(1).compact_string(host).raw(port.to_bytes(2, "big")).tags({})
    return _pairs(out, value.client_tags).tags({}).done()


def _read_member(source: Reader) -> r.MemberValue:
    instance_id, rack_id = source.nullable_text(), source.nullable_text()
    client_id, client_host = source.text(), source.text()
    timeout_ms, epoch, process_id = source.int32(), source.int32(), source.text()
    endpoint = None
    if source.int8() >= 0:
        endpoint = source.text(), int.from_bytes(source.raw(2), "big")
        source.tags()
    tags = _read_pairs(source)
    source.tags()
    return r.MemberValue(
        instance_id, rack_id, client_id, client_host, timeout_ms, epoch, process_id, endpoint, tags
    )


def _pairs(out: Writer, pairs: tuple[tuple[str, str], ...]) -> Writer:
    out.compact_count(len(pairs))
    for key, value in pairs:
        out.compact_string(key).compact_string(value).tags({})
    return out


def _read_pairs(source: Reader) -> tuple[tuple[str, str], ...]:
    pairs = []
    for _ in range(source.count()):
        pairs.append((source.text(), source.text()))
        source.tags()
    return tuple(pairs)


# Assignments


def _target(value: r.TargetValue) -> bytes:
    stamp = value.assignment_timestamp_ms
    tags = {0: stamp.to_bytes(_INT64, "big", signed=True)} if stamp else {}
    return Writer().int16(0).int32(value.assignment_epoch).tags(tags).done()


def _read_target(source: Reader) -> r.TargetValue:
    epoch, tags = source.int32(), source.tags()
    return r.TargetValue(epoch, int.from_bytes(tags.get(0, b""), "big", signed=True))


def _target_tasks(value: r.TasksByRole) -> bytes:
    out = Writer().int16(0)
    for tasks in (value.active, value.standby, value.warmup):
        _tasks(out, tasks)
    return out.tags({}).done()


def _read_target_tasks(source: Reader) -> r.TasksByRole:
    active, standby, warmup = (_read_tasks(source) for _ in range(3))
    source.tags()
    return r.TasksByRole(active, standby, warmup)


def _current(value: r.CurrentValue) -> bytes:
    out = Writer().int16(0).int32(value.member_epoch).int32(value.previous_member_epoch).int8(value.state)
    for held in (value.assigned, value.pending_revocation):
        _tasks_with_epochs(out, held.active)
        _tasks(out, held.standby)
        _tasks(out, held.warmup)
    return out.tags({}).done()


def _read_current(source: Reader) -> r.CurrentValue:
    epoch, previous, state = source.int32(), source.int32(), source.int8()
    assigned, pending = (
        r.Held(_read_tasks_with_epochs(source, epoch), _read_tasks(source), _read_tasks(source))
        for _ in range(2)
    )
    source.tags()
    return r.CurrentValue(epoch, previous, state, assigned, pending)


def _tasks(out: Writer, tasks: r.Tasks) -> None:
    rows = _by_subtopology((task, 0) for task in tasks)
    out.compact_count(len(rows))
    for subtopology_id, partitions in rows:
        _numbers(out.compact_string(subtopology_id), (number for number, _ in partitions)).tags({})


def _read_tasks(source: Reader) -> r.Tasks:
    return frozenset(task for task, _ in _read_tasks_with_epochs(source, 0))


def _tasks_with_epochs(out: Writer, tasks: tuple[tuple[r.Task, int], ...]) -> None:
    rows = _by_subtopology(tasks)
    out.compact_count(len(rows))
    for subtopology_id, partitions in rows:
        _numbers(out.compact_string(subtopology_id), (number for number, _ in partitions))
        out.tags({0: _numbers(Writer(), (epoch for _, epoch in partitions)).done()})


def _read_tasks_with_epochs(source: Reader, epoch: int) -> tuple[tuple[r.Task, int], ...]:
    """Without epochs, or with too few of them, the member's own epoch counts: nothing older may commit."""
    held: list[tuple[r.Task, int]] = []
    for _ in range(source.count()):
        subtopology_id, partitions = source.text(), _read_numbers(source)
        tags = source.tags()
        epochs = _read_numbers(Reader(tags[0], flexible=True)) if 0 in tags else []
        if len(epochs) != len(partitions):
            epochs = [epoch] * len(partitions)
        held += (((subtopology_id, number), at) for number, at in zip(partitions, epochs, strict=True))
    return tuple(sorted(held))


def _by_subtopology(tasks: Iterable[tuple[r.Task, int]]) -> list[tuple[str, list[tuple[int, int]]]]:
    rows: dict[str, list[tuple[int, int]]] = {}
    for (subtopology_id, partition), epoch in sorted(tasks):
        rows.setdefault(subtopology_id, []).append((partition, epoch))
    return list(rows.items())


def _numbers(out: Writer, numbers: Iterable[int]) -> Writer:
    every = list(numbers)
    out.compact_count(len(every))
    for number in every:
        out.int32(number)
    return out


def _read_numbers(source: Reader) -> list[int]:
    return [source.int32() for _ in range(source.count())]


# Topologies


def _topology(value: r.TopologyValue) -> bytes:
    out = Writer().int16(0).int32(value.epoch).compact_count(len(value.subtopologies))
    for part in value.subtopologies:
        out.compact_string(part.subtopology_id)
        _texts(out, part.source_topics)
        _texts(out, part.source_topic_regex)
        _topics(out, part.changelogs)
        _texts(out, part.repartition_sinks)
        _topics(out, part.repartition_sources)
        out.compact_count(len(part.copartition_groups))
        for group in part.copartition_groups:
            for indexes in (group.source_topics, group.source_topic_regex, group.repartition_source_topics):
                out.compact_count(len(indexes))
                for index in indexes:
                    out.int16(index)
            out.tags({})
        out.tags({})
    return out.tags({}).done()


def _read_topology(source: Reader) -> r.TopologyValue:
    epoch = source.int32()
    parts = tuple(_read_subtopology(source) for _ in range(source.count()))
    source.tags()
    return r.TopologyValue(epoch, parts)


def _read_subtopology(source: Reader) -> r.Subtopology:
    part = r.Subtopology(
        source.text(),
        _read_texts(source),
        _read_texts(source),
        _read_topics(source),
        _read_texts(source),
        _read_topics(source),
        tuple(_read_copartition_group(source) for _ in range(source.count())),
    )
    source.tags()
    return part


def _read_copartition_group(source: Reader) -> r.CopartitionGroup:
    lists = [tuple(source.int16() for _ in range(source.count())) for _ in range(3)]
    source.tags()
    return r.CopartitionGroup(*lists)


def _topics(out: Writer, topics: tuple[r.TopicInfo, ...]) -> None:
    out.compact_count(len(topics))
    for topic in topics:
        out.compact_string(topic.name).int32(topic.partitions).int16(topic.replication_factor)
        _pairs(out, topic.configs).tags({})


def _read_topics(source: Reader) -> tuple[r.TopicInfo, ...]:
    topics = []
    for _ in range(source.count()):
        topics.append(r.TopicInfo(source.text(), source.int32(), source.int16(), _read_pairs(source)))
        source.tags()
    return tuple(topics)


def _texts(out: Writer, texts: tuple[str, ...]) -> None:
    out.compact_count(len(texts))
    for text in texts:
        out.compact_string(text)


def _read_texts(source: Reader) -> tuple[str, ...]:
    return tuple(source.text() for _ in range(source.count()))
