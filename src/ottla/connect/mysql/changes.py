"""From changes of transactions to events, beside a snapshot that is still being read. Free of I/O.

What the snapshot will read later is left to it; what its last chunk already holds is dropped; the rest is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.connect.debezium import CREATED, DELETED, TRUNCATED, UPDATED, transaction_event
from ottla.connect.mysql import binlog
from ottla.connect.mysql.binlog import Header, TableMap
from ottla.connect.mysql.cells import Row, RowReader
from ottla.connect.mysql.progress import Place, Progress
from ottla.connect.mysql.tables import CapturedTable
from ottla.connect.mysql.transactions import Committed, Item, RowsChanged, Transaction, Truncated
from ottla.connect.snapshots import KeyOrder, KeyTexts
from ottla.connect.spi import SourceRecord


class Known(NamedTuple):
    """A captured table as a table map describes it, and what reads its rows."""

    table: CapturedTable
    reader: RowReader


Tables = Callable[[TableMap], Known | None]


@dataclass(frozen=True, slots=True)
class Capture:
    """What stays the same for all events of a connector."""

    prefix: str
    connector: str  # mariadb, mysql
    version: str
    tombstones: bool = True
    skipped: frozenset[str] = frozenset({TRUNCATED})
    transactions: bool = False

    def source(
        self,
        database: str,
        table: str,
        time_ms: int,
        place: tuple[str, int, int],
        *,
        server_id: int = 0,
        transaction: Transaction | None = None,
        snapshot: str = "false",
    ) -> dict[str, Any]:
        """`place` is file, position and row."""
        file, pos, row = place
        return {
            "version": self.version,
            "connector": self.connector,
            "name": self.prefix,
            "ts_ms": time_ms,
            "snapshot": snapshot,
            "db": database,
            "sequence": None,
            "ts_us": time_ms * 1000,
            "ts_ns": time_ms * 1_000_000,
            "table": table,
            "server_id": server_id,
            "gtid": transaction.gtid if transaction else None,
            "file": file,
            "pos": pos,
            "row": row,
            "thread": transaction.thread_id if transaction else None,
            "query": None,
        }


class Translator:
    def __init__(self, capture: Capture, tables: Tables, order: KeyOrder, progress: Progress) -> None:
        self._capture, self._tables, self._order = capture, tables, order
        self._counts: Counter[str] = Counter()  # events of the open transaction, by table
        self._known: dict[int, Known | None] = {}  # by identity of table maps, which items keep alive
        self._begun: str | None = None  # the transaction whose BEGIN is written
        self.progress = progress
        self.records: list[SourceRecord] = []

    def run(self, items: Sequence[Item]) -> None:
        for item in items:
            match item:
                case RowsChanged():
                    self._rows(item)
                case Truncated():
                    self._truncated(item)
                case Committed():
                    self._committed(item)

    def _rows(self, item: RowsChanged) -> None:
        identity = id(item.table)
        if identity not in self._known:
            self._known[identity] = self._tables(item.table)
        known = self._known[identity]
        if known is None:
            return
        table, kind = known.table, item.rows.kind
        count_before = len(self.records)
        for number, (before, after) in enumerate(changed_rows(item, known.reader)):
            match kind:
                case binlog.INSERT:
                    self._insert(item, table, number, before)
                case binlog.DELETE:
                    self._delete(item, table, number, before)
                case _:
                    assert after is not None
                    self._update(item, table, number, before, after)
        if item.is_done:
            del self.records[count_before:]

    # -- the kinds of change -----------------------------------------------------------------------

    def _insert(self, item: RowsChanged, table: CapturedTable, number: int, cells: Row) -> None:
        if self._is_wanted(table, table.key_texts(cells), item.place):
            row = table.row(cells)
            self._add(item, table, number, CREATED, table.key(row), None, row)

    def _update(self, item: RowsChanged, table: CapturedTable, number: int, before: Row, after: Row) -> None:
        old_key, new_key = table.key_texts(before), table.key_texts(after)
        old, new = table.row(before), table.row(after)
        if old_key == new_key:
            if self._is_wanted(table, new_key, item.place):
                self._add(item, table, number, UPDATED, table.key(new), old, new)
            return
        old_values, new_values = table.key(old), table.key(new)
        if self._is_wanted(table, old_key, item.place):
            headers = table.events.moved("newkey", new_values)
            self._add(item, table, number, DELETED, old_values, old, None, headers)
            self._tombstone(table, old_values, headers)
        if self._is_wanted(table, new_key, item.place):
            headers = table.events.moved("oldkey", old_values)
            self._add(item, table, number, CREATED, new_values, None, new, headers)

    def _delete(self, item: RowsChanged, table: CapturedTable, number: int, cells: Row) -> None:
        if self._is_wanted(table, table.key_texts(cells), item.place):
            row = table.row(cells)
            key = table.key(row)
            self._add(item, table, number, DELETED, key, row, None)
            self._tombstone(table, key, ())

    def _tombstone(self, table: CapturedTable, key: dict[str, Any], headers: tuple[Any, ...]) -> None:
        if self._capture.tombstones and DELETED not in self._capture.skipped:
            self.records.append(table.events.tombstone(key, headers))

    def _truncated(self, item: Truncated) -> None:
        name, progress = f"{item.database}.{item.table}", self.progress
        table = self._tables(TableMap(0, item.database, item.table, (), ()))
        if table is None or TRUNCATED in self._capture.skipped:
            return
        if progress.is_untouched(name):
            return  # its rows will be read behind this
        self._add(item, table.table, 0, TRUNCATED, None, None, None)
        chunk = progress.chunk
        if chunk is not None and chunk.table == name and chunk.place.is_behind(item.place):
            # The chunk was read behind the truncation and is written before it: those rows are read again.
            self.progress = progress.restarted(name)

    def _committed(self, item: Committed) -> None:
        if self._begun is not None and self._counts:
            counts = dict(sorted(self._counts.items()))
            time_ms = item.header.time_s * 1000
            self.records.append(transaction_event(self._capture.prefix, "END", self._begun, time_ms, counts))
        self._begun = None
        self._counts.clear()

    # -- what is written ---------------------------------------------------------------------------

    def _is_wanted(self, table: CapturedTable, key: KeyTexts, place: Place) -> bool:
        """Whether the change is for the log to tell, not for the snapshot."""
        progress, name = self.progress, table.full_name
        if progress.is_over:
            return True
        if progress.will_read(name, key, self._order):
            return False
        chunk = progress.chunk
        if chunk is None or chunk.table != name or not chunk.place.is_behind(place):
            return True
        return not chunk.covers(key, self._order)

    def _add(
        self,
        item: RowsChanged | Truncated,
        table: CapturedTable,
        number: int,
        op: str,
        key: dict[str, Any] | None,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        headers: tuple[Any, ...] = (),
    ) -> None:
        capture, header = self._capture, item.header
        if op in capture.skipped:
            return
        is_counted = capture.transactions and isinstance(
            item, RowsChanged
        )  # a truncation is in no transaction
        block = self._block(item, table) if is_counted else None
        source = capture.source(
            table.database,
            table.name,
            header.time_s * 1000,
            (item.place.file, event_pos(header), number),
            server_id=header.server_id,
            transaction=item.transaction,
        )
        self.records.append(table.events.change(op, key, before, after, source, block, headers))

    def _block(self, item: RowsChanged | Truncated, table: CapturedTable) -> dict[str, Any]:
        identity = item.transaction.gtid or f"{item.place.file}:{event_pos(item.header)}"
        if self._begun is None:
            self._begun = identity
            time_ms = item.header.time_s * 1000
            self.records.append(transaction_event(self._capture.prefix, "BEGIN", identity, time_ms, None))
        self._counts[table.full_name] += 1
        total, own = self._counts.total(), self._counts[table.full_name]
        return {"id": self._begun, "total_order": total, "data_collection_order": own}


def changed_rows(item: RowsChanged, reader: RowReader) -> Iterator[tuple[Row, Row | None]]:
    rows = item.rows
    after = rows.present_after if rows.kind == binlog.UPDATE else None
    return reader.rows(rows.data, rows.present, after)


def event_pos(header: Header) -> int:
    """Where the event begins."""
    return header.end_pos - header.size


def keys_to_compare(items: Sequence[Item], tables: Tables, names: frozenset[str]) -> dict[str, set[KeyTexts]]:
    """The keys of all changes to these tables: for a KeyOrder that asks the database once for all of them."""
    keys: dict[str, set[KeyTexts]] = {name: set() for name in names}
    for item in items:
        if isinstance(item, RowsChanged) and f"{item.table.database}.{item.table.table}" in names:
            known = tables(item.table)
            if known is not None:
                for rows in changed_rows(item, known.reader):
                    keys[known.table.full_name].update(
                        known.table.key_texts(row) for row in rows if row is not None
                    )
    return keys
