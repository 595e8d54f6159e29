"""A snapshot of MariaDB read in chunks beside running changes: nothing lost, nothing twice, in every interleaving.

The server is a model: transactions get a place in the log at their commit, and chunks are taken at places. The code is
the real one: `Translator`, `Transactions`, `Progress`, `RowReader`. Transactions are cut, the log ends in the middle of
one that never happened, and files change.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ottla.connect.mysql import binlog
from ottla.connect.mysql.binlog import Begin, Column, Commit, Event, Header, Query, Rotate, Rows, TableMap
from ottla.connect.mysql.catalog import described_by
from ottla.connect.mysql.cells import RowReader
from ottla.connect.mysql.changes import Capture, Known, Translator
from ottla.connect.mysql.progress import Place, Progress
from ottla.connect.mysql.tables import CapturedTable, source_of
from ottla.connect.mysql.transactions import Transactions
from ottla.connect.mysql.values import Modes
from ottla.connect.spi import Limit, SourceRecord

COLUMNS = (Column("id", binlog.LONG, 0, 0, False), Column("value", binlog.LONG, 0, 0, False))
MAPS = {name: TableMap(i, "db", name, COLUMNS, ("id",)) for i, name in enumerate(("left", "right"), 1)}
KNOWN = {
    name: Known(
        CapturedTable("p", described_by(logged, None), Modes(), source_of("mariadb")),
        RowReader(COLUMNS, {}, {}, f"db.{name}"),
    )
    for name, logged in MAPS.items()
}
CAPTURE = Capture("p", "mariadb", "1", tombstones=False, skipped=frozenset())


class Numbers:
    def is_upto(self, table: str, key: tuple[str, ...], bound: tuple[str, ...]) -> bool:
        return int(key[0]) <= int(bound[0])


def _row(key: int, value: int) -> bytes:
    return b"\0" + struct.pack("<ii", key, value)


@dataclass
class Server:
    rows: dict[str, dict[int, int]] = field(default_factory=lambda: {"left": {}, "right": {}})
    log: list[tuple[Place, Header, Event]] = field(
        default_factory=list
    )  # with the place of each event's begin
    number: int = 1
    pos: int = 4

    @property
    def place(self) -> Place:
        return Place.at(f"log.{self.number:06}", self.pos)

    def _add(self, kind: int, event: Event, size: int = 10) -> None:
        begin = self.place
        self.pos += size
        self.log.append((begin, Header(0, kind, 1, size, self.pos, 0), event))

    def commit(self, changes: list[tuple[str, int, int | None]]) -> None:
        self._add(binlog.MARIADB_GTID, Begin("0-1-1", True))
        for table, key, value in changes:
            self._change(table, key, value)
        self._add(binlog.XID, Commit())

    def die(self, changes: list[tuple[str, int, int | None]]) -> None:
        """The server is killed while it writes a transaction: another file begins."""
        self._add(binlog.MARIADB_GTID, Begin("0-1-9", True))
        for table, key, value in changes:
            self._write(table, binlog.INSERT, _row(key, value or 0))
        self.rotate()

    def rotate(self) -> None:
        begin = self.place
        self.number, self.pos = self.number + 1, 4
        self.log.append((begin, Header(0, binlog.ROTATE, 1, 10, 0, 32), Rotate(self.place.file, 4)))

    def _change(self, table: str, key: int, value: int | None) -> None:
        rows = self.rows[table]
        old = rows.get(key)
        if value is None and old is None:
            return
        if value is None:
            assert old is not None
            del rows[key]
            self._write(table, binlog.DELETE, _row(key, old))
        else:
            rows[key] = value
            data = _row(key, value) if old is None else _row(key, old) + _row(key, value)
            self._write(table, binlog.INSERT if old is None else binlog.UPDATE, data)

    def _write(self, table: str, kind: str, data: bytes) -> None:
        self._add(binlog.TABLE_MAP, MAPS[table])
        self._add(23, Rows(kind, MAPS[table].table_id, b"\3", b"\3", data, True))


class Reader:
    """What `MariaDbSource` does, with the model in place of the server."""

    def __init__(
        self, server: Server, translator: type[Translator], transactions: type[Transactions]
    ) -> None:
        self._server, self._translator, self._transactions = server, translator, transactions
        self.progress = Progress(server.place, 1, remaining=("db.left", "db.right"))
        self.records: list[SourceRecord] = []

    def is_complete(self) -> bool:
        progress = self.progress
        at_end = progress.place.is_behind(self._server.place)
        return not progress.remaining and progress.chunk is None and at_end and not progress.events

    def read_chunk(self, rows_max: int) -> None:
        progress, place = self.progress, self._server.place
        if not progress.remaining or progress.chunk is not None or not progress.can_read(place):
            return
        table = progress.remaining[0].partition(".")[2]
        after = int(progress.upto[0]) if progress.upto else -1
        rows = sorted(each for each in self._server.rows[table].items() if each[0] > after)
        for key, value in rows[:rows_max]:
            row = {"id": key, "value": value}
            self.records.append(KNOWN[table].table.events.change("r", {"id": key}, None, row, {}))
        upto = (str(rows[rows_max - 1][0]),) if len(rows) > rows_max else None
        self._keep(progress.with_chunk(upto, place))

    def read_log(self, rows_max: int) -> None:
        progress = self.progress
        taken = self._transactions(progress.place, progress.events, Limit(records=rows_max))
        for begin, header, event in self._server.log:
            if begin.is_behind(progress.place):
                taken.take(header, event)
                if taken.is_full:
                    break
        else:
            taken.end()
        translator = self._translator(CAPTURE, lambda logged: KNOWN[logged.table], Numbers(), progress)
        translator.run(taken.items)
        self.records += translator.records
        after = replace(translator.progress, place=taken.place, events=taken.events)
        self._keep(after.passed(taken.place))

    def _keep(self, progress: Progress) -> None:
        self.progress = Progress.from_json(progress.to_json())  # as it is after a kill


def problems(server: Server, records: list[SourceRecord]) -> list[str]:
    """What a consumer of the events finds wrong: each must follow from the ones before, and the last be the truth."""
    rows: dict[str, dict[int, int]] = {"left": {}, "right": {}}
    wrong = []
    for record in records:
        table, value = record.topic.rpartition(".")[2], record.value
        key, op = record.key["id"], value["op"]
        if (key in rows[table]) != (op in ("u", "d")):
            wrong.append(f"{op} of {table} {key}, which is {'' if key in rows[table] else 'not '}there")
        if op in ("u", "d") and value["before"]["value"] != rows[table].get(key):
            wrong.append(f"{op} of {table} {key} does not follow from the event before")
        if op == "d":
            rows[table].pop(key, None)
        else:
            rows[table][key] = value["after"]["value"]
    if rows != server.rows:
        wrong.append(f"the events give {rows}, the server has {server.rows}")
    return wrong


change = st.tuples(
    st.sampled_from(["left", "right"]), st.integers(0, 7), st.one_of(st.none(), st.integers(0, 99))
)
transaction = st.tuples(st.just("commit"), st.lists(change, min_size=1, max_size=4))
action: st.SearchStrategy[tuple[Any, ...]] = st.one_of(
    transaction,
    transaction,
    st.tuples(st.just("die"), st.lists(change, min_size=1, max_size=2)),
    st.tuples(st.just("rotate")),
    st.tuples(st.just("chunk"), st.integers(1, 3)),
    st.tuples(st.just("log"), st.integers(1, 4)),
)


def run(
    before: list[Any],
    actions: list[Any],
    translator: type[Translator] = Translator,
    transactions: type[Transactions] = Transactions,
) -> list[str]:
    server = Server()
    for _, changes in before:
        server.commit(changes)
    reader = Reader(server, translator, transactions)
    for name, *arguments in actions:
        match name:
            case "commit":
                server.commit(*arguments)
            case "die":
                server.die(*arguments)
            case "rotate":
                server.rotate()
            case "chunk":
                reader.read_chunk(*arguments)
            case "log":
                reader.read_log(*arguments)
    for _ in range(200):
        if reader.is_complete():
            break
        reader.read_chunk(3)
        reader.read_log(1000)
    assert reader.is_complete()
    return problems(server, reader.records)


@settings(max_examples=400, deadline=None)
@given(st.lists(transaction, max_size=4), st.lists(action, max_size=25))
def test_events_are_complete_and_single_in_every_interleaving(before, actions):
    assert run(before, actions) == []


class Trusting(Translator):
    """A planted bug: changes beside a chunk are written although the chunk holds them."""

    def _is_wanted(self, table, key, place):
        self.progress, kept = replace(self.progress, chunk=None), self.progress
        try:
            return super()._is_wanted(table, key, place)
        finally:
            self.progress = kept


class Careless(Translator):
    """A planted bug: what the snapshot will read is written too."""

    def _is_wanted(self, table, key, place):
        self.progress, kept = replace(self.progress, remaining=()), self.progress
        try:
            return super()._is_wanted(table, key, place)
        finally:
            self.progress = kept


class Believing(Transactions):
    """A planted bug: a transaction without a commit happened."""

    def _drop(self):
        self._transaction = None


class Hasty(Transactions):
    """A planted bug: a cut transaction is begun anew by the next batch."""

    def __init__(self, place, events, limit):
        super().__init__(place, 0, limit)


@pytest.mark.parametrize("bug", [Trusting, Careless, Believing, Hasty])
def test_a_planted_bug_is_caught(bug):
    kinds = {"translator": bug} if issubclass(bug, Translator) else {"transactions": bug}

    @settings(max_examples=3000, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(st.lists(transaction, max_size=4), st.lists(action, max_size=25))
    def planted(before, actions):
        assert run(before, actions, **kinds) == []

    with pytest.raises((AssertionError, ExceptionGroup)):
        planted()


def test_an_xa_transaction_of_mysql_lasts_from_its_start_to_its_prepare():
    """MySQL begins it with a statement, and ends it with an event of its own."""
    taken = Transactions(Place(1, 4, "log.000001"), 0, Limit())
    rows = Rows(binlog.INSERT, 1, b"\xff", b"\xff", _row(1, 10), True)
    logged: list[tuple[int, Event | None]] = [
        (binlog.GTID, Begin("source:1", False)),
        (binlog.QUERY, Query(7, "db", "XA START X'78',X'',1")),
        (binlog.TABLE_MAP, MAPS["left"]),
        (min(binlog.ROWS), rows),
        (binlog.QUERY, Query(7, "db", "XA END X'78',X'',1")),
        (binlog.XA_PREPARE, None),
    ]
    for number, (kind, event) in enumerate(logged, 1):
        taken.take(Header(0, kind, 1, 10, 4 + 10 * number, 0), event)
    taken.end()
    assert [type(item).__name__ for item in taken.items] == ["RowsChanged", "Committed"]
    assert taken.items[0].transaction == ("source:1", 7)
    assert taken.place.pos == 4 + 10 * len(logged)
