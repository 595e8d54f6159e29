"""Rows of the binary log: cells as the server would show them in a SELECT.

Numbers are int and float, texts and times are str, bytes and bits are bytes. The snapshot reads the same cells by SQL,
so that everything behind this is the same for both.
"""

from __future__ import annotations

import ipaddress
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence

from ottla.connect.errors import ConnectError
from ottla.connect.mysql import binlog
from ottla.connect.mysql.binlog import Column

Cell = int | float | str | bytes | None
Row = list[Cell]
Reader = Callable[[bytes, int], tuple[Cell, int]]  # the cell, and where it ends
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # of a decimal's digits
ENCODINGS = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "latin1": "cp1252", "ascii": "ascii", "ucs2": "utf-16-be",
    "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be", "latin2": "iso8859-2", "latin5": "iso8859-9",
    "latin7": "iso8859-13", "cp1250": "cp1250", "cp1251": "cp1251", "cp1256": "cp1256", "cp1257": "cp1257",
    "cp850": "cp850", "cp852": "cp852", "cp866": "cp866", "greek": "iso8859-7", "hebrew": "iso8859-8",
    "koi8r": "koi8-r", "koi8u": "koi8-u", "gbk": "gbk", "gb2312": "gb2312", "gb18030": "gb18030", "big5": "big5",
    "sjis": "shift_jis", "cp932": "cp932", "ujis": "euc-jp", "eucjpms": "euc-jp", "euckr": "euc-kr",
    "tis620": "tis-620", "macroman": "mac-roman",
}  # fmt: skip


class RowReader:
    """Reads the rows of one table map."""

    def __init__(
        self, columns: Sequence[Column], charsets: Mapping[int, str], types: Mapping[str, str], table: str
    ) -> None:
        """`charsets` by collation; `types` has the names of types that the log does not tell from bytes (uuid)."""
        self._width = len(columns)
        self._readers = [_reader(column, charsets, types.get(column.name, ""), table) for column in columns]
        self._table = table

    def rows(
        self, data: bytes, present: bytes, present_after: bytes | None
    ) -> Iterator[tuple[Row, Row | None]]:
        """Pairs of rows of an update, else a row and None."""
        self._check(present)
        at, end = 0, len(data)
        if present_after is None:
            while at < end:
                row, at = self._row(data, at)
                yield row, None
            return
        self._check(present_after)
        while at < end:
            before, at = self._row(data, at)
            after, at = self._row(data, at)
            yield before, after

    def _check(self, present: bytes) -> None:
        if int.from_bytes(present, "little") & (1 << self._width) - 1 != (1 << self._width) - 1:
            raise ConnectError(
                f"the binary log has only parts of the rows of {self._table}; SET GLOBAL binlog_row_image = 'FULL',"
                " then remove the connector's offsets to take a new snapshot"
            )

    def _row(self, data: bytes, at: int) -> tuple[Row, int]:
        size = (self._width + 7) // 8
        nulls = int.from_bytes(data[at : at + size], "little")
        at += size
        row: Row = []
        add = row.append
        try:
            for read in self._readers:
                if nulls & 1:
                    add(None)
                else:
                    cell, at = read(data, at)
                    add(cell)
                nulls >>= 1
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise binlog.MalformedEvent(
                f"a row of {self._table} in the binary log cannot be read: {error}"
            ) from error
        return row, at


def _reader(column: Column, charsets: Mapping[int, str], type_name: str, table: str) -> Reader:
    kind = column.type
    if kind in _INTEGER_BYTES:
        return _integer(_INTEGER_BYTES[kind], column.is_unsigned)
    if kind in (binlog.VARCHAR, binlog.STRING, binlog.VAR_STRING):
        return _text(column, 1 if column.length < 256 else 2, charsets, type_name)
    if kind == binlog.BLOB:
        return _text(column, column.length, charsets, type_name)
    if kind in (binlog.ENUM, binlog.SET):
        return _label(column, words(column, charsets))
    maker = _MAKERS.get(kind)
    if maker is None:
        raise ConnectError(
            f"column {column.name} of {table} has the type {kind} in the binary log, which is not read (JSON of MySQL,"
            " compressed columns, times of old servers); leave the table out with table.exclude.list"
        )
    return maker(column)


