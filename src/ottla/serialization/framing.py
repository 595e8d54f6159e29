"""How a value says which schema it has: a zero byte and the id before it, or a one and a GUID in a header.

Behind the id or GUID, a Protobuf value has the path to its message in the schema: indexes as zigzag varints, their
count first; the most common path, the first message, is a single zero.
"""

import struct
import uuid
from collections.abc import Sequence

from ottla.errors import OttlaError

_PREFIX = struct.Struct(">bi")
PREFIX_BYTES = _PREFIX.size
MAGIC_ID, MAGIC_GUID = 0, 1
GUID_HEADER_BYTES = 17
VALUE_HEADER, KEY_HEADER = "__value_schema_id", "__key_schema_id"
_INDEXES_MAX = 100


class BadValue(OttlaError):
    """A value is not what its schema says, or carries no schema."""


class NoColumns(OttlaError):
    """A schema whose values have no type of a column: several branches, types that hold themselves."""


def with_id(schema_id: int, payload: bytes) -> bytes:
    return _PREFIX.pack(MAGIC_ID, schema_id) + payload


def id_of(data: bytes) -> int:
    if len(data) < PREFIX_BYTES or data[0] != MAGIC_ID:
        raise BadValue(
            f"the value begins with {bytes(data[:5]).hex(' ')}, not with a zero and the id of a schema: "
            "it was written without a registry's serializer"
        )
    return int(_PREFIX.unpack_from(data)[1])


def guid_header(guid: str, path: bytes = b"") -> bytes:
    return bytes([MAGIC_GUID]) + uuid.UUID(guid).bytes + path


def guid_of(header: bytes) -> str:
    if len(header) < GUID_HEADER_BYTES or header[0] != MAGIC_GUID:
        raise BadValue(f"the header {VALUE_HEADER} does not hold the GUID of a schema")
    return str(uuid.UUID(bytes=header[1:GUID_HEADER_BYTES]))


def indexes_to_bytes(indexes: Sequence[int]) -> bytes:
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(_varint(number) for number in (len(indexes), *indexes))


def indexes_of(data: bytes, at: int) -> tuple[list[int], int]:
    """The path, and where the message begins."""
    count, at = _read_varint(data, at)
    if count == 0:
        return [0], at
    if not 0 < count <= _INDEXES_MAX:
        raise BadValue(f"the path to the message has {count} steps")
    indexes = []
    for _ in range(count):
        number, at = _read_varint(data, at)
        indexes.append(number)
    return indexes, at


def _varint(number: int) -> bytes:
    coded = (number << 1) ^ (number >> 63)
    result = bytearray()
    while coded > 0x7F:
        result.append(coded & 0x7F | 0x80)
        coded >>= 7
    result.append(coded)
    return bytes(result)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    coded = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise BadValue("the path to the message is cut off")
        byte = data[at]
        at += 1
        coded |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (coded >> 1) ^ -(coded & 1), at
        shift += 7
