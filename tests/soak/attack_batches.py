"""Requests of produce, fetch and their like that want too much, or carry what hurts to unpack."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from tests.compat.batches import batch

VICTIM = "victim"
DUPLICATES = 10_000
SESSION_PARTITIONS = 10_000
BOMBS = 100
REFUSALS = 200_000
BOMB_BYTES = 32 << 20


@cache
def a_bomb() -> bytes:
    """A batch of a few hundred bytes that unpacks to zeros without end."""
    import zstandard

    packed = zstandard.ZstdCompressor(level=1).compress(bytes(BOMB_BYTES))
    return repacked(batch([b"v"], attributes=4), packed)


def repacked(one: bytes, records: bytes) -> bytes:
    """The same batch with other records behind its header, and a checksum that is right."""
    import crc32c

    head = bytearray(one[:61])
    struct.pack_into(">i", head, 8, 61 - 12 + len(records))
    struct.pack_into(">I", head, 17, crc32c.crc32c(bytes(head[21:]) + records))
    return bytes(head) + records


@cache
def from_the_future() -> bytes:
    """A batch of very many records, each of which is refused for its timestamp."""
    from ottla.wire import batch as batches
    from ottla.wire.compression import ZSTD
    from ottla.wire.records import Record

    return batches.build([Record(at, 2**61, None, b"") for at in range(REFUSALS)], codec=ZSTD)


def a_produce(records: bytes) -> dict[str, Any]:
    data = [{"name": VICTIM, "partition_data": [{"index": 0, "records": records}]}]
    return {"acks": -1, "timeout": 1000, "topic_data": data}


def a_fetch(topic: str, *, wait_ms: int, bytes_min: int) -> dict[str, Any]:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 20 << 20, "current_leader_epoch": -1}
    return {
        "replica_id": -1,
        "max_wait": wait_ms,
        "min_bytes": bytes_min,
        "max_bytes": 20 << 20,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [wanted]}],
        "rack_id": "",
    }


def a_session() -> dict[str, Any]:
    """Of very many partitions."""
    partitions = [{"partition": index, "partition_max_bytes": 1000} for index in range(SESSION_PARTITIONS)]
    return {
        **a_fetch(VICTIM, wait_ms=0, bytes_min=1),
        "session_epoch": 0,
        "topics": [{"topic": VICTIM, "partitions": partitions}],
    }


def bombs() -> dict[str, Any]:
    partitions = [{"index": index, "records": a_bomb()} for index in range(BOMBS)]
    return {**a_produce(b""), "topic_data": [{"name": VICTIM, "partition_data": partitions}]}


def repeated_fetch() -> dict[str, Any]:
    partitions = [{"partition": 0, "partition_max_bytes": 1000}] * DUPLICATES
    topics = [{"topic": VICTIM, "partitions": partitions}]
    return {**a_fetch(VICTIM, wait_ms=100, bytes_min=1), "topics": topics}


def repeated_list_offsets() -> dict[str, Any]:
    offsets = [{"partition_index": 0, "timestamp": -1}] * DUPLICATES
    return {"topics": [{"name": VICTIM, "partitions": offsets}]}


def repeated_produce() -> dict[str, Any]:
    twice = [{"index": 0, "records": batch([b"v"])}] * 2
    return {**a_produce(b""), "topic_data": [{"name": VICTIM, "partition_data": twice}]}


def repeated_describe_configs() -> dict[str, Any]:
    resource = {"resource_type": 2, "resource_name": VICTIM, "configuration_keys": None}
    return {"resources": [resource] * (DUPLICATES // 10)}


REPEATS: list[tuple[str, int, Callable[[], dict[str, Any]]]] = [
    ("metadata", 9, lambda: {"topics": [{"name": VICTIM}] * DUPLICATES}),
    ("fetch", 11, repeated_fetch),
    ("list_offsets", 5, repeated_list_offsets),
    ("produce", 9, repeated_produce),
    ("describe_configs", 2, repeated_describe_configs),
]
