"""From messages of the log to events, beside a snapshot that is still being read. Free of I/O.

What the snapshot will read later is left to it; what its last chunk already holds is dropped; the rest is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ottla.connect.debezium import CREATED, DELETED, TRUNCATED, UPDATED, transaction_event
from ottla.connect.errors import ConnectError
from ottla.connect.postgres.catalog import KEY_NOT_LOGGED
from ottla.connect.postgres.pgoutput import (
    PASSED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Relation,
    Row,
    Truncate,
    Update,
)
from ottla.connect.postgres.progress import Progress
from ottla.connect.postgres.tables import CapturedTable
from ottla.connect.snapshots import KeyOrder, KeyTexts
from ottla.connect.spi import Header, SourceRecord


@dataclass(frozen=True, slots=True)
class Capture:
    """What stays the same for all events of a connector."""

    prefix: str
    database: str
    version: str
    tombstones: bool = True
    skipped: frozenset[str] = frozenset({TRUNCATED})
    transactions: bool = False

    def source(
        self, table: CapturedTable, time_us: int, xid: int, lsn: int, sequence: str, snapshot: str
    ) -> dict[str, Any]:
        return {
            "version": self.version,
            "connector": "postgresql",
            "name": self.prefix,
            "ts_ms": time_us // 1000,
            "snapshot": snapshot,
            "db": self.database,
            "sequence": sequence,
            "ts_us": time_us,
            "ts_ns": time_us * 1000,
            "schema": table.schema,
            "table": table.name,
            "txId": xid,
            "lsn": lsn,
            "xmin": None,
            "origin": None,
            "origin_lsn": None,
        }


class _Transaction:
    """The one that is being translated. Changes before `skip` were written by an earlier batch."""

    def __init__(self, begin: Begin, skip: int) -> None:
        self.commit_lsn, self.time_us, self.xid = begin
        self.skip = skip
        self.index = 0
        self.counts: Counter[str] = Counter()


class Translator:
    def __init__(
        self,
        capture: Capture,
        tables: Callable[[Relation], CapturedTable | None],
        order: KeyOrder,
        progress: Progress,
    ) -> None:
        self._capture, self._tables, self._order = capture, tables, order
        self._captured: dict[int, CapturedTable | None] = {}
        self._transaction: _Transaction | None = None
        self._lsn = 0
        self.progress = progress
        self.records: list[SourceRecord] = []

    def run(self, messages: Iterable[tuple[int, Message]]) -> None:
        """Messages in the order of the log, from the slot's position on."""
        for lsn, message in messages:
            self._lsn = lsn
            match message:
                case Insert() | Update() | Delete() | Truncate():
                    self._change(message)
                case Begin():
                    self._begin(message)
                case Commit():
                    self._commit(message)
                case Relation():
                    self._captured[message.oid] = self._tables(message)
                case _:
                    if message is PASSED and self._transaction is not None:
                        self._transaction.index += 1
        if self._transaction is not None:  # cut in its middle
            index = max(self._transaction.index, self._transaction.skip)
            self.progress = replace(self.progress, index=index)

    def _begin(self, begin: Begin) -> None:
        if begin.commit_lsn < self.progress.lsn:
            self._transaction = None  # done before
        else:
            self._transaction = _Transaction(begin, self.progress.index)

    def _commit(self, commit: Commit) -> None:
        transaction = self._transaction
        if transaction is None:
            return
        if self._capture.transactions and transaction.counts:
            identity, counts = f"{transaction.xid}:{commit.end_lsn}", dict(sorted(transaction.counts.items()))
            time_ms = commit.time_us // 1000
            self.records.append(transaction_event(self._capture.prefix, "END", identity, time_ms, counts))
        self._transaction = None
        self.progress = replace(self.progress, lsn=commit.end_lsn, index=0, last_commit_lsn=commit.end_lsn)

    def _change(self, message: Insert | Update | Delete | Truncate) -> None:
        transaction = self._transaction
        if transaction is None:
            return
        count_before = len(self.records)
        match message:
            case Insert():
                self._insert(message)
            case Update():
                self._update(message)
            case Delete():
                self._delete(message)
            case Truncate():
                self._truncate(message)
        transaction.index += 1
        if transaction.index <= transaction.skip:
            del self.records[count_before:]

    # -- the kinds of change -----------------------------------------------------------------------

    def _insert(self, change: Insert) -> None:
        table = self._table(change.relation)
        if table is not None and self._is_wanted(table, table.key_texts(change.new)):
            row = table.row(change.new)
            self._add(table, CREATED, table.key(row), None, row)

    def _update(self, change: Update) -> None:
        table = self._table(change.relation)
        if table is None:
            return
        _check_key(table)
        change = change._replace(new=table.with_key(change.new, change.old))
        new_key = table.key_texts(change.new)
        if change.old is not None and table.key_texts(change.old) != new_key:
            self._move(table, change, change.old, new_key)
        elif self._is_wanted(table, new_key):
            whole_before = change.old if change.is_full else None
            row = table.row(change.new, whole_before)
            before = None if change.old is None else table.row(change.old)
            self._add(table, UPDATED, table.key(row), before, row)

    def _move(self, table: CapturedTable, change: Update, old: Row, new_key: KeyTexts) -> None:
        """The key has changed: the row is deleted under the old key and created under the new one."""
        before = table.row(old)
        row = table.row(change.new, old if change.is_full else None)
        old_values, new_values = table.key(before), table.key(row)
        if self._is_wanted(table, table.key_texts(old)):
            self._remove(table, old_values, before, table.events.moved("newkey", new_values))
        if self._is_wanted(table, new_key):
            headers = table.events.moved("oldkey", old_values)
            self._add(table, CREATED, new_values, None, row, headers)

    def _delete(self, change: Delete) -> None:
        table = self._table(change.relation)
        if table is None:
            return
        _check_key(table)
        if self._is_wanted(table, table.key_texts(change.old)):
            before = table.row(change.old)
            self._remove(table, table.key(before), before)

    def _remove(
        self,
        table: CapturedTable,
        key: dict[str, Any],
        before: dict[str, Any],
        headers: tuple[Header, ...] = (),
    ) -> None:
        self._add(table, DELETED, key, before, None, headers)
        if self._capture.tombstones and DELETED not in self._capture.skipped:
            self.records.append(table.events.tombstone(key, headers))

    def _truncate(self, change: Truncate) -> None:
        for table in filter(None, map(self._table, change.relations)):
            assert self._transaction is not None
            name, progress = table.full_name, self.progress
            if name in progress.remaining:
                self._leave_to_snapshot()
            if progress.is_untouched(name):
                continue
            if TRUNCATED in self._capture.skipped:
                continue
            self._add(table, TRUNCATED, None, None, None)
            chunk = progress.chunk
            if chunk is not None and chunk.table == name and chunk.visible.sees(self._transaction.xid):
                # The chunk was read behind the truncation and is written before it: those rows are read again.
                self.progress = progress.restarted(name)

    # -- what is written ---------------------------------------------------------------------------

    def _table(self, oid: int) -> CapturedTable | None:
        try:
            return self._captured[oid]
        except KeyError:
            raise ConnectError(f"the log changes table {oid}, which it has not described") from None

    def _is_wanted(self, table: CapturedTable, key: KeyTexts) -> bool:
        """Whether the change is for the log to tell, not for the snapshot."""
        progress = self.progress
        if progress.is_over:
            return True
        assert self._transaction is not None
        if progress.will_read(table.full_name, key, self._order):
            self._leave_to_snapshot()
            return False
        chunk = progress.chunk
        if chunk is None or chunk.table != table.full_name or not chunk.visible.sees(self._transaction.xid):
            return True
        return not chunk.covers(key, self._order)

    def _leave_to_snapshot(self) -> None:
        assert self._transaction is not None
        if self._transaction.xid not in self.progress.unseen[-1:]:
            self.progress = replace(self.progress, unseen=(*self.progress.unseen, self._transaction.xid))

    def _add(
        self,
        table: CapturedTable,
        op: str,
        key: dict[str, Any] | None,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        headers: tuple[Header, ...] = (),
    ) -> None:
        transaction, capture, lsn = self._transaction, self._capture, self._lsn
        assert transaction is not None
        if op in capture.skipped:
            return
        block = self._block(transaction, table) if capture.transactions else None
        commit_lsn = self.progress.last_commit_lsn
        sequence = f'["{commit_lsn}","{lsn}"]' if commit_lsn is not None else f'[null,"{lsn}"]'
        source = capture.source(table, transaction.time_us, transaction.xid, lsn, sequence, "false")
        self.records.append(table.events.change(op, key, before, after, source, block, headers))

    def _block(self, transaction: _Transaction, table: CapturedTable) -> dict[str, Any]:
        identity = f"{transaction.xid}:{self._lsn}"
        if not transaction.counts:
            time_ms = transaction.time_us // 1000
            begun = transaction_event(self._capture.prefix, "BEGIN", identity, time_ms, None)
            self.records.append(begun)
        transaction.counts[table.full_name] += 1
        total, own = transaction.counts.total(), transaction.counts[table.full_name]
        return {"id": identity, "total_order": total, "data_collection_order": own}


