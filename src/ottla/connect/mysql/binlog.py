"""The binary log of MariaDB and MySQL: bytes of events in, values out. Free of I/O.

Only events that a capture needs are decoded: where the log goes on, transactions, statements, tables, rows. The table
map must hold names (`binlog_row_metadata=FULL`): then the log itself says what a row's columns are.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from ottla.connect.errors import ConnectError

HEADER = struct.Struct("<IBIIIH")  # time, type, server, size, end position, flags
QUERY, STOP, ROTATE, FORMAT, XID, TABLE_MAP = 2, 3, 4, 15, 16, 19
GTID, ANONYMOUS_GTID, XA_PREPARE = 33, 34, 38
MARIADB_GTID, QUERY_COMPRESSED = 162, 165
_INSERTS, _UPDATES, _DELETES = (
    frozenset({23, 30, 166, 169}),
    frozenset({24, 31, 167, 170}),
    frozenset({25, 32, 168, 171}),
)
ROWS = _INSERTS | _UPDATES | _DELETES
_SECOND_VERSION = frozenset({30, 31, 32, 169, 170, 171})
_COMPRESSED = frozenset({166, 167, 168, 169, 170, 171})
INSERT, UPDATE, DELETE = "insert", "update", "delete"

TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24 = 1, 2, 3, 4, 5, 8, 9
DATE, YEAR, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 10, 13, 15, 16, 17, 18, 19
JSON, NEWDECIMAL, ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = 245, 246, 247, 248, 252, 253, 254, 255
_METADATA_BYTES = {
    FLOAT: 1, DOUBLE: 1, VARCHAR: 2, BIT: 2, NEWDECIMAL: 2, BLOB: 1, GEOMETRY: 1, JSON: 1, STRING: 2, VAR_STRING: 2,
    ENUM: 2, SET: 2, TIME2: 1, DATETIME2: 1, TIMESTAMP2: 1,
}  # fmt: skip
_NUMBERS = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, NEWDECIMAL, FLOAT, DOUBLE, YEAR})
_CHARACTERS = frozenset({STRING, VAR_STRING, VARCHAR, BLOB})
BINARY = 63  # the collation of bytes
_FIRST, _TURN = 4, 2**32  # the first position of a file; where positions of 32 bits begin again


class MalformedEvent(ConnectError):
    """The log is not what it should be."""


class Header(NamedTuple):
    time_s: int
    type: int
    server_id: int
    size: int
    end_pos: int  # 0 for an event that is in no file
    flags: int


class Rotate(NamedTuple):
    file: str
    pos: int


class Begin(NamedTuple):
    """A global transaction id. A transaction is `open` from here on, or a statement follows (which may be BEGIN)."""

    gtid: str | None
    is_open: bool


class Query(NamedTuple):
    thread_id: int
    database: str
    text: str


class Commit(NamedTuple):
    pass


@dataclass(frozen=True, slots=True)
class Column:
    """As the log describes it. `length` and `digits` are what the type needs: bytes, precision and scale, fraction."""

    name: str
    type: int
    length: int
    digits: int
    is_optional: bool
    is_unsigned: bool = False
    collation: int | None = None  # of texts, bytes and labels
    labels: tuple[bytes, ...] = ()  # of ENUM and SET


@dataclass(frozen=True, slots=True)
class TableMap:
    table_id: int
    database: str
    table: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]


class Rows(NamedTuple):
    kind: str
    table_id: int
    present: bytes  # which columns a row has, bit by bit
    present_after: bytes  # of the second row of an update
    data: bytes  # the rows, one behind the other
    is_statement_end: bool


Event = Rotate | Begin | Query | Commit | TableMap | Rows


class Checksums:
    """Takes checksums off. Whether events have one is said by the description of the format, at the head of a file."""

    def __init__(self) -> None:
        self._are_there = False

    def body(self, header: Header, data: bytes) -> bytes:
        """Of a whole event: what follows its header."""
        if header.type == FORMAT:
            self._are_there = data[-5] == 1
            return data[HEADER.size : -5]
        is_right = self._are_there or header.type == ROTATE
        if is_right:
            is_right = zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little")
            # The name of the first file comes before the description, and may have a checksum or not.
            if not is_right and header.type != ROTATE:
                raise MalformedEvent(f"event {header.type} at {header.end_pos} of the binary log is damaged")
        return data[HEADER.size : -4] if is_right else data[HEADER.size :]


class Positions:
    """Whole positions of events. A header and a request have 32 bits, but a transaction is never split: its file can be
    longer than 4 GiB. A place that cannot be asked for is looked for from the file's begin."""

    def __init__(self, pos: int) -> None:
        self.asked = pos if pos < _TURN else _FIRST
        self._at, self._wanted = self.asked, pos

    def whole(self, header: Header) -> Header:
        if not header.end_pos or header.type == FORMAT:  # it comes first, wherever the stream begins
            return header
        end = self._at - self._at % _TURN + header.end_pos
        self._at = end + _TURN if self._at - end > _TURN // 2 else end
        return header._replace(end_pos=self._at)

    def is_before(self, header: Header) -> bool:
        """Whether the (whole) event ends no later than the place that is looked for."""
        is_looking = self._wanted != self.asked and header.type not in (FORMAT, ROTATE)
        return is_looking and header.end_pos <= self._wanted

    def file_begins(self, pos: int) -> None:
        self._at = self._wanted = self.asked = pos


