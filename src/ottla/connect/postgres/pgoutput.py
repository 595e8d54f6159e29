"""The messages of PostgreSQL's logical decoding plug-in `pgoutput` (protocol version 1): bytes in, values out.

A row is a list with one entry for each column: its text, None for NULL, or UNCHANGED for a long value that the
update did not touch and the log therefore does not hold.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final, NamedTuple

from ottla.connect.errors import ConnectError

_U8, _U16, _U32, _I32 = Struct(">B"), Struct(">H"), Struct(">I"), Struct(">i")
_BEGIN, _COMMIT = Struct(">QqI"), Struct(">BQQq")
_EPOCH_US = 946_684_800_000_000  # PostgreSQL counts from 2000-01-01
_TEXT, _NULL, _UNCHANGED = ord("t"), ord("n"), ord("u")
_NEW, _KEY, _OLD = ord("N"), ord("K"), ord("O")


class MalformedMessage(ConnectError):
    """Bytes that pgoutput does not write."""


class Unchanged:
    """The value is stored out of line and the update did not touch it."""

    def __repr__(self) -> str:
        return "UNCHANGED"

    def __reduce__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()
Value = str | Unchanged | None
Row = list[Value]


class Begin(NamedTuple):
    commit_lsn: int
    time_us: int
    xid: int


class Commit(NamedTuple):
    commit_lsn: int
    end_lsn: int
    time_us: int


class Column(NamedTuple):
    name: str
    type_oid: int
    modifier: int
    is_key: bool


class Relation(NamedTuple):
    oid: int
    schema: str
    table: str
    identity: str  # d: the key, f: the whole row, i: an index, n: nothing
    columns: tuple[Column, ...]


class Insert(NamedTuple):
    relation: int
    new: Row


class Update(NamedTuple):
    """`old` has the key alone unless `is_full`; it is None if the key is the same and nothing more is logged."""

    relation: int
    old: Row | None
    is_full: bool
    new: Row


class Delete(NamedTuple):
    relation: int
    old: Row
    is_full: bool


class Truncate(NamedTuple):
    relations: tuple[int, ...]


class Other(NamedTuple):
    """An origin, a type's name or a program's own message: nothing that changes a row."""

    kind: str


CHANGES = frozenset((b"I", b"U", b"D", b"T"))
CHANGE_KINDS = frozenset(b"IUDT")
PASSED: Final = Other(
    "a change that was written before"
)  # stands for it in the count of a transaction's changes

Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate | Other


def decode(data: bytes) -> Message:
    """One message, as `pg_logical_slot_peek_binary_changes` gives it."""
    try:
        match data[0]:
            case 0x49:  # I
                relation, kind = _U32.unpack_from(data, 1)[0], data[5]
                if kind != _NEW:
                    raise MalformedMessage(f"an insert without a new row: {data[:16].hex()}")
                return Insert(relation, _last_row(data, 6))
            case 0x55:  # U
                return _update(data)
            case 0x44:  # D
                return Delete(_U32.unpack_from(data, 1)[0], _last_row(data, 6), _is_full(data[5]))
            case 0x42:  # B
                lsn, time, xid = _BEGIN.unpack_from(data, 1)
                return Begin(lsn, time + _EPOCH_US, xid)
            case 0x43:  # C
                _, lsn, end, time = _COMMIT.unpack_from(data, 1)
                return Commit(lsn, end, time + _EPOCH_US)
            case 0x52:  # R
                return _relation(data)
            case 0x54:  # T
                count = _U32.unpack_from(data, 1)[0]
                if len(data) != 6 + 4 * count:
                    raise MalformedMessage(f"a truncate of {count} tables in {len(data)} bytes")
                return Truncate(tuple(_U32.unpack_from(data, 6 + 4 * i)[0] for i in range(count)))
            case 0x4F | 0x59 | 0x4D:  # O, Y, M
                return Other(chr(data[0]))
    except (error, IndexError, UnicodeDecodeError) as reason:
        raise MalformedMessage(f"a message of pgoutput is cut off or garbled: {data[:32].hex()}") from reason
    raise MalformedMessage(f"pgoutput message of unknown kind {data[:1]!r}; protocol version 1 is understood")


def _update(data: bytes) -> Update:
    relation, kind = _U32.unpack_from(data, 1)[0], data[5]
    if kind == _NEW:
        return Update(relation, None, False, _last_row(data, 6))
    old, at = _row(data, 6)
    if data[at] != _NEW:
        raise MalformedMessage(f"an update without a new row: {data[:16].hex()}")
    return Update(relation, old, _is_full(kind), _last_row(data, at + 1))


def _is_full(kind: int) -> bool:
    if kind not in (_KEY, _OLD):
        raise MalformedMessage(f"an old row of unknown kind {chr(kind)!r}")
    return kind == _OLD


def _last_row(data: bytes, at: int) -> Row:
    row, end = _row(data, at)
    if end != len(data):
        raise MalformedMessage(f"{len(data) - end} bytes follow a row: {data[:32].hex()}")
    return row


def _row(data: bytes, at: int) -> tuple[Row, int]:
    row: Row = []
    count = _U16.unpack_from(data, at)[0]
    at += 2
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            begin = at + 5
            at = begin + int.from_bytes(data[at + 1 : begin], "big")
            row.append(data[begin:at].decode())
        else:
            at += 1
            if kind == _NULL:
                row.append(None)
            elif kind == _UNCHANGED:
                row.append(UNCHANGED)
            else:
                raise MalformedMessage(f"a value of unknown kind {chr(kind)!r}; texts are understood")
    if at > len(data):
        raise MalformedMessage(f"a row is cut off: {data[:32].hex()}")
    return row, at


def _relation(data: bytes) -> Relation:
    oid = _U32.unpack_from(data, 1)[0]
    schema, at = _name(data, 5)
    table, at = _name(data, at)
    identity, count = chr(data[at]), _U16.unpack_from(data, at + 1)[0]
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        name, at = _name(data, at + 1)
        type_oid, modifier = _U32.unpack_from(data, at)[0], _I32.unpack_from(data, at + 4)[0]
        at += 8
        columns.append(Column(name, type_oid, modifier, bool(flags & 1)))
    if at != len(data):
        raise MalformedMessage(f"the description of {schema}.{table} has {len(data) - at} bytes too many")
    return Relation(oid, schema or "pg_catalog", table, identity, tuple(columns))


def _name(data: bytes, at: int) -> tuple[str, int]:
    end = data.find(b"\0", at)
    if end < 0:
        raise MalformedMessage(f"a name without an end: {data[:32].hex()}")
    return data[at:end].decode(), end + 1
