"""MirrorMaker's records in its own bytes: offset syncs, checkpoints, heartbeats. Pure."""

import struct

from ottla.client.values import TopicPartition

_VERSION = struct.pack(">h", 0)
_OFFSETS = struct.Struct(">qq")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


def offset_sync(partition: TopicPartition, upstream: int, downstream: int) -> tuple[bytes, bytes]:
    """The source's partition, and a pair of offsets of one record."""
    return _text(partition.topic) + _INT32.pack(partition.partition), _OFFSETS.pack(upstream, downstream)


def read_offset_sync(key: bytes, value: bytes) -> tuple[TopicPartition, int, int]:
    topic, at = _read_text(key, 0)
    (partition,) = _INT32.unpack_from(key, at)
    return TopicPartition(topic, partition), *_OFFSETS.unpack(value)


def checkpoint(
    group: str, partition: TopicPartition, upstream: int, downstream: int, metadata: str
) -> tuple[bytes, bytes]:
    """A group's position: in the source, and in the target's partition that is named."""
    key = _text(group) + _text(partition.topic) + _INT32.pack(partition.partition)
    return key, _VERSION + _OFFSETS.pack(upstream, downstream) + _text(metadata)


def read_checkpoint(key: bytes, value: bytes) -> tuple[str, TopicPartition, int, int, str]:
    group, at = _read_text(key, 0)
    topic, at = _read_text(key, at)
    (partition,) = _INT32.unpack_from(key, at)
    upstream, downstream = _OFFSETS.unpack_from(value, len(_VERSION))
    metadata, _ = _read_text(value, len(_VERSION) + _OFFSETS.size)
    return group, TopicPartition(topic, partition), upstream, downstream, metadata


def heartbeat(source: str, target: str, now_ms: int) -> tuple[bytes, bytes]:
    return _text(source) + _text(target), _VERSION + _INT64.pack(now_ms)


def read_heartbeat(key: bytes, value: bytes) -> tuple[str, str, int]:
    source, at = _read_text(key, 0)
    target, _ = _read_text(key, at)
    return source, target, _INT64.unpack_from(value, len(_VERSION))[0]


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", data, at)
    end = at + 2 + size
    return data[at + 2 : end].decode(), end
