"""Reads a table in chunks of its key's order, and compares keys as PostgreSQL does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import psycopg
from psycopg import sql

from ottla.connect.postgres import catalog
from ottla.connect.postgres.catalog import Connection, Table
from ottla.connect.postgres.pgoutput import Row
from ottla.connect.postgres.progress import Progress, Visible
from ottla.connect.snapshots import ComparedOrder, KeyTexts, NotVisibleYet
from ottla.connect.spi import Limit

_INTEGERS = frozenset({20, 21, 23, 26})
_KEY_TYPES = """
    SELECT a.attname::text, a.atttypid::bigint, format_type(a.atttypid, a.atttypmod),
           CASE WHEN a.attcollation <> 0 THEN a.attcollation::regcollation::text END
    FROM pg_attribute a WHERE a.attrelid = %s::regclass AND a.attname = ANY(%s)
"""


class ChunkRows(NamedTuple):
    table: Table
    rows: list[Row]
    is_last: bool
    visible: Visible
    xid: int
    time_us: int
    lsn: int


def read_chunk(
    connection: Connection, schema: str, name: str, progress: Progress, limit: Limit
) -> ChunkRows | None:
    """The next rows of the table, at least one; None if the table is gone. The lock is the one that every SELECT takes.

    The lock comes before the snapshot: columns and rows belong together, and no TRUNCATE falls between the two.
    """
    target = sql.Identifier(schema, name)
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(target))
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            raise psycopg.Rollback from None
        shown = connection.execute(
            "SELECT pg_current_snapshot()::text, (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint,"
            " (extract(epoch from clock_timestamp()) * 1000000)::bigint"
        ).fetchone()
        assert shown is not None
        visible = Visible.parse(shown[0])
        if not progress.can_read(visible):
            raise NotVisibleYet
        table = catalog.table(connection, schema, name)
        assert table is not None
        rows, is_last = _rows(connection, table, progress.upto, limit)
        return ChunkRows(table, rows, is_last, visible, visible.xmax, shown[2], shown[1])
    return None


def _rows(
    connection: Connection, table: Table, after: KeyTexts | None, limit: Limit
) -> tuple[list[Row], bool]:
    """And whether they are the last. COPY writes values as the log does; a cast to text would not (booleans, trailing
    blanks of char)."""
    key = sql.SQL(", ").join(map(sql.Identifier, table.key))
    where: sql.Composable = sql.SQL("")
    if after is not None:
        bound = sql.SQL(", ").join(map(sql.Literal, after))
        where = sql.SQL("WHERE ROW({}) > ROW({})").format(key, bound)
    query = sql.SQL("COPY (SELECT {} FROM {} {} ORDER BY {} LIMIT {}) TO STDOUT").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns),
        sql.Identifier(table.schema, table.name),
        where,
        key,
        sql.Literal(limit.records + 1),
    )
    rows: list[Row] = []
    size, is_last = 0, True
    with connection.transaction(), connection.cursor() as cursor, cursor.copy(query) as copy:
        for row in copy.rows():
            is_last = len(rows) < limit.records and size < limit.bytes
            if is_last:
                rows.append(list(row))
                size += sum(len(text) for text in row if text is not None)
            elif len(rows) < limit.records:
                raise psycopg.Rollback  # cancels the query: the rest may be of any size
    return rows, is_last


class ComparedKeys(ComparedOrder):
    """Asks PostgreSQL once for all keys of a table."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def prepare(self, table: Table, keys: Iterable[KeyTexts], bounds: Iterable[KeyTexts]) -> None:
        full_name = f"{table.schema}.{table.name}"
        place = catalog.quoted(table.schema, table.name)
        rows = self._connection.execute(_KEY_TYPES, (place, list(table.key))).fetchall()
        types = {row[0]: row for row in rows}
        if all(types[name][1] in _INTEGERS for name in table.key):
            self._integers.add(full_name)
            return
        ordered = sorted(keys)
        for bound in bounds:
            for key, answer in zip(ordered, self._ask(table.key, types, ordered, bound), strict=True):
                self._known[full_name, key, bound] = answer

    def _ask(
        self, names: tuple[str, ...], types: dict[str, tuple[str, ...]], keys: list[KeyTexts], bound: KeyTexts
    ) -> list[bool]:
        if not keys:
            return []
        terms, limits = [], []
        for i, name in enumerate(names):
            _, _, type_name, collation = types[name]
            collate = sql.SQL(f" COLLATE {collation}" if collation else "")
            terms.append(sql.SQL(f"k.c{i}::{type_name}") + collate)
            limits.append(sql.Literal(bound[i]) + sql.SQL(f"::{type_name}") + collate)
        query = sql.SQL(
            "SELECT ROW({}) <= ROW({}) FROM unnest({}) WITH ORDINALITY AS k({}, n) ORDER BY k.n"
        ).format(
            sql.SQL(", ").join(terms),
            sql.SQL(", ").join(limits),
            sql.SQL(", ").join([sql.SQL("%s::text[]")] * len(names)),
            sql.SQL(", ").join(sql.SQL(f"c{i}") for i in range(len(names))),
        )
        columns = [[key[i] for key in keys] for i in range(len(names))]
        return [bool(row[0]) for row in self._connection.execute(query, columns)]
