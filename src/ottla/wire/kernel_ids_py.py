"""Which records name no schema that is allowed: the Python twin of `_kernel_ids.c`, tested equal."""

from array import array
from struct import Struct

from ottla.ports import Buffer
from ottla.wire import kernel_py
from ottla.wire.kernel_rows_py import headers_at

KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
NO_ID, UNKNOWN_GUID = -1, -2
STRAYS_MAX = 1000
_ID = Struct(">bi")
_GUID_BYTES = 16
_FIELDS = 9


def strays(
    payload: Buffer, count: int, limit: int, is_key: bool, ids: Buffer, guids: Buffer
) -> tuple[int, list[tuple[int, int]]]:
    """How many records have a key (or value) whose schema is not allowed; and (index, id) of the first `limit`, never
    more than a thousand. The id is -1 where there is none, -2 where an unknown GUID stands in the header.

    `ids` are sorted native int32, `guids` sorted, 16 bytes each.
    """
    rows = memoryview(kernel_py.index(payload, count)).cast("q")
    data, known_ids, known_guids = bytes(payload), set(_numbers(ids)), _guids(guids)
    header = KEY_HEADER if is_key else VALUE_HEADER
    at = 2 if is_key else 4
    total = 0
    shown: list[tuple[int, int]] = []
    for number in range(count):
        row = rows[number * _FIELDS : (number + 1) * _FIELDS]
        start, end = row[at], row[at + 1]
        if start < 0:
            continue
        named = [value for name, value in headers_at(data, row[6]) if name == header]
        stray = None
        for value in named or [data[start:end]]:
            stray = _stray(value, known_ids, known_guids, in_header=bool(named))
            if stray is not None:
                break
        if stray is not None:
            total += 1
            if len(shown) < min(limit, STRAYS_MAX):
                shown.append((number, stray))
    return total, shown


def _stray(value: bytes | None, ids: set[int], guids: set[bytes], *, in_header: bool) -> int | None:
    """None: it names an allowed schema."""
    if value is None:
        return NO_ID
    if in_header and len(value) >= 1 + _GUID_BYTES and value[0] == 1:
        return None if value[1 : 1 + _GUID_BYTES] in guids else UNKNOWN_GUID
    if len(value) < _ID.size or value[0]:
        return NO_ID
    (_, schema_id) = _ID.unpack_from(value)
    if schema_id < 0:
        return NO_ID
    return None if schema_id in ids else int(schema_id)


def _numbers(ids: Buffer) -> "array[int]":
    numbers = array("i")
    numbers.frombytes(bytes(ids))
    return numbers


def _guids(guids: Buffer) -> set[bytes]:
    data = bytes(guids)
    return {data[at : at + _GUID_BYTES] for at in range(0, len(data), _GUID_BYTES)}
