"""Records of Apache Kafka's metadata log <-> the bytes of a record's value and key."""

import struct

from ottla.errors import OttlaError, ProtocolError
from ottla.migration.kraft_schema import RECORDS, KraftRecord
from ottla.wire import codec
from ottla.wire.codec_source import read_uvarint, write_uvarint

FRAME_VERSION = 1
_NUMBERS = {
    cls: number for number, (cls, _) in reversed(RECORDS.items())
}  # the first of two that share a class: neither is written
_CONTROL_KEY = struct.Struct(">hh")


class UnknownMetadata(OttlaError):
    """A record that a newer Apache Kafka wrote, or none at all. What it means cannot be kept, so nothing is."""


def decode(value: bytes) -> KraftRecord:
    try:
        frame, position = read_uvarint(value, 0)
        number, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except (IndexError, ProtocolError) as error:
        raise UnknownMetadata(f"not a metadata record: {value[:20]!r}") from error
    if frame != FRAME_VERSION:
        raise UnknownMetadata(f"a metadata record in a frame of version {frame}")
    cls, newest = RECORDS.get(number, (None, -1))
    if cls is None:
        raise UnknownMetadata(f"a metadata record of the unknown type {number}")
    if version > newest:
        raise UnknownMetadata(f"{cls.__name__} version {version}; the newest known is {newest}")
    try:
        record, end = codec.read(cls, version, value, position)
    except ProtocolError as error:
        raise UnknownMetadata(str(error)) from error
    if end != len(value):
        raise UnknownMetadata(f"{cls.__name__} version {version} has {len(value) - end} bytes too many")
    return record


def encode(record: KraftRecord, version: int = 0) -> bytes:
    out = bytearray()
    write_uvarint(out, FRAME_VERSION)
    write_uvarint(out, _NUMBERS[type(record)])
    write_uvarint(out, version)
    return bytes(codec.write(record, version, out))


def control_type(key: bytes | None) -> int:
    if key is None or len(key) < _CONTROL_KEY.size:
        raise UnknownMetadata("a control record without a type")
    return int(_CONTROL_KEY.unpack_from(key)[1])


def control_key(number: int) -> bytes:
    return _CONTROL_KEY.pack(0, number)


def read_control(cls: type[KraftRecord], value: bytes | None) -> KraftRecord:
    try:
        return codec.read(cls, 0, value or b"")[0]
    except ProtocolError as error:
        raise UnknownMetadata(str(error)) from error


def write_control(record: KraftRecord) -> bytes:
    return bytes(codec.write(record, 0))
