"""Records of `__consumer_offsets`, `__transaction_state` and `__share_group_state` in words, from the schemas that
Apache Kafka publishes.

A schema is a list of (name, type, first version). Types: int8 to int64, string, bytes, uuid, `[type]` and
nested lists; a `?` in front marks what may be null.
"""

import json
import struct
import uuid
from collections.abc import Callable
from typing import Any

from ottla.console.model import Part

_INTEGERS = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q"}
Schema = list[tuple[str, Any, int]]

_PLACES: Schema = [("topicId", "uuid", 0), ("partitions", ["int32"], 0)]
_CLASSIC_MEMBER: Schema = [
    ("memberId", "string", 0),
    ("groupInstanceId", "?string", 3),
    ("clientId", "string", 0),
    ("clientHost", "string", 0),
    ("rebalanceTimeout", "int32", 1),
    ("sessionTimeout", "int32", 0),
    ("subscription", "bytes", 0),
    ("assignment", "bytes", 0),
]
_OFFSET: Schema = [
    ("offset", "int64", 0),
    ("leaderEpoch", "int32", 3),
    ("metadata", "string", 0),
    ("commitTimestamp", "int64", 0),
]
# By the number that a key begins with: what it is, the key's fields, the value's, from which version it is flexible.
_GROUP_RECORDS: dict[int, tuple[str, Schema, Schema, int]] = {
    0: ("offset", [("group", "string", 0), ("topic", "string", 0), ("partition", "int32", 0)], _OFFSET, 4),
    1: ("offset", [("group", "string", 0), ("topic", "string", 0), ("partition", "int32", 0)], _OFFSET, 4),
    2: (
        "group",
        [("group", "string", 0)],
        [
            ("protocolType", "string", 0),
            ("generation", "int32", 0),
            ("protocol", "?string", 0),
            ("leader", "?string", 0),
            ("currentStateTimestamp", "int64", 2),
            ("members", [_CLASSIC_MEMBER], 0),
        ],
        4,
    ),
    3: ("consumer group", [("groupId", "string", 0)], [("epoch", "int32", 0)], 0),
    5: (
        "member",
        [("groupId", "string", 0), ("memberId", "string", 0)],
        [
            ("instanceId", "?string", 0),
            ("rackId", "?string", 0),
            ("clientId", "string", 0),
            ("clientHost", "string", 0),
            ("subscribedTopicNames", ["string"], 0),
            ("subscribedTopicRegex", "?string", 0),
            ("rebalanceTimeoutMs", "int32", 0),
            ("serverAssignor", "?string", 0),
        ],
        0,
    ),
    6: ("target assignment", [("groupId", "string", 0)], [("assignmentEpoch", "int32", 0)], 0),
    7: (
        "target of member",
        [("groupId", "string", 0), ("memberId", "string", 0)],
        [("topicPartitions", [_PLACES], 0)],
        0,
    ),
    8: (
        "current assignment",
        [("groupId", "string", 0), ("memberId", "string", 0)],
        [
            ("memberEpoch", "int32", 0),
            ("previousMemberEpoch", "int32", 0),
            ("state", "int8", 0),
            ("assignedPartitions", [_PLACES], 0),
            ("partitionsPendingRevocation", [_PLACES], 0),
        ],
        0,
    ),
}
_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")
_TRANSACTION: Schema = [
    ("producerId", "int64", 0),
    ("producerEpoch", "int16", 0),
    ("transactionTimeoutMs", "int32", 0),
    ("transactionStatus", "int8", 0),
    ("transactionPartitions", ["?", ("topic", "string", 0), ("partitions", ["int32"], 0)], 0),
    ("lastUpdateTimestamp", "int64", 0),
    ("startTimestamp", "int64", 0),
]
_SHARE_KEY: Schema = [("groupId", "string", 0), ("topicId", "uuid", 0), ("partition", "int32", 0)]
_BATCHES: Schema = [
    ("firstOffset", "int64", 0),
    ("lastOffset", "int64", 0),
    ("deliveryState", "int8", 0),
    ("deliveryCount", "int16", 0),
]
_SHARE_RECORDS: dict[int, tuple[str, Schema]] = {
    0: (
        "share snapshot",
        [
            ("snapshotEpoch", "int32", 0),
            ("stateEpoch", "int32", 0),
            ("leaderEpoch", "int32", 0),
            ("startOffset", "int64", 0),
            ("createTimestamp", "int64", 0),
            ("writeTimestamp", "int64", 0),
            ("stateBatches", [_BATCHES], 0),
        ],
    ),
    1: (
        "share update",
        [
            ("snapshotEpoch", "int32", 0),
            ("leaderEpoch", "int32", 0),
            ("startOffset", "int64", 0),
            ("stateBatches", [_BATCHES], 0),
        ],
    ),
}
_DELIVERY = {0: "available", 1: "acquired", 2: "acknowledged", 4: "archived"}