def _check_key(table: CapturedTable) -> None:
    """Else a delete would go to a key that no row has, and the old key of an update would stay for ever."""
    if not table.is_key_logged:
        raise ConnectError(
            f"table {table.full_name} {KEY_NOT_LOGGED}; ALTER TABLE ... REPLICA IDENTITY DEFAULT, and remove the"
            " connector's offsets to take a new snapshot; or leave it out with table.exclude.list"
        )


def keys_to_compare(
    messages: Sequence[tuple[int, Message]],
    tables: Callable[[Relation], CapturedTable | None],
    names: frozenset[str],
) -> dict[str, set[KeyTexts]]:
    """The keys of all changes to these tables: for a KeyOrder that asks the database once for all of them."""
    captured: dict[int, CapturedTable] = {}
    keys: dict[str, set[KeyTexts]] = {name: set() for name in names}
    for _, message in messages:
        match message:
            case Relation():
                table = tables(message)
                captured.pop(message.oid, None)
                if table is not None and table.full_name in names:
                    captured[message.oid] = table
            case Insert() | Update() | Delete() if message.relation in captured:
                table = captured[message.relation]
                if isinstance(message, Update):
                    message = message._replace(new=table.with_key(message.new, message.old))
                rows = [getattr(message, name, None) for name in ("old", "new")]
                keys[table.full_name].update(table.key_texts(row) for row in rows if row is not None)
            case _:
                pass
    return keys
