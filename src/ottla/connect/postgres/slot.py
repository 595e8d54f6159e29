"""The replication slot and the publication: created, read again and again, moved on, watched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from psycopg import sql

from ottla.connect.errors import ConfigError, ConnectError
from ottla.connect.postgres.catalog import Connection

_FETCH_ROWS = 10_000
_PEEK = """
    SELECT (lsn - '0/0'::pg_lsn)::bigint, data
    FROM pg_logical_slot_peek_binary_changes({slot}, NULL, {limit}, 'proto_version', '1', 'publication_names', {names})
"""
_STATE = """
    SELECT plugin::text, database::text, active, wal_status, (confirmed_flush_lsn - '0/0'::pg_lsn)::bigint,
           pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint,
           pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint, safe_wal_size
    FROM pg_replication_slots WHERE slot_name = %s
"""


class SlotState(NamedTuple):
    plugin: str
    database: str
    is_active: bool
    wal_status: str
    confirmed_lsn: int
    retained_bytes: int  # of the log that the server keeps for this slot
    behind_bytes: int  # of the log that was not read yet
    safe_bytes: int | None  # until the server gives the slot up; None: it does not


class Slot:
    def __init__(self, name: str, publication: str) -> None:
        self.name, self.publication = name, publication

    def state(self, connection: Connection) -> SlotState | None:
        row = connection.execute(_STATE, (self.name,)).fetchone()
        return None if row is None else SlotState(*row)

    def create(self, connection: Connection) -> int:
        """The position that it begins at. Waits for transactions that write now."""
        _need_logical(connection)
        row = connection.execute(
            "SELECT (lsn - '0/0'::pg_lsn)::bigint FROM pg_create_logical_replication_slot(%s, 'pgoutput')",
            (self.name,),
        ).fetchone()
        assert row is not None
        return int(row[0])

    def checked(self, connection: Connection, needed_lsn: int | None) -> SlotState | None:
        """The slot if it can be read from `needed_lsn` on (None: from where it is); None if there is none."""
        state = self.state(connection)
        if state is None:
            if needed_lsn is not None:
                raise ConfigError(
                    f"the replication slot {self.name} is gone, and with it the changes since {lsn_text(needed_lsn)};"
                    " remove the connector's offsets to take a new snapshot"
                )
            return None
        if state.plugin != "pgoutput":
            raise ConfigError(f"the replication slot {self.name} is of {state.plugin}; set another slot.name")
        if state.wal_status == "lost":
            raise ConfigError(
                f"the server has removed log that the replication slot {self.name} needs (max_slot_wal_keep_size);"
                f" drop it with SELECT pg_drop_replication_slot('{self.name}') and remove the connector's offsets to"
                " take a new snapshot"
            )
        if needed_lsn is not None and state.confirmed_lsn > needed_lsn:
            raise ConfigError(
                f"the replication slot {self.name} stands at {lsn_text(state.confirmed_lsn)}, behind the connector's"
                f" position {lsn_text(needed_lsn)}: somebody else has read from it, and changes are lost; remove the"
                " connector's offsets to take a new snapshot"
            )
        return state

    def peek(self, connection: Connection, rows_max: int) -> Iterator[tuple[int, bytes]]:
        """Positions and messages from the slot's position on, to the end of a transaction beyond `rows_max`; the same
        again at the next call. In portions, so that a long transaction does not fill the memory."""
        query = sql.SQL(_PEEK).format(
            slot=sql.Literal(self.name),
            limit=sql.Literal(rows_max),
            names=sql.Literal('"' + self.publication.replace('"', '""') + '"'),
        )
        with connection.transaction(), connection.cursor(name="ottla_changes", binary=True) as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(_FETCH_ROWS):
                yield from rows

    def advance(self, connection: Connection, lsn: int) -> None:
        """What is before `lsn` is not needed any more."""
        state = self.state(connection)
        if state is not None and state.confirmed_lsn < lsn:
            connection.execute("SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s)", (self.name, lsn))

    def publish(self, connection: Connection, mode: str, tables: Sequence[tuple[str, str]]) -> None:
        """Creates the publication, or adds these tables if it was created for a list of tables. Others stay in it: they
        may be another connector's."""
        row = connection.execute(
            "SELECT puballtables FROM pg_publication WHERE pubname = %s", (self.publication,)
        ).fetchone()
        name = sql.Identifier(self.publication)
        if row is None and mode == "disabled":
            raise ConfigError(
                f"there is no publication {self.publication}, and publication.autocreate.mode=disabled forbids to"
                " create it; CREATE PUBLICATION, or set filtered"
            )
        if row is None and mode == "all_tables":
            connection.execute(sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES").format(name))
        elif row is None:
            connection.execute(sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(name, _listed(tables)))
        elif not row[0] and mode == "filtered":
            published = self._published(connection)
            missing = [table for table in tables if table not in published]
            if missing:
                connection.execute(
                    sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, _listed(missing))
                )

    def _published(self, connection: Connection) -> set[tuple[str, str]]:
        rows = connection.execute(
            "SELECT schemaname::text, tablename::text FROM pg_publication_tables WHERE pubname = %s",
            (self.publication,),
        )
        return {(row[0], row[1]) for row in rows}


def _listed(tables: Sequence[tuple[str, str]]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(*table) for table in tables)


def mark(connection: Connection) -> int:
    """Writes a mark to the log and gives the position behind it: a record's end, and on disk when this returns."""
    row = connection.execute(
        "SELECT (pg_logical_emit_message(true, 'ottla', '') - '0/0'::pg_lsn)::bigint"
    ).fetchone()
    assert row is not None
    return int(row[0])


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def _need_logical(connection: Connection) -> None:
    row = connection.execute("SHOW wal_level").fetchone()
    if row is None or row[0] != "logical":
        raise ConnectError(
            f"the server's wal_level is {row and row[0]}, and changes are not in its log; set wal_level=logical and"
            " restart it"
        )
