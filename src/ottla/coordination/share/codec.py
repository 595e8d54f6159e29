"""Records of share states <-> Apache Kafka's bytes."""

import struct
from collections.abc import Iterable

from ottla.coordination.groups.packing import Reader, Writer
from ottla.coordination.share.records import (
    Batch,
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareState,
    ShareUpdate,
)

SNAPSHOT_KEY, UPDATE_KEY = 0, 1
_COMPLETE_TAG = 0
_DUE_TAG, _VERDICT_TAG = 1000, 1001  # ours: Kafka passes over them
_PLAIN = struct.Struct(">qqbhB").pack  # a batch without tags
_INT32_BYTES, _INT64_BYTES, _UUID_BYTES = 4, 8, 16


class ShareCodec:
    """The RecordCodec of a shard of `__share_group_state`."""

    def encode(self, record: ShareRecord) -> tuple[bytes, bytes | None]:
        if isinstance(record, ShareSnapshot):
            return _key(SNAPSHOT_KEY, record.key), None if record.value is None else _snapshot(record.value)
        return _key(UPDATE_KEY, record.key), _update(record)

    def decode(self, key: bytes, value: bytes | None) -> ShareRecord | None:
        source = Reader(key)
        kind = source.int16()
        if kind not in (SNAPSHOT_KEY, UPDATE_KEY):
            return None
        share_key = ShareKey(source.string(), source.raw(_UUID_BYTES), source.int32())
        if kind == SNAPSHOT_KEY:
            return ShareSnapshot(share_key, None if value is None else _read_snapshot(Reader(value)))
        return None if value is None else _read_update(share_key, Reader(value))


def _key(kind: int, key: ShareKey) -> bytes:
    return Writer().int16(kind).string(key.group_id).raw(key.topic_id).int32(key.partition).done()


def _snapshot(state: ShareState) -> bytes:
    out = Writer().int16(0).int32(state.snapshot_epoch).int32(state.state_epoch).int32(state.leader_epoch)
    out.int64(state.start_offset).int64(state.create_timestamp_ms).int64(state.write_timestamp_ms)
    _write_batches(out, state.batches)
    return _with_complete(out, state.delivery_complete_count).done()


def _update(record: ShareUpdate) -> bytes:
    out = Writer().int16(0).int32(record.snapshot_epoch).int32(record.leader_epoch).int64(record.start_offset)
    _write_batches(out, record.batches)
    return _with_complete(out, record.delivery_complete_count).done()


def _write_batches(out: Writer, batches: Iterable[Batch]) -> None:
    every = tuple(batches)
    out.compact_count(len(every))
    for batch in every:
        if not batch.due_ms and not batch.verdict:  # nearly all, of up to tens of thousands
            out.raw(_PLAIN(batch.first_offset, batch.last_offset, batch.state, batch.delivery_count, 0))
            continue
        out.int64(batch.first_offset).int64(batch.last_offset).int8(batch.state).int16(batch.delivery_count)
        own = {}
        if batch.due_ms:
            own[_DUE_TAG] = batch.due_ms.to_bytes(_INT64_BYTES, "big")
        if batch.verdict:
            own[_VERDICT_TAG] = bytes([batch.verdict])
        out.tags(own)


def _with_complete(out: Writer, count: int) -> Writer:
    return out.tags({} if count == -1 else {_COMPLETE_TAG: count.to_bytes(_INT32_BYTES, "big", signed=True)})


def _read_snapshot(source: Reader) -> ShareState:
    source.int16()
    snapshot_epoch, state_epoch, leader_epoch = source.int32(), source.int32(), source.int32()
    start_offset, created, written = source.int64(), source.int64(), source.int64()
    batches = _read_batches(source)
    complete = _complete(source)
    return ShareState(
        snapshot_epoch, state_epoch, leader_epoch, start_offset, complete, created, written, batches
    )


def _read_update(key: ShareKey, source: Reader) -> ShareUpdate:
    source.int16()
    snapshot_epoch, leader_epoch, start_offset = source.int32(), source.int32(), source.int64()
    batches = _read_batches(source)
    return ShareUpdate(key, snapshot_epoch, leader_epoch, start_offset, _complete(source), batches)


def _read_batches(source: Reader) -> tuple[Batch, ...]:
    batches = []
    source.flexible = True
    for _ in range(source.count()):
        first, last, state, count = source.int64(), source.int64(), source.int8(), source.int16()
        own = source.tags()
        due_ms, verdict = (int.from_bytes(own.get(tag, b""), "big") for tag in (_DUE_TAG, _VERDICT_TAG))
        batches.append(Batch(first, last, state, count, due_ms, verdict))
    return tuple(batches)


def _complete(source: Reader) -> int:
    tags = source.tags()
    return int.from_bytes(tags[_COMPLETE_TAG], "big", signed=True) if _COMPLETE_TAG in tags else -1
