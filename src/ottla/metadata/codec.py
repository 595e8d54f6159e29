"""Metadata records to bytes and back: a number for the type, how many fields follow, then the fields.

Fields are only ever added at the end and with a default. A reader gives the default to what an older
writer left out and skips what a newer one added, so the count of fields is the version.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ottla.errors import OttlaError
from ottla.metadata import records
from ottla.metadata.records import Record
from ottla.wire.codec_source import write_uvarint

# Numbers are never used again for something else.
_NUMBERS: dict[int, type] = {
    1: records.ClusterCreated,
    2: records.ControllerChanged,
    3: records.FeatureSet,
    4: records.BrokerRegistered,
    5: records.BrokerUnregistered,
    6: records.BrokerFenced,
    7: records.BrokerUnfenced,
    8: records.BrokerStopping,
    9: records.TopicCreated,
    10: records.TopicDeleted,
    11: records.PartitionCreated,
    12: records.PartitionChanged,
    13: records.ConfigSet,
    14: records.ProducerIdsAllocated,
    15: records.SoleReplicasRestarted,
    16: records.AclAdded,
    17: records.AclRemoved,
    18: records.ScramSet,
    19: records.ScramRemoved,
    20: records.QuotaSet,
    21: records.TokenSet,
    22: records.TokenRemoved,
}


class BadRecord(OttlaError):
    """Bytes that are no metadata record, or one of a newer kind."""


Write = Callable[[bytearray, Any], None]
Read = Callable[[bytes, int], tuple[Any, int]]


def encode(batch: Iterable[Record]) -> bytes:
    """All records of an entry, each behind its length."""
    out = bytearray()
    for record in batch:
        body = bytearray()
        shape = _SHAPES[type(record)]
        write_uvarint(body, shape.number)
        shape.write(body, record)
        write_uvarint(out, len(body))
        out += body
    return bytes(out)


def decode(data: bytes) -> list[Record]:
    return list(_decoded(bytes(data)))


def _decoded(data: bytes) -> Iterator[Record]:
    position = 0
    while position < len(data):
        length, position = _read_unsigned(data, position)
        end = position + length
        if end > len(data):
            raise BadRecord("a record ends beyond its entry")
        number, position = _read_unsigned(data, position)
        cls = _NUMBERS.get(number)
        if cls is None:
            raise BadRecord(f"a record of the unknown kind {number}")
        record, position = _SHAPES[cls].read(data, position)
        if position > end:
            raise BadRecord(f"a {cls.__name__} longer than it says")
        yield record
        position = end


class _Shape:
    """How one dataclass is written: its fields in order."""

    def __init__(self, cls: type, number: int) -> None:
        hints = typing.get_type_hints(cls)
        self.cls: Any = cls
        self.number = number
        self.names = [field.name for field in dataclasses.fields(cls)]
        kinds = [_kind(hints[name]) for name in self.names]
        self.writers = [write for write, _ in kinds]
        self.readers = [read for _, read in kinds]

    def write(self, out: bytearray, record: Any) -> None:
        write_uvarint(out, len(self.names))
        for name, write in zip(self.names, self.writers, strict=True):
            write(out, getattr(record, name))

    def read(self, data: bytes, position: int) -> tuple[Any, int]:
        count, position = _read_unsigned(data, position)
        values = []
        for read in self.readers[:count]:
            value, position = read(data, position)
            values.append(value)
        try:
            return self.cls(*values), position
        except TypeError as error:
            raise BadRecord(f"a {self.cls.__name__} with {count} fields") from error


def _kind(hint: Any) -> tuple[Write, Read]:
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType) and arguments[1] is type(None):
        return _optional(*_kind(arguments[0]))
    if origin is tuple and arguments[1] is ...:
        return _sequence(*_kind(arguments[0]))
    if dataclasses.is_dataclass(hint):
        shape = _Shape(typing.cast(type, hint), 0)
        return shape.write, shape.read
    raise TypeError(f"no way to write {hint}")


def _read_unsigned(data: bytes, position: int) -> tuple[int, int]:
    if position < len(data) and data[position] < 0x80:
        return data[position], position + 1
    value = shift = 0
    while shift < 70:
        if position >= len(data):
            raise BadRecord("a number without an end")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise BadRecord("a number without an end")


def _write_int(out: bytearray, value: int) -> None:
    if 0 <= value < 64:
        out.append(value << 1)
        return
    write_uvarint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _read_int(data: bytes, position: int) -> tuple[int, int]:
    value, position = _read_unsigned(data, position)
    return (value >> 1) ^ -(value & 1), position


def _write_bytes(out: bytearray, value: bytes) -> None:
    write_uvarint(out, len(value))
    out += value


def _read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    length, position = _read_unsigned(data, position)
    end = position + length
    if end > len(data):
        raise BadRecord("a field ends beyond its record")
    return data[position:end], end


def _write_text(out: bytearray, value: str) -> None:
    _write_bytes(out, value.encode())


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    value, position = _read_bytes(data, position)
    try:
        return value.decode(), position
    except UnicodeDecodeError as error:
        raise BadRecord("a text that is not UTF-8") from error


def _optional(write: Write, read: Read) -> tuple[Write, Read]:
    def write_optional(out: bytearray, value: Any) -> None:
        out.append(value is not None)
        if value is not None:
            write(out, value)

    def read_optional(data: bytes, position: int) -> tuple[Any, int]:
        there, position = _read_unsigned(data, position)
        return read(data, position) if there else (None, position)

    return write_optional, read_optional


def _sequence(write: Write, read: Read) -> tuple[Write, Read]:
    def write_sequence(out: bytearray, values: Any) -> None:
        write_uvarint(out, len(values))
        for value in values:
            write(out, value)

    def read_sequence(data: bytes, position: int) -> tuple[Any, int]:
        count, position = _read_unsigned(data, position)
        if count > len(data) - position:
            raise BadRecord("a list longer than its record")
        values = []
        for _ in range(count):
            value, position = read(data, position)
            values.append(value)
        return tuple(values), position

    return write_sequence, read_sequence


_PLAIN: dict[Any, tuple[Write, Read]] = {
    int: (_write_int, _read_int),
    str: (_write_text, _read_text),
    bytes: (_write_bytes, _read_bytes),
}
_SHAPES = {cls: _Shape(cls, number) for number, cls in _NUMBERS.items()}
