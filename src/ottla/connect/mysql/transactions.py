"""From events of the binary log to changes of whole transactions. Free of I/O.

A server that was killed can leave the beginning of a transaction at the end of a file: such a transaction never
happened. So changes count when their commit was seen. A transaction that is longer than a batch is cut, but only once
its commit was seen further on.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ottla.connect.errors import ConnectError
from ottla.connect.mysql import binlog
from ottla.connect.mysql.binlog import Begin, Commit, Event, Header, Query, Rotate, Rows, TableMap
from ottla.connect.mysql.progress import Place
from ottla.connect.spi import Limit


class Transaction(NamedTuple):
    gtid: str | None
    thread_id: int | None


class RowsChanged(NamedTuple):
    """An event of rows, not taken apart yet. `place` is where the event ends."""

    table: TableMap
    rows: Rows
    header: Header
    place: Place
    transaction: Transaction
    is_done: bool = False  # written by an earlier batch: it only counts


class Truncated(NamedTuple):
    database: str
    table: str
    header: Header
    place: Place
    transaction: Transaction


class Committed(NamedTuple):
    """The end of a transaction of which something is in the batch."""

    header: Header
    transaction: Transaction


Item = RowsChanged | Truncated | Committed
_TRUNCATE = re.compile(
    r"^\s*(?:/\*.*?\*/\s*)*TRUNCATE\s+(?:TABLE\s+)?(?:(`(?:[^`]|``)+`|[\w$]+)\s*\.\s*)?(`(?:[^`]|``)+`|[\w$]+)",
    re.IGNORECASE | re.DOTALL,
)
_ROW_BYTES = 64  # taken for a row's: rows are not counted before they are taken apart
_ENDS = frozenset({"COMMIT", "ROLLBACK"})


class Transactions:
    """Takes events until a limit is reached; `items` are to be written then, and `place`, `events` stored."""

    def __init__(self, place: Place, events: int, limit: Limit, *, with_done: bool = False) -> None:
        """`with_done`: events that an earlier batch has written are among the items, for who counts them."""
        self.place, self.events = place, events
        self.items: list[Item] = []
        self.is_full = False
        self._limit, self._with_done = limit, with_done
        self._file, self._number = place.file, place.file_number
        self._tables: dict[int, TableMap] = {}
        self._skip = events  # events of the first transaction that were written before
        self._is_known_complete = events > 0  # it was cut by an earlier batch, which has seen its commit
        self._transaction: Transaction | None = None
        self._next = Transaction(None, None)  # what the next statement or BEGIN belongs to
        self._kept, self._done = 0, 0  # items before the open transaction; its events so far
        self._is_passing = False  # the batch is full: the open transaction's commit is looked for
        self._rows, self._bytes = 0, 0

    def take(self, header: Header, event: Event | None) -> None:
        """`event` is None for one that was not decoded; the header counts nevertheless."""
        match event:
            case Rows():
                self._take_rows(header, event)
            case TableMap():
                self._tables[event.table_id] = event
            case Begin():
                self._next = Transaction(event.gtid, None)
                if event.is_open:
                    self._open()
                return
            case Query():
                self._take_query(header, event)
            case Commit():
                self._close(header)
            case Rotate():
                self._file_begins(event)
                return
            case _ if header.type == binlog.XA_PREPARE:
                self._close(header)
            case _:
                pass
        if self._transaction is None and header.end_pos:
            self._move(self._place(header))

    def _place(self, header: Header) -> Place:
        return Place(self._number, header.end_pos, self._file)

    def _move(self, place: Place) -> None:
        """Forwards: the first event of a stream is the beginning of the file."""
        if place.is_behind(self.place):
            self.place, self.events = place, 0

    def end(self) -> None:
        """The log has no more: what is open has no commit."""
        if self._transaction is not None:
            self._drop()

    def _open(self) -> None:
        self._transaction = self._next
        self._next = Transaction(None, None)
        self._kept, self._done = len(self.items), 0

    def _close(self, header: Header) -> None:
        transaction = self._transaction
        if transaction is None:
            return
        self._transaction = None
        if self._is_passing:
            self.is_full = True  # complete: `place` stays before it, `events` says how much is done
            self._transaction = transaction
            return
        if len(self.items) > self._kept or self._skip:
            self.items.append(Committed(header, transaction))
        self._skip, self._is_known_complete = 0, False
        self.is_full = self._is_limit_reached()

    def _drop(self) -> None:
        del self.items[self._kept :]
        self._transaction, self._is_passing = None, False
        if not self._skip:
            self.events = 0

    def _file_begins(self, rotate: Rotate) -> None:
        """The end of a file, or the name of the first one. Numbers of tables hold within a file."""
        if rotate.file == self._file:
            return
        self.end()
        self._skip = 0
        self.place, self.events = Place.at(rotate.file, rotate.pos), 0
        self._file, self._number, self._tables = rotate.file, self.place.file_number, {}

    def _take_query(self, header: Header, query: Query) -> None:
        word = query.text.strip().rstrip(";").upper()
        if word == "BEGIN" or word == "START TRANSACTION":
            self._next = self._next._replace(thread_id=query.thread_id)
            self._open()
        elif (
            word.startswith("XA START") and self._transaction is None
        ):  # of MySQL; MariaDB writes no such statement
            self._next = self._next._replace(thread_id=query.thread_id)
            self._open()
        elif word in _ENDS:
            self._close(header)
        elif match := _TRUNCATE.match(query.text):
            database = _plain(match[1]) if match[1] else query.database
            place = self._place(header)
            self.items.append(Truncated(database, _plain(match[2]), header, place, self._next))

    def _take_rows(self, header: Header, rows: Rows) -> None:
        if self._transaction is None or self._is_passing:
            return
        self._done += 1
        is_done = self._done <= self._skip
        if is_done and not self._with_done:
            return
        table = self._tables.get(rows.table_id)
        if table is None:
            raise ConnectError(f"the binary log changes table {rows.table_id}, which it has not described")
        self.items.append(RowsChanged(table, rows, header, self._place(header), self._transaction, is_done))
        if is_done:
            return
        self._rows += 1 + len(rows.data) // _ROW_BYTES
        self._bytes += header.size
        if self._is_limit_reached():
            self.events = self._done
            self.is_full = self._is_known_complete
            self._is_passing = not self._is_known_complete

    def _is_limit_reached(self) -> bool:
        return self._rows >= self._limit.records or self._bytes >= self._limit.bytes

    def is_wanted(self, header: Header) -> bool:
        """Whether the event's bytes are worth decoding."""
        return not (self._is_passing and header.type in binlog.ROWS)


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
