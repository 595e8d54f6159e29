"""A snapshot read in chunks beside running changes: nothing lost, nothing twice, in every interleaving.

The database is a model: transactions are written to the log at their commit and become visible to readers later, in any
order, as PostgreSQL does it. The code is the real one: `Translator`, `Progress`, `Visible`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ottla.connect.postgres import pgoutput
from ottla.connect.postgres.catalog import Table, TableColumn
from ottla.connect.postgres.changes import Capture, Translator
from ottla.connect.postgres.codecs import Modes
from ottla.connect.postgres.progress import Progress, Visible
from ottla.connect.postgres.tables import CapturedTable
from ottla.connect.postgres.values import Type
from ottla.connect.spi import SourceRecord

INT = 23
COLUMNS = tuple(TableColumn(name, INT, -1, True, False, None) for name in ("id", "value"))
RELATIONS = {
    name: pgoutput.Relation(
        oid,
        "public",
        name,
        "d",
        (pgoutput.Column("id", INT, -1, True), pgoutput.Column("value", INT, -1, False)),
    )
    for oid, name in ((1, "left"), (2, "right"))
}
CAPTURED = {
    name: CapturedTable(
        "p",
        Table("public", name, COLUMNS, ("id",)),
        ("id",),
        {INT: Type(INT, "int4", "b", 0, 0, -1, ())},
        Modes(),
    )
    for name in RELATIONS
}
CAPTURE = Capture("p", "db", "1", tombstones=False, skipped=frozenset())


class Numbers:
    """Keys are integers."""

    def is_upto(self, table: str, key: tuple[str, ...], bound: tuple[str, ...]) -> bool:
        return int(key[0]) <= int(bound[0])


@dataclass
class Database:
    """`rows` is what has been committed; a reader sees transactions of `visible` alone."""

    rows: dict[str, dict[int, int]] = field(default_factory=lambda: {"left": {}, "right": {}})
    log: list[tuple[int, pgoutput.Message]] = field(default_factory=list)
    lsn: int = 100
    next_xid: int = 2**32 - 5  # the 32 bits of the log run over
    visible: set[int] = field(default_factory=set)
    hidden: list[int] = field(default_factory=list)  # committed, in the log, and not visible yet
    history: list[tuple[int, str, int, int | None]] = field(default_factory=list)  # xid, table, key, value

    def commit(self, changes: list[tuple[str, int, int | None]], is_visible: bool) -> None:
        # A transaction waits for the locks of rows that a not yet visible one has changed.
        locked = {(table, key) for xid, table, key, _ in self.history if xid in self.hidden}
        if any((table, key) in locked for table, key, _ in changes):
            self.reveal(len(self.hidden))
        xid, self.next_xid = self.next_xid, self.next_xid + 1
        begin_lsn = self.lsn
        written: list[pgoutput.Message] = []
        for table, key, value in changes:
            written += self._change(xid, table, key, value)
        commit_lsn = begin_lsn + 10 * (len(written) + 1)
        self.log.append((begin_lsn, pgoutput.Begin(commit_lsn, 0, xid % 2**32)))
        self.log += [(begin_lsn + 10 * i, message) for i, message in enumerate(written, 1)]
        self.lsn = commit_lsn + 10
        self.log.append((commit_lsn, pgoutput.Commit(commit_lsn, self.lsn, 0)))
        self.hidden.append(xid)
        if is_visible:
            self.reveal(1)

    def _change(self, xid: int, table: str, key: int, value: int | None) -> list[pgoutput.Message]:
        rows, relation = self.rows[table], RELATIONS[table]
        if value is None and key not in rows:
            return []
        self.history.append((xid, table, key, value))
        if value is None:
            del rows[key]
            return [relation, pgoutput.Delete(relation.oid, [str(key), None], False)]
        texts: pgoutput.Row = [str(key), str(value)]
        is_new = key not in rows
        rows[key] = value
        if is_new:
            return [relation, pgoutput.Insert(relation.oid, texts)]
        return [relation, pgoutput.Update(relation.oid, None, False, texts)]

    def reveal(self, count: int) -> None:
        """The latest first: the order of visibility is not the order of the log."""
        for _ in range(min(count, len(self.hidden))):
            self.visible.add(self.hidden.pop())

    def snapshot(self) -> Visible:
        running = frozenset(self.hidden)
        return Visible(min(running, default=self.next_xid), self.next_xid, running)

    def seen(self, table: str) -> dict[int, int]:
        rows: dict[int, int] = {}
        for xid, name, key, value in self.history:
            if name == table and xid in self.visible:
                if value is None:
                    rows.pop(key, None)
                else:
                    rows[key] = value
        return rows


class Reader:
    """What `PostgresSource` does, with the model in place of the server."""

    def __init__(self, database: Database, translator: type[Translator] = Translator) -> None:
        self._database, self._translator = database, translator
        self.progress = Progress(database.lsn, remaining=("public.left", "public.right"))
        self.records: list[SourceRecord] = []

    def is_complete(self) -> bool:
        progress = self.progress
        return not progress.remaining and progress.chunk is None and progress.lsn >= self._database.lsn

    def read_chunk(self, rows_max: int) -> None:
        progress, visible = self.progress, self._database.snapshot()
        if not progress.remaining or progress.chunk is not None or not progress.can_read(visible):
            return
        table = progress.remaining[0].partition(".")[2]
        after = int(progress.upto[0]) if progress.upto else -1
        rows = sorted(each for each in self._database.seen(table).items() if each[0] > after)
        for key, value in rows[:rows_max]:
            self._add(table, "r", key, value)
        upto = (str(rows[rows_max - 1][0]),) if len(rows) > rows_max else None
        self._keep(progress.with_chunk(upto, visible, self._database.lsn))

    def _add(self, table: str, op: str, key: int, value: int) -> None:
        row = {"id": key, "value": value}
        self.records.append(CAPTURED[table].events.change(op, {"id": key}, None, row, {}))

    def read_log(self, messages_max: int) -> None:
        database = self._database
        done = 0  # the slot has moved on to the last whole transaction
        for i, (_, message) in enumerate(database.log):
            if isinstance(message, pgoutput.Commit) and message.end_lsn <= self.progress.lsn:
                done = i + 1
        rest = database.log[done:]
        translator = self._translator(
            CAPTURE, lambda relation: CAPTURED[relation.table], Numbers(), self.progress
        )
        translator.run(rest[:messages_max])
        self.records += translator.records
        progress = translator.progress.passed(translator.progress.lsn)
        if len(rest) <= messages_max:
            progress = progress.passed(database.lsn)
        visible = database.snapshot()
        self._keep(replace(progress, unseen=tuple(xid for xid in progress.unseen if not visible.sees(xid))))

    def _keep(self, progress: Progress) -> None:
        self.progress = Progress.from_json(progress.to_json())  # as it is after a kill


def problems(database: Database, records: list[SourceRecord]) -> list[str]:
    """What a consumer of the events finds wrong: each must follow from the ones before, and the last be the truth."""
    rows: dict[str, dict[int, int]] = {"left": {}, "right": {}}
    wrong = []
    for record in records:
        table, op = record.topic.rpartition(".")[2], record.value["op"]
        key, after = record.key["id"], record.value["after"]
        is_there = key in rows[table]
        if is_there != (op in ("u", "d")):
            wrong.append(f"{op} of {table} {key}, which is {'' if is_there else 'not '}there")
        if op == "d":
            rows[table].pop(key, None)
        else:
            rows[table][key] = after["value"]
    if rows != database.rows:
        wrong.append(f"the events give {rows}, the database has {database.rows}")
    return wrong


change = st.tuples(
    st.sampled_from(["left", "right"]), st.integers(0, 7), st.one_of(st.none(), st.integers(0, 99))
)
transaction = st.tuples(st.just("commit"), st.lists(change, min_size=1, max_size=4), st.booleans())
action: st.SearchStrategy[tuple[Any, ...]] = st.one_of(
    transaction,
    transaction,
    st.tuples(st.just("reveal"), st.integers(1, 3)),
    st.tuples(st.just("chunk"), st.integers(1, 3)),
    st.tuples(st.just("log"), st.integers(1, 12)),
)


def run(before: list[Any], actions: list[Any], translator: type[Translator] = Translator) -> list[str]:
    database = Database()
    for _, changes, _ in before:
        database.commit(changes, True)
    reader = Reader(database, translator)
    for name, *arguments in actions:
        match name:
            case "commit":
                database.commit(*arguments)
            case "reveal":
                database.reveal(*arguments)
            case "chunk":
                reader.read_chunk(*arguments)
            case "log":
                reader.read_log(*arguments)
    database.reveal(len(database.hidden))
    for _ in range(200):
        if reader.is_complete():
            break
        reader.read_chunk(3)
        reader.read_log(1000)
    assert reader.is_complete()
    return problems(database, reader.records)


@settings(max_examples=500, deadline=None)
@given(st.lists(transaction, max_size=4), st.lists(action, max_size=25))
def test_events_are_complete_and_single_in_every_interleaving(before, actions):
    assert run(before, actions) == []


class ByPosition(Translator):
    """A planted bug: a chunk holds what was committed before its mark in the log."""

    def _is_wanted(self, table, key):
        chunk = self.progress.chunk
        if chunk is not None and self._transaction.commit_lsn < chunk.until_lsn:
            marked = replace(chunk, visible=Visible(2**40, 2**40, frozenset()))
            self.progress, kept = replace(self.progress, chunk=marked), self.progress
            try:
                return super()._is_wanted(table, key)
            finally:
                self.progress = replace(self.progress, chunk=kept.chunk)
        return super()._is_wanted(table, key)


class Forgetful(Translator):
    """A planted bug: what is left to the snapshot is not remembered until it is visible."""

    def _leave_to_snapshot(self):
        pass


class Trusting(Translator):
    """A planted bug: changes beside a chunk are written although the chunk holds them."""

    def _is_wanted(self, table, key):
        self.progress, kept = replace(self.progress, chunk=None), self.progress
        try:
            return super()._is_wanted(table, key)
        finally:
            self.progress = replace(self.progress, chunk=kept.chunk)


@pytest.mark.parametrize("bug", [ByPosition, Forgetful, Trusting])
def test_a_planted_bug_is_caught(bug):
    @settings(max_examples=3000, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(st.lists(transaction, max_size=4), st.lists(action, max_size=25))
    def planted(before, actions):
        assert run(before, actions, bug) == []

    with pytest.raises((AssertionError, ExceptionGroup)):
        planted()