def decode(header: Header, body: bytes, *, is_mariadb: bool) -> Event | None:
    """`body` is what follows the header, without a checksum; None for an event that a capture does not need."""
    kind = header.type
    try:
        if kind in ROWS:
            return _rows(kind, body)
        match kind:
            case 19:
                return table_map(body, is_mariadb=is_mariadb)
            case 16:
                return Commit()
            case 162:
                number, domain = struct.unpack_from("<QI", body)
                return Begin(f"{domain}-{header.server_id}-{number}", not body[12] & 1)
            case 33:
                hexed = body[1:17].hex()
                places = (0, 8, 12, 16, 20, 32)
                source = "-".join(hexed[begin:end] for begin, end in pairwise(places))
                return Begin(f"{source}:{int.from_bytes(body[17:25], 'little')}", False)
            case 34:
                return Begin(None, False)
            case 2 | 165:
                return _query(body, is_compressed=kind == QUERY_COMPRESSED)
            case 4:
                return Rotate(body[8:].decode(), int.from_bytes(body[:8], "little"))
            case _:
                return None
    except (struct.error, IndexError, UnicodeDecodeError, zlib.error) as error:
        raise MalformedEvent(
            f"event {kind} at {header.end_pos} of the binary log cannot be read: {error}"
        ) from error


def _query(body: bytes, *, is_compressed: bool) -> Query:
    thread_id, _, database_length, _, variables = struct.unpack_from("<IIBHH", body)
    at = 13 + variables
    database = body[at : at + database_length].decode()
    text = body[at + database_length + 1 :]
    return Query(thread_id, database, (_inflated(text) if is_compressed else text).decode(errors="replace"))


def _inflated(data: bytes) -> bytes:
    """One byte with the length of the length, the length, what zlib has written."""
    return zlib.decompress(data[1 + (data[0] & 7) :])


def _rows(kind: int, body: bytes) -> Rows:
    table_id = int.from_bytes(body[:6], "little")
    flags = int.from_bytes(body[6:8], "little")
    at = 8
    if kind in _SECOND_VERSION:
        at += int.from_bytes(body[8:10], "little")
    width, at = packed_int(body, at)
    size = (width + 7) // 8
    present = after = body[at : at + size]
    at += size
    if kind in _UPDATES:
        after = body[at : at + size]
        at += size
    data = body[at:]
    name = INSERT if kind in _INSERTS else UPDATE if kind in _UPDATES else DELETE
    return Rows(
        name, table_id, present, after, _inflated(data) if kind in _COMPRESSED else data, bool(flags & 1)
    )


# -- the table map ---------------------------------------------------------------------------------