def parts(topic: str, key: bytes | None, value: bytes | None) -> tuple[Part, Part] | None:
    """Key and value of an internal record; None for other topics and for kinds that are not known here."""
    if key is None or topic not in _TOPICS:
        return None
    try:
        kind, key_data, value_data = _TOPICS[topic](key, value)
    except (struct.error, ValueError, KeyError, IndexError, OverflowError):
        return None
    shown_value = Part("none", "", 0) if value is None else _part("json", value_data, value)
    return _part(kind, key_data, key), shown_value


def _part(kind: str, data: object, raw: bytes) -> Part:
    return Part(kind, json.dumps(data, ensure_ascii=False, indent=2), len(raw), data)


def _group_record(key: bytes, value: bytes | None) -> tuple[str, object, object]:
    (number,) = struct.unpack_from(">h", key)
    kind, key_schema, value_schema, flexible_from = _GROUP_RECORDS[number]
    named = _Reader(key, 2, 0, False).struct(key_schema)
    return kind, named, None if value is None else _value(value, value_schema, flexible_from)


def _transaction(key: bytes, value: bytes | None) -> tuple[str, object, object]:
    (number,) = struct.unpack_from(">h", key)
    if number != 0:
        raise ValueError(f"a key of version {number}")
    named = _Reader(key, 2, 0, False).struct([("transactionalId", "string", 0)])
    if value is None:
        return "transaction", named, None
    document = _value(value, _TRANSACTION, 1)
    status = document["transactionStatus"]
    document["transactionStatus"] = _STATES[status] if 0 <= status < len(_STATES) else status
    return "transaction", named, document


def _share_record(key: bytes, value: bytes | None) -> tuple[str, object, object]:
    (number,) = struct.unpack_from(">h", key)
    kind, schema = _SHARE_RECORDS[number]
    named = _Reader(key, 2, 0, False).struct(_SHARE_KEY)
    if value is None:
        return kind, named, None
    document = _value(value, schema, 0)
    for batch in document["stateBatches"]:
        batch["deliveryState"] = _DELIVERY.get(batch["deliveryState"], batch["deliveryState"])
    return kind, named, document


_TOPICS: dict[str, Callable[[bytes, bytes | None], tuple[str, object, object]]] = {
    "__consumer_offsets": _group_record,
    "__transaction_state": _transaction,
    "__share_group_state": _share_record,
}


def _value(value: bytes, schema: Schema, flexible_from: int) -> dict[str, Any]:
    (version,) = struct.unpack_from(">h", value)
    return _Reader(value, 2, version, version >= flexible_from).struct(schema)


class _Reader:
    def __init__(self, data: bytes, at: int, version: int, flexible: bool) -> None:
        self._data, self._at, self._version, self._flexible = data, at, version, flexible

    def struct(self, schema: Schema) -> dict[str, Any]:
        document = {name: self._read(kind) for name, kind, since in schema if self._version >= since}
        if self._flexible:
            self._skip_tags()
        return document

    def _read(self, kind: Any) -> Any:
        if isinstance(kind, list):
            return self._array(kind)
        kind = kind.lstrip("?")
        if kind in _INTEGERS:
            (number,) = struct.unpack_from(_INTEGERS[kind], self._data, self._at)
            self._at += struct.calcsize(_INTEGERS[kind])
            return number
        if kind == "uuid":
            return str(uuid.UUID(bytes=self._take(16)))
        length = self._length(kind)
        if length < 0:
            return None
        data = self._take(length)
        return data.decode(errors="replace") if kind == "string" else data.hex()

    def _array(self, kind: list[Any]) -> Any:
        """`[type]`, or the fields of a struct in a list."""
        inner = kind[1:] if kind[0] == "?" else kind[0] if isinstance(kind[0], (str, list)) else kind
        length = self._length("array")
        if length < 0:
            return None
        if length > len(self._data):
            raise ValueError(f"an array of {length} elements in {len(self._data)} bytes")
        if isinstance(inner, str):
            return [self._read(inner) for _ in range(length)]
        return [self.struct(inner) for _ in range(length)]

    def _length(self, kind: str) -> int:
        if self._flexible:
            return self._uvarint() - 1
        return int(self._read("int16" if kind == "string" else "int32"))

    def _uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 35:
                raise ValueError("a number that does not end")

    def _take(self, length: int) -> bytes:
        data = self._data[self._at : self._at + length]
        if len(data) < length:
            raise ValueError("the record ends too early")
        self._at += length
        return data

    def _skip_tags(self) -> None:
        for _ in range(self._uvarint()):
            self._uvarint()
            self._take(self._uvarint())