_INTEGER_BYTES = {binlog.TINY: 1, binlog.SHORT: 2, binlog.INT24: 3, binlog.LONG: 4, binlog.LONGLONG: 8}


def _integer(size: int, is_unsigned: bool) -> Reader:
    def read(data: bytes, at: int) -> tuple[Cell, int]:
        end = at + size
        return int.from_bytes(data[at:end], "little", signed=not is_unsigned), end

    return read


def _text(column: Column, prefix: int, charsets: Mapping[int, str], type_name: str) -> Reader:
    convert = _converter(column, charsets, type_name)

    def read(data: bytes, at: int) -> tuple[Cell, int]:
        begin = at + prefix
        end = begin + int.from_bytes(data[at:begin], "little")
        return convert(data[begin:end]), end

    return read


def _converter(column: Column, charsets: Mapping[int, str], type_name: str) -> Callable[[bytes], Cell]:
    match type_name:
        case "uuid":
            return uuid_text
        case "inet6":
            return lambda data: str(ipaddress.IPv6Address(data.ljust(16, b"\0")))
        case "inet4":
            return lambda data: str(ipaddress.IPv4Address(data.ljust(4, b"\0")))
    if column.collation in (None, binlog.BINARY):
        if column.type == binlog.STRING:  # BINARY(n): the log leaves out what fills it up
            return lambda data: data.ljust(column.length, b"\0")
        return bytes
    return decoder(charsets.get(column.collation or 0, "utf8mb4"))


def uuid_text(data: bytes) -> str:
    return str(uuid.UUID(bytes=data.ljust(16, b"\0")))


def decoder(charset: str) -> Callable[[bytes], str]:
    encoding = ENCODINGS.get(charset)
    if encoding is None:
        raise ConnectError(
            f"texts in the character set {charset} are not read; convert the column to utf8mb4"
        )
    if encoding == "utf-8":
        return utf8
    if encoding == "cp1252":
        return _latin1
    return lambda data: data.decode(encoding, "replace")


def utf8(data: bytes) -> str:
    """Bytes that are no text are replaced, as Java does: the server lets half a surrogate pair in."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def _latin1(data: bytes) -> str:
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:  # five bytes that the server takes for control characters
        return "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in data)


def words(column: Column, charsets: Mapping[int, str]) -> list[str]:
    """The labels of ENUM and SET, which the log has in the column's character set."""
    charset = charsets.get(column.collation or 0, "utf8mb4")
    read = decoder("utf8mb4" if charset == "binary" else charset)
    return [read(word) for word in column.labels]


def _label(column: Column, words: list[str]) -> Reader:
    size = column.length
    is_set = column.type == binlog.SET

    def read(data: bytes, at: int) -> tuple[Cell, int]:
        number = int.from_bytes(data[at : at + size], "little")
        if is_set:
            return ",".join(word for i, word in enumerate(words) if number >> i & 1), at + size
        return words[number - 1] if number else "", at + size  # 0: what the server makes of a wrong word

    return read


# -- numbers ---------------------------------------------------------------------------------------


def _float(_column: Column) -> Reader:
    unpack = struct.Struct("<f").unpack_from
    return lambda data, at: (unpack(data, at)[0], at + 4)


def _double(_column: Column) -> Reader:
    unpack = struct.Struct("<d").unpack_from
    return lambda data, at: (unpack(data, at)[0], at + 8)


