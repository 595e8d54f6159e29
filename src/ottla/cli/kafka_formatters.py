"""How `kafka-console-consumer` prints a record: Kafka's formatters, by the last part of their class names."""

import argparse
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.cli.options import UsageError, pairs
from ottla.client.settings import read_properties
from ottla.client.values import ConsumerRecord

Write = Callable[[ConsumerRecord], bytes]
TIMESTAMP_TYPES = {0: b"CreateTime", 1: b"LogAppendTime"}
# Deserializers, by the last part of their class names.
_READ: dict[str, Callable[[bytes], bytes]] = {
    "StringDeserializer": lambda data: data,
    "ByteArrayDeserializer": lambda data: data,
    "BytesDeserializer": lambda data: data,
    "IntegerDeserializer": lambda data: b"%d" % struct.unpack(">i", data)[0],
    "LongDeserializer": lambda data: b"%d" % struct.unpack(">q", data)[0],
    "ShortDeserializer": lambda data: b"%d" % struct.unpack(">h", data)[0],
    "FloatDeserializer": lambda data: str(struct.unpack(">f", data)[0]).encode(),
    "DoubleDeserializer": lambda data: str(struct.unpack(">d", data)[0]).encode(),
}


def formatter_for(arguments: argparse.Namespace) -> Write:
    properties: dict[str, str] = {}
    if arguments.formatter_config:
        properties |= read_properties(Path(arguments.formatter_config).read_text())
    properties |= pairs(arguments.property)
    for which in ("key", "value"):
        deserializer = getattr(arguments, f"{which}_deserializer")
        if deserializer:
            properties[f"{which}.deserializer"] = deserializer
    name = (arguments.formatter or "DefaultMessageFormatter").rpartition(".")[2].rpartition("$")[2]
    match name:
        case "DefaultMessageFormatter":
            return Default(properties)
        case "LoggingMessageFormatter":
            return Default(properties)
        case "NoOpMessageFormatter":
            return lambda record: b""
        case "OffsetsMessageFormatter":
            return _offsets
    raise UsageError(f"the formatter {arguments.formatter} is not known here")


class Default:
    """Kafka's default formatter: what is to be printed, in this order, with separators between."""

    def __init__(self, properties: dict[str, str]) -> None:
        self._properties = properties
        self._separator = self._text("key.separator", "\t")
        self._line = self._text("line.separator", "\n")
        self._headers_separator = self._text("headers.separator", ",")
        self._null = self._text("null.literal", "null")
        self._key, self._value, self._header = (
            self._deserializer(f"{which}.deserializer") for which in ("key", "value", "headers")
        )

    def __call__(self, record: ConsumerRecord) -> bytes:
        parts: list[bytes] = []
        if self._is_on("print.timestamp"):
            kind = TIMESTAMP_TYPES.get(record.timestamp_type, b"NO_TIMESTAMP")
            parts.append(b"%s:%d" % (kind, record.timestamp) if record.timestamp >= 0 else b"NO_TIMESTAMP")
        if self._is_on("print.partition"):
            parts.append(b"Partition:%d" % record.partition)
        if self._is_on("print.offset"):
            parts.append(b"Offset:%d" % record.offset)
        if self._is_on("print.delivery"):
            parts.append(b"Delivery:NOT_PRESENT")
        if self._is_on("print.epoch"):
            parts.append(b"Epoch:%d" % record.leader_epoch)
        if self._is_on("print.headers"):
            parts.append(self._headers(record.headers))
        if self._is_on("print.key"):
            parts.append(self._read(self._key, record.key))
        if self._is_on("print.value", "true"):
            parts.append(self._read(self._value, record.value))
        return self._separator.join(parts) + self._line if parts else b""

    def _headers(self, headers: Any) -> bytes:
        if not headers:
            return b"NO_HEADERS"
        shown = (name.encode() + b":" + self._read(self._header, value) for name, value in headers)
        return self._headers_separator.join(shown)

    def _read(self, convert: Callable[[bytes], bytes], data: bytes | None) -> bytes:
        try:
            return self._null if data is None else convert(data)
        except struct.error as error:
            raise ValueError(f"{len(data or b'')} bytes do not fit the deserializer: {error}") from error

    def _is_on(self, name: str, default: str = "false") -> bool:
        return self._properties.get(name, default).strip().lower() == "true"

    def _text(self, name: str, default: str) -> bytes:
        return self._properties.get(name, default).encode()

    def _deserializer(self, name: str) -> Callable[[bytes], bytes]:
        deserializer = self._properties.get(name, "StringDeserializer").rpartition(".")[2]
        if deserializer not in _READ:
            raise UsageError(f"{name}: {deserializer} is not known here; there are {', '.join(_READ)}")
        return _READ[deserializer]


def _offsets(record: ConsumerRecord) -> bytes:
    """[group, topic, partition] -> offset, in JSON; other records of the topic print nothing."""
    from ottla.coordination.groups import codec, records

    commit = codec.decode(record.key, record.value) if record.key is not None else None
    if not isinstance(commit, records.OffsetCommit):
        return b""
    key = {"group": commit.group_id, "topic": commit.topic, "partition": commit.partition}
    shown: dict[str, Any] = {"key": {"type": 1, "data": key}, "value": None}
    if commit.value is not None and record.value is not None:
        (version,) = struct.unpack_from(">h", record.value)
        value = commit.value
        data = {
            "offset": value.offset,
            "leaderEpoch": value.leader_epoch,
            "metadata": value.metadata,
            "commitTimestamp": value.commit_timestamp_ms,
        }
        shown["value"] = {"version": version, "data": data}
    return json.dumps(shown, separators=(",", ":")).encode() + b"\n"