@lru_cache(1000)  # every transaction describes its tables again
def table_map(body: bytes, *, is_mariadb: bool) -> TableMap:
    table_id = int.from_bytes(body[:6], "little")
    database, at = _name(body, 8)
    table, at = _name(body, at)
    width, at = packed_int(body, at)
    types = list(body[at : at + width])
    size, at = packed_int(body, at + width)
    shapes = _shapes(types, body[at : at + size])
    at += size
    optional = body[at : at + (width + 7) // 8]
    more = _fields(body, at + (width + 7) // 8)
    return _described(table_id, database, table, types, shapes, optional, more, is_mariadb=is_mariadb)


def _described(
    table_id: int,
    database: str,
    table: str,
    types: list[int],
    shapes: list[tuple[int, int]],
    optional: bytes,
    more: dict[int, bytes],
    *,
    is_mariadb: bool,
) -> TableMap:
    names = _texts(more.get(4, b""))
    if len(names) != len(types):
        raise MalformedEvent(
            f"the binary log has no names for the columns of {database}.{table}; SET GLOBAL binlog_row_metadata='FULL'"
            ", then remove the connector's offsets to take a new snapshot"
        )
    unsigned = _flags(types, more.get(1, b""))
    texts = [i for i, kind in enumerate(types) if kind in _CHARACTERS or (is_mariadb and kind == GEOMETRY)]
    labelled = [i for i, kind in enumerate(types) if kind in (ENUM, SET)]
    collations = _collations(texts, more, 2, 3) | _collations(labelled, more, 10, 11)
    labels = _labels(types, more)
    columns = tuple(
        Column(
            names[i].decode(),
            types[i],
            *shapes[i],
            bool(optional[i // 8] >> i % 8 & 1),
            unsigned.get(i, False),
            collations.get(i),
            labels.get(i, ()),
        )
        for i in range(len(types))
    )
    places = _ints(more[8]) if 8 in more else _ints(more.get(9, b""))[::2]
    return TableMap(table_id, database, table, columns, tuple(columns[place].name for place in places))


def _name(body: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + body[at]
    return body[at + 1 : end].decode(), end + 1


def _shapes(types: list[int], data: bytes) -> list[tuple[int, int]]:
    """What belongs to each type; ENUM and SET hide behind STRING, and are put in its place."""
    shapes = []
    at = 0
    for i, kind in enumerate(types):
        size = _METADATA_BYTES.get(kind, 0)
        first, second = data[at] if size else 0, data[at + 1] if size > 1 else 0
        at += size
        match kind:
            case 15:
                shapes.append((first + 256 * second, 0))
            case 254 | 253 if first in (ENUM, SET):
                types[i] = first
                shapes.append((second, 0))
            case 254 | 253:
                shapes.append((((first & 0x30) ^ 0x30) << 4 | second, 0))
            case 16:
                shapes.append((first + 8 * second, 0))  # bits
            case _:
                shapes.append((first, second))
    return shapes


def _fields(body: bytes, at: int) -> dict[int, bytes]:
    fields = {}
    while at < len(body):
        size, begin = packed_int(body, at + 1)
        fields[body[at]] = body[begin : begin + size]
        at = begin + size
    return fields


def _flags(types: list[int], data: bytes) -> dict[int, bool]:
    """A bit for each column of numbers, the highest first."""
    numbers = [i for i, kind in enumerate(types) if kind in _NUMBERS]
    return {
        place: bool(data[n // 8] >> 7 - n % 8 & 1) for n, place in enumerate(numbers) if n // 8 < len(data)
    }


def _collations(places: list[int], more: dict[int, bytes], common: int, single: int) -> dict[int, int]:
    """Field `common` has one for all of these columns and those that differ, or `single` has one for each."""
    if single in more:
        return dict(zip(places, _ints(more[single]), strict=False))
    numbers = _ints(more.get(common, b""))
    if not numbers:
        return {}
    different = dict(zip(numbers[1::2], numbers[2::2], strict=True))
    return {place: different.get(n, numbers[0]) for n, place in enumerate(places)}


def _labels(types: list[int], more: dict[int, bytes]) -> dict[int, tuple[bytes, ...]]:
    labels = {}
    for kind, number in ((SET, 5), (ENUM, 6)):
        data, at = more.get(number, b""), 0
        for place in (i for i, type_ in enumerate(types) if type_ == kind):
            count, at = packed_int(data, at)
            words = []
            for _ in range(count):
                size, begin = packed_int(data, at)
                words.append(data[begin : begin + size])
                at = begin + size
            labels[place] = tuple(words)
    return labels


def _texts(data: bytes) -> list[bytes]:
    texts = []
    at = 0
    while at < len(data):
        size, begin = packed_int(data, at)
        texts.append(data[begin : begin + size])
        at = begin + size
    return texts


def _ints(data: bytes) -> list[int]:
    numbers = []
    at = 0
    while at < len(data):
        number, at = packed_int(data, at)
        numbers.append(number)
    return numbers


def packed_int(data: bytes, at: int) -> tuple[int, int]:
    """An integer of variable length, and where it ends."""
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