def _decimal(column: Column) -> Reader:
    """Groups of nine digits in four bytes, big-endian; the highest bit is set unless the number is negative."""
    precision, scale = column.length, column.digits
    whole, fraction = precision - scale, scale
    head, tail = whole % 9, fraction % 9
    sizes = [(_DIGIT_BYTES[head], head)] if head else []
    sizes += [(4, 9)] * (whole // 9)
    behind = [(4, 9)] * (fraction // 9)
    behind += [(_DIGIT_BYTES[tail], tail)] if tail else []
    total = sum(size for size, _ in (*sizes, *behind))

    def read(data: bytes, at: int) -> tuple[Cell, int]:
        raw = bytearray(data[at : at + total])
        is_negative = not raw[0] & 0x80
        raw[0] ^= 0x80
        if is_negative:
            raw = bytearray(byte ^ 0xFF for byte in raw)
        place = 0
        parts = ["", ""]
        for i, groups in enumerate((sizes, behind)):
            for size, digits in groups:
                parts[i] += str(int.from_bytes(raw[place : place + size], "big")).zfill(digits)
                place += size
        number = (parts[0].lstrip("0") or "0") + ("." + parts[1] if scale else "")
        return ("-" if is_negative else "") + number, at + total

    return read


def _bit(column: Column) -> Reader:
    size = (column.length + 7) // 8
    return lambda data, at: (data[at : at + size], at + size)


def _geometry(column: Column) -> Reader:
    return _text(column, column.length, {}, "")


# -- times -----------------------------------------------------------------------------------------


def _year(_column: Column) -> Reader:
    return lambda data, at: (data[at] + 1900 if data[at] else 0, at + 1)


def _date(_column: Column) -> Reader:
    def read(data: bytes, at: int) -> tuple[Cell, int]:
        number = int.from_bytes(data[at : at + 3], "little")
        return f"{number >> 9:04}-{number >> 5 & 15:02}-{number & 31:02}", at + 3

    return read


def _fraction(digits: int) -> tuple[int, Callable[[bytes], str]]:
    """How many bytes the fraction of a second has, and its text."""
    size = (digits + 1) // 2
    if not digits:
        return 0, lambda _data: ""
    return size, lambda data: f".{int.from_bytes(data, 'big'):0{2 * size}}"[: digits + 1]


def _datetime(column: Column) -> Reader:
    size, fraction = _fraction(column.length)
    end = 5 + size

    def read(data: bytes, at: int) -> tuple[Cell, int]:
        number = int.from_bytes(data[at : at + 5], "big")
        months = number >> 22 & 0x1FFFF
        year, month = divmod(months, 13)
        clock = f"{number >> 12 & 31:02}:{number >> 6 & 63:02}:{number & 63:02}"
        shown = f"{year:04}-{month:02}-{number >> 17 & 31:02} {clock}{fraction(data[at + 5 : at + end])}"
        return shown, at + end

    return read


def _timestamp(column: Column) -> Reader:
    """Seconds since 1970; as text in UTC, which the snapshot's session is in too."""
    size, fraction = _fraction(column.length)
    end = 4 + size

    def read(data: bytes, at: int) -> tuple[Cell, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        shown = utc_text(seconds) + fraction(data[at + 4 : at + end])
        return shown, at + end

    return read


def utc_text(seconds: int) -> str:
    if not seconds:
        return "0000-00-00 00:00:00"
    days, rest = divmod(seconds, 86_400)
    return f"{_day_text(days)} {rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def _day_text(days: int) -> str:
    from datetime import date

    return date.fromordinal(719_163 + days).isoformat()


def _time(column: Column) -> Reader:
    size, _ = _fraction(column.length)
    whole, digits = 3 + size, column.length
    half = 1 << 8 * whole - 1

    def read(data: bytes, at: int) -> tuple[Cell, int]:
        number = int.from_bytes(data[at : at + whole], "big") - half
        sign, number = ("-", -number) if number < 0 else ("", number)
        clock, part = number >> 8 * size, number & (1 << 8 * size) - 1
        shown = f"{sign}{clock >> 12 & 1023:02}:{clock >> 6 & 63:02}:{clock & 63:02}"
        return shown + (f".{part:0{2 * size}}"[: digits + 1] if digits else ""), at + whole

    return read


_MAKERS: dict[int, Callable[[Column], Reader]] = {
    binlog.FLOAT: _float,
    binlog.DOUBLE: _double,
    binlog.NEWDECIMAL: _decimal,
    binlog.BIT: _bit,
    binlog.GEOMETRY: _geometry,
    binlog.YEAR: _year,
    binlog.DATE: _date,
    binlog.DATETIME2: _datetime,
    binlog.TIMESTAMP2: _timestamp,
    binlog.TIME2: _time,
}
