"""The source: changes of MariaDB and MySQL as Debezium's events, exactly once, with a snapshot that can be interrupted.

A step reads either a chunk of the snapshot or the log. The log is read by place, as often as it takes: the same changes
come again until their transaction in Kafka has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import ClassVar

import pymysql  # type: ignore[import-untyped,import-not-found,unused-ignore]

import ottla
from ottla.connect.debezium import READ, check_skipped, heartbeat
from ottla.connect.errors import ConfigError
from ottla.connect.mysql import catalog, stream
from ottla.connect.mysql.binlog import TableMap
from ottla.connect.mysql.catalog import Connection, Server
from ottla.connect.mysql.cells import RowReader
from ottla.connect.mysql.changes import Capture, Known, Translator, keys_to_compare
from ottla.connect.mysql.progress import Place, Progress
from ottla.connect.mysql.settings import SETTINGS
from ottla.connect.mysql.snapshot import ChunkRows, ComparedKeys, read_chunk
from ottla.connect.mysql.tables import CapturedTable, source_of
from ottla.connect.mysql.transactions import Item, Transactions
from ottla.connect.mysql.values import Modes
from ottla.connect.selection import Selection
from ottla.connect.snapshots import NotVisibleYet
from ottla.connect.spi import Batch, Config, Json, Limit, Source, SourceRecord

_logger = logging.getLogger(__name__)
_MOVE_BYTES = 16 * 1024 * 1024  # of log without a change for us, after which the offset moves nevertheless
_KNOWN_MAX = 1000


class MariaDbSource(Source):
    settings = SETTINGS
    version = "1"
    connector: ClassVar[str] = "mariadb"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._prefix: str = config["topic.prefix"]
        self._selection = Selection(
            config["table.include.list"],
            config["table.exclude.list"],
            config["database.include.list"],
            config["database.exclude.list"],
        )
        words = config["skipped.operations"]
        self._capture = Capture(
            self._prefix,
            self.connector,
            ottla.__version__,
            config["tombstones.on.delete"],
            frozenset() if "none" in words else frozenset(words),
            config["provide.transaction.metadata"],
        )
        self._modes = Modes(
            config["decimal.handling.mode"],
            config["time.precision.mode"],
            config["binary.handling.mode"],
            config["bigint.unsigned.handling.mode"],
        )
        self._source_schema = source_of(self.connector)
        self._connection: Connection | None = None
        self._server: Server | None = None
        self._known: dict[TableMap, Known | None] = {}
        self._passed: tuple[Place, Place] | None = (
            None  # behind the first nothing of ours comes before the second
        )
        self._heartbeat_at = monotonic()

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        return check_skipped(config["skipped.operations"])

    def partitions(self) -> Iterable[Json]:
        return ({"server": self._prefix},)

    def read(self, partition: Json, offset: Json | None, limit: Limit) -> Batch | None:
        progress = None if offset is None else Progress.from_json(offset)
        with self._connected(progress) as (connection, server):
            if progress is None:
                return Batch([], self._begin(connection, server).to_json())
            if server.server_id != progress.server_id:
                raise ConfigError(
                    f"the server's server_id is {server.server_id}, and the connector's place is one of server"
                    f" {progress.server_id}, which means nothing here; go back to that server, or remove the"
                    " connector's offsets to take a new snapshot"
                )
            if progress.remaining and progress.chunk is None:
                return self._read_snapshot(connection, progress, limit)
            if self.config["snapshot.mode"] == "initial_only" and progress.chunk is None:
                return None
            return self._read_log(connection, server, progress, limit)

    def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            if connection.open:
                connection.close()

    # -- the beginning -----------------------------------------------------------------------------

    def _begin(self, connection: Connection, server: Server) -> Progress:
        catalog.check_settings(connection)
        has_rows = self.config["snapshot.mode"] in ("initial", "initial_only")
        if has_rows and not server.is_mariadb and self.config["snapshot.locking.mode"] == "none":
            raise ConfigError(
                "MySQL does not say where in its log a snapshot was taken; set snapshot.locking.mode=minimal"
            )
        tables = catalog.captured(connection, self._selection, with_rows=has_rows)
        if not tables:
            raise ConfigError(
                "no table is captured: table.include.list and its like leave none over (names are DATABASE.TABLE)"
            )
        place = catalog.log_end(connection, is_mariadb=server.is_mariadb)
        return Progress(place, server.server_id, remaining=tuple(tables) if has_rows else ())

    # -- the snapshot ------------------------------------------------------------------------------

    def _read_snapshot(self, connection: Connection, progress: Progress, limit: Limit) -> Batch | None:
        name = progress.remaining[0]
        rows_max = min(limit.records, self.config["snapshot.fetch.size"])
        locks = self.config["snapshot.locking.mode"] == "minimal"
        try:
            chunk = read_chunk(connection, name, progress, Limit(rows_max, limit.bytes), locks=locks)
        except NotVisibleYet:
            return None
        if chunk is None:
            _logger.warning("table %s was dropped while its snapshot was read", name)
            return Batch([], progress.without(name).to_json())
        table = CapturedTable(self._prefix, chunk.table, self._modes, self._source_schema)
        records = self._snapshot_records(table, chunk, progress)
        upto = None if chunk.is_last else table.key_texts(chunk.rows[-1])
        after = progress.with_chunk(upto, chunk.place)
        return Batch(records, replace(after, begun=progress.begun or bool(records)).to_json())

    def _snapshot_records(
        self, table: CapturedTable, chunk: ChunkRows, progress: Progress
    ) -> list[SourceRecord]:
        records = []
        place = chunk.place.file, chunk.place.pos, 0
        for i, cells in enumerate(chunk.rows):
            row = table.row(cells)
            word = progress.place_of(i, len(chunk.rows), is_last_chunk=chunk.is_last)
            source = self._capture.source(table.database, table.name, chunk.time_ms, place, snapshot=word)
            records.append(table.events.change(READ, table.key(row), None, row, source))
        return records

    # -- the log -----------------------------------------------------------------------------------

    def _read_log(
        self, connection: Connection, server: Server, progress: Progress, limit: Limit
    ) -> Batch | None:
        begin = self._where(progress)
        is_beating = self._is_heartbeat_due()
        end = catalog.log_end(connection, is_mariadb=server.is_mariadb)
        if end[:2] == begin[:2] and progress.chunk is None and not is_beating:
            return None
        taken = Transactions(begin, progress.events, limit, with_done=self._capture.transactions)
        self._take(connection, taken, server)
        translator = Translator(
            self._capture,
            lambda logged: self._known_table(connection, server, logged),
            self._order(connection, server, taken.items, progress),
            progress,
        )
        translator.run(taken.items)
        records = translator.records
        after = replace(translator.progress, place=taken.place, events=taken.events).passed(taken.place)
        if is_beating:
            records.append(heartbeat(self.config["heartbeat.topics.prefix"], self._prefix))
            self._heartbeat_at = monotonic()
        if not records and not self._is_worth_keeping(progress, after):
            self._passed = progress.place, after.place
            return None
        return Batch(records, after.to_json())

    def _where(self, progress: Progress) -> Place:
        if self._passed is not None and self._passed[0] == progress.place and not progress.events:
            return self._passed[1]
        return progress.place

    def _is_worth_keeping(self, progress: Progress, after: Progress) -> bool:
        """An offset that only moved on is written now and then: the server may remove its old files."""
        is_same = replace(after, place=progress.place) == progress
        is_far = (
            after.place.file_number != progress.place.file_number
            or after.place.pos - progress.place.pos > _MOVE_BYTES
        )
        return not is_same or is_far

    def _take(self, connection: Connection, taken: Transactions, server: Server) -> None:
        """A server that was killed may leave half an event at the end of a file: the next file goes on behind it."""
        try:
            stream.read_log(self.config, taken, is_mariadb=server.is_mariadb)
        except pymysql.MySQLError as error:
            translated = stream.translated(error, self.config, taken.place)
            if not isinstance(translated, stream.LogTruncated):
                raise
            following = [row[0] for row in catalog.rows(connection, "SHOW BINARY LOGS")]
            later = [
                Place.at(name, 4) for name in following if Place.at(name, 4)[0] > taken.place.file_number
            ]
            if not later:
                raise
            taken.end()
            taken.place, taken.events = min(later), 0

    def _is_heartbeat_due(self) -> bool:
        interval_ms = self.config["heartbeat.interval.ms"]
        return bool(interval_ms > 0 and (monotonic() - self._heartbeat_at) * 1000 >= interval_ms)

    def _known_table(self, connection: Connection, server: Server, logged: TableMap) -> Known | None:
        """Numbers of tables change from file to file; their description does not."""
        described = replace(logged, table_id=0)
        if described not in self._known:
            if len(self._known) > _KNOWN_MAX:
                self._known.clear()
            self._known[described] = self._new_table(connection, server, described)
        return self._known[described]

    def _new_table(self, connection: Connection, server: Server, logged: TableMap) -> Known | None:
        if not self._selection.takes(logged.database, logged.table):
            return None
        now = catalog.table(connection, logged.database, logged.table)
        # The log does not describe a table that is emptied.
        table = catalog.described_by(logged, now, server.charsets) if logged.columns else now
        if table is None:
            return None
        name = f"{logged.database}.{logged.table}"
        types = {column.name: column.type.name for column in table.columns}
        reader = RowReader(logged.columns, server.charsets, types, name)
        return Known(CapturedTable(self._prefix, table, self._modes, self._source_schema), reader)

    def _order(
        self, connection: Connection, server: Server, items: Sequence[Item], progress: Progress
    ) -> ComparedKeys:
        """Keys of the table whose snapshot is being read are compared by the server."""
        order = ComparedKeys(connection)
        bounds = progress.bounds()
        if not bounds:
            return order
        keys = keys_to_compare(
            items, lambda logged: self._known_table(connection, server, logged), frozenset(bounds)
        )
        for name, limits_of_table in bounds.items():
            table = catalog.table(connection, *catalog.parts(connection, name))
            if table is not None and table.key:
                order.prepare(table, keys[name], limits_of_table)
        return order

    # -- the connection ----------------------------------------------------------------------------

    @contextmanager
    def _connected(self, progress: Progress | None) -> Iterator[tuple[Connection, Server]]:
        """A connection that lives as long as this object; one that fails is replaced at the next use."""
        try:
            if self._connection is None or not self._connection.open:
                self._connection = stream.connect(self.config)
                self._server = catalog.server(self._connection)
                self._passed = None
            assert self._server is not None
            yield self._connection, self._server
        except pymysql.MySQLError as error:
            self.close()
            raise stream.translated(error, self.config, progress.place if progress else None) from error


class MySqlSource(MariaDbSource):
    connector = "mysql"
