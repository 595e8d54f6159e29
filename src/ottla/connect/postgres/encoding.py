"""Changes straight from the log's bytes to JSON: what `Translator` and `JsonConverter` give together, several times
faster. Taken when converters are JSON's, no transform is set and no snapshot runs; tests compare the two byte by byte.

For each table a function is generated that walks the columns of a row and writes each as JSON. What it cannot do (a key
that changes, a long value left out beside a whole old row, a truncation) goes the other way, change by change.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from json.encoder import encode_basestring as quoted
from time import time_ns
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.connect import schema as schemas
from ottla.connect.converters import Converter
from ottla.connect.converters.json import JsonConverter
from ottla.connect.errors import DataError
from ottla.connect.postgres.changes import Capture, Translator
from ottla.connect.postgres.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    MalformedMessage,
    Message,
    Relation,
    Truncate,
    Update,
    decode,
)
from ottla.connect.postgres.progress import Progress
from ottla.connect.postgres.tables import SOURCE, CapturedTable, RowColumn
from ottla.connect.postgres.values import is_true, unscaled_bytes
from ottla.connect.schema import Schema
from ottla.connect.snapshots import KeyOrder
from ottla.connect.spi import SourceRecord
from ottla.connect.tasks.conversion import HEADERS

_SEQUENCE = '"[{c},\\\\"{p}\\\\"]"'  # becomes the text of a JSON array
_INSERT, _UPDATE, _DELETE, _NEW, _OLD = b"I"[0], b"U"[0], b"D"[0], b"N"[0], b"O"[0]
Encoded = tuple[str, str, int]  # the row, its key, where the row ends


class NotSimple(Exception):
    """The change needs the other way."""


class TableEncoder:
    """The generated functions of one table, and the parts of its events that are always the same."""

    def __init__(
        self, table: CapturedTable, capture: Capture, key: JsonConverter, value: JsonConverter
    ) -> None:
        self.topic = table.events.topic
        self.is_key_logged = table.is_key_logged
        self.row = _row_function(table, value, is_whole=False)
        self.whole_row = _row_function(table, value, is_whole=True)  # all values are needed
        self.key_head, self.key_tail = _around(key, table.events.key)
        self.head, self.tail = _around(value, table.events.envelope)
        names = {
            "version": capture.version,
            "connector": "postgresql",
            "name": capture.prefix,
            "db": capture.database,
        }
        names |= {"schema": table.schema, "table": table.name}
        self.source = _source_template(names)


def _around(converter: JsonConverter, schema: Schema) -> tuple[str, str]:
    """What stands before and behind the payload."""
    if not converter.has_schemas:
        return "", ""
    return f'{{"schema":{converter.schema_text(schema)},"payload":', "}"


def _source_template(names: Mapping[str, str]) -> Callable[[int, int, str, int], str]:
    """The block `source` for a time, a transaction, the last commit and a position."""
    parts = []
    for field in SOURCE.fields:
        match field.name:
            case "ts_ms":
                shown = "{t // 1000}"
            case "ts_us":
                shown = "{t}"
            case "ts_ns":
                shown = "{t * 1000}"
            case "txId":
                shown = "{x}"
            case "lsn":
                shown = "{p}"
            case "sequence":
                shown = _SEQUENCE
            case "snapshot":
                shown = '"false"'
            case name if name in names:
                shown = _literal(quoted(names[name]))
            case _:
                shown = "null"
        parts.append(f'"{field.name}":{shown}')
    lines = [f"return f'''{{{{{','.join(parts)}}}}}'''"]
    function: Callable[[int, int, str, int], str] = _compiled("t, x, c, p", lines, {})
    return function


def _literal(text: str) -> str:
    """For the inside of an f-string in three quotes."""
    return text.replace("\\", "\\\\").replace("{", "{{").replace("}", "}}").replace("'", "\\'")


def _row_function(
    table: CapturedTable, converter: JsonConverter, *, is_whole: bool
) -> Callable[[bytes, int], Encoded]:
    """Walks the columns of a row from `at` on. Texts of columns that are not captured are passed over."""
    names: dict[str, Any] = {"NotSimple": NotSimple, "quoted": quoted}
    lines = [f"if d[at] * 256 + d[at + 1] != {table.width}: raise NotSimple", "at += 2"]
    captured = {column.place: column for column in table.columns}
    for place in range(table.width):
        column = captured.get(place)
        lines += [
            "k = d[at]",
            "if k == 116:",
            "    b = at + 5",
            "    at = b + (d[at + 1] << 24 | d[at + 2] << 16 | d[at + 3] << 8 | d[at + 4])",
            f"    v{place} = {_written(column, place, converter, names) if column else 'None'}",
            "else:",
            "    at += 1",
        ]
        if column is None:
            continue
        names[f"null{place}"] = converter.payload(column.schema, column.missing)
        missing = column.missing if column.codec.unavailable is None else column.codec.unavailable
        names[f"left_out{place}"] = converter.payload(column.schema, missing)
        lines += [
            f"    if k == 110: v{place} = null{place}",
            f"    elif k == 117: v{place} = left_out{place}"
            if not is_whole
            else "    elif k == 117: raise NotSimple",
            "    else: raise NotSimple",
        ]
    shown = ",".join(f"{_literal(quoted(column.name))}:{{v{column.place}}}" for column in table.columns)
    places = {column.name: column.place for column in table.columns}
    key = ",".join(f"{_literal(quoted(name))}:{{v{places[name]}}}" for name in table.key_names)
    lines.append(f"return f'''{{{{{shown}}}}}''', f'''{{{{{key}}}}}''', at")
    function: Callable[[bytes, int], Encoded] = _compiled("d, at", lines, names)
    return function


def _written(column: RowColumn, place: int, converter: JsonConverter, names: dict[str, Any]) -> str:
    """An expression for the JSON of the text at d[b:at]."""
    schema, parse = column.schema, column.codec.parse
    if schema.type in schemas.INTEGERS and schema.logical is None:
        if parse is int:
            return "d[b:at].decode()"
        names[f"parse{place}"] = parse
        return f"str(parse{place}(d[b:at].decode()))"
    if schema.type == schemas.STRING and parse is str:
        return "quoted(d[b:at].decode())"
    if parse is is_true:
        return "'true' if d[b] == 116 else 'false'"
    if schema.logical == schemas.DECIMAL and not converter.has_numbers and column.codec.is_plain_decimal:
        names[f"write{place}"] = _decimal_writer(
            schema, converter.payload(schema, None) if schema.optional else None
        )
        return f"write{place}(d[b:at].decode())"
    names[f"write{place}"] = lambda text: converter.payload(schema, parse(text))
    return f"write{place}(d[b:at].decode())"


def _decimal_writer(schema: Schema, null: str | None) -> Callable[[str], str]:
    scale = int((schema.parameters or {})[schemas.SCALE])

    def write(text: str) -> str:
        stored = unscaled_bytes(text, scale)
        if stored is None:
            if null is None:
                raise NotSimple
            return null
        return f'"{b64encode(stored).decode()}"'

    return write


def _compiled(arguments: str, lines: list[str], names: dict[str, Any]) -> Any:
    body = "\n".join(f"    {line}" for line in lines)
    space = dict(names)
    exec(
        f"def function({arguments}):\n{body}\n", space
    )  # text of our own: names of columns are quoted as JSON
    return space["function"]


class _Rows:
    """What goes to one topic."""

    def __init__(self) -> None:
        self.keys: list[str | bytes | None] = []
        self.values: list[str | bytes | None] = []
        self.headers: dict[int, list[dict[str, Any]]] = {}  # of the few rows that have some

    def add(self, key: str | bytes | None, value: str | bytes | None) -> None:
        self.keys.append(key)
        self.values.append(value)

    def batch(self) -> pa.RecordBatch:
        arrays = [pa.array(self.keys, pa.binary()), pa.array(self.values, pa.binary())]
        names = ["key", "value"]
        if self.headers:
            arrays.append(pa.array([self.headers.get(i, []) for i in range(len(self.keys))], HEADERS))
            names.append("headers")
        return pa.RecordBatch.from_arrays(arrays, names=names)


class EncodingTranslator(Translator):
    """`rows()` has what goes to topics."""

    def __init__(
        self,
        capture: Capture,
        tables: Callable[[Relation], CapturedTable | None],
        order: KeyOrder,
        progress: Progress,
        converters: tuple[JsonConverter, JsonConverter, Converter],
        encoders: dict[int, TableEncoder],
    ) -> None:
        super().__init__(capture, tables, order, progress)
        self._key, self._value, self._header = converters
        self._encoders = encoders  # by the identity of tables, which live as long as the source
        self._places: dict[bytes, tuple[TableEncoder, _Rows] | None] = {}
        self._by_topic: dict[str, _Rows] = {}

    def rows(self) -> list[tuple[str, pa.RecordBatch]]:
        return [(topic, rows.batch()) for topic, rows in self._by_topic.items() if rows.keys]

    def run_bytes(self, messages: Iterable[tuple[int, bytes]]) -> None:
        try:
            for lsn, data in messages:
                kind = data[0]
                if kind in (_INSERT, _UPDATE, _DELETE):
                    self._row_change(lsn, kind, data)
                else:
                    self._other(lsn, data)
        except (IndexError, UnicodeDecodeError) as error:
            raise MalformedMessage("a message of pgoutput is cut off or garbled") from error
        if self._transaction is not None:
            index = max(self._transaction.index, self._transaction.skip)
            self.progress = replace(self.progress, index=index)

    def _other(self, lsn: int, data: bytes) -> None:
        message = decode(data)
        match message:
            case Begin():
                self._begin(message)
            case Commit():
                self._commit(message)
            case Relation():
                table = self._captured[message.oid] = self._tables(message)
                self._places[data[1:5]] = None if table is None else self._place(table)
            case Truncate():
                self._otherwise(lsn, message)
            case _:
                pass

    def _place(self, table: CapturedTable) -> tuple[TableEncoder, _Rows]:
        encoder = self._encoders.get(id(table))
        if encoder is None:
            encoder = self._encoders[id(table)] = TableEncoder(table, self._capture, self._key, self._value)
        return encoder, self._by_topic.setdefault(encoder.topic, _Rows())

    def _row_change(self, lsn: int, kind: int, data: bytes) -> None:
        transaction = self._transaction
        if transaction is None:
            return
        place = self._places[data[1:5]]
        if place is None or transaction.index < transaction.skip:
            transaction.index += 1
            return
        encoder, rows = place
        try:
            op, before, after, key = _parts(encoder, kind, data)
        except (NotSimple, DataError):
            self._otherwise(lsn, decode(data))
            return
        transaction.index += 1
        if op in self._capture.skipped:
            return
        commit_lsn = self.progress.last_commit_lsn
        commit = "null" if commit_lsn is None else f'\\"{commit_lsn}\\"'
        source = encoder.source(transaction.time_us, transaction.xid, commit, lsn)
        now = time_ns()
        shown_key = f"{encoder.key_head}{key}{encoder.key_tail}"
        rows.add(
            shown_key,
            f'{encoder.head}{{"before":{before},"after":{after},"source":{source},"transaction":null,"op":"{op}",'
            f'"ts_ms":{now // 1_000_000},"ts_us":{now // 1000},"ts_ns":{now}}}{encoder.tail}',
        )
        if op == "d" and self._capture.tombstones:
            rows.add(shown_key, None)

    def _otherwise(self, lsn: int, message: Message) -> None:
        """As records, which are converted one by one. What cannot be converted stays a record: the framework decides
        whether it is passed over."""
        if self._transaction is None:
            return
        self._lsn = lsn
        assert isinstance(message, Insert | Update | Delete | Truncate)
        kept, self.records = self.records, []
        self._change(message)
        new, self.records = self.records, kept
        for record in new:
            try:
                self._encode(record)
            except DataError:
                self.records.append(record)

    def _encode(self, record: SourceRecord) -> None:
        headers = [
            {"key": header.key, "value": self._header.from_value(record.topic, header.schema, header.value)}
            for header in record.headers
        ]
        key = self._key.from_value(record.topic, record.key_schema, record.key)
        value = self._value.from_value(record.topic, record.value_schema, record.value)
        rows = self._by_topic.setdefault(record.topic, _Rows())
        if headers:
            rows.headers[len(rows.keys)] = headers
        rows.add(key, value)


def _parts(encoder: TableEncoder, kind: int, data: bytes) -> tuple[str, str, str, str]:
    """The operation, the row before and after it, and its key."""
    before = after = "null"
    if kind == _INSERT:
        op = "c"
        after, key, end = encoder.row(data, 6)
    elif not encoder.is_key_logged:
        raise NotSimple
    elif kind == _DELETE:
        op = "d"
        before, key, end = encoder.row(data, 6)
    elif data[5] == _NEW:
        op = "u"
        after, key, end = encoder.row(data, 6)
    else:
        op = "u"
        if data[5] != _OLD:
            raise NotSimple  # the key has changed
        before, old_key, at = encoder.whole_row(data, 6)
        after, key, end = encoder.whole_row(data, at + 1)
        if old_key != key or data[at] != _NEW:
            raise NotSimple
    if end != len(data):
        raise MalformedMessage(f"{len(data) - end} bytes follow a row")
    return op, before, after, key
