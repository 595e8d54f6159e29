"""The source: PostgreSQL's changes as Debezium's events, exactly once, with a snapshot that can be interrupted.

A step reads either a chunk of the snapshot or the log. The log is only peeked at: the same changes come again until
their transaction in Kafka has ended, and then the slot moves on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import Any

import psycopg
from psycopg import sql

import ottla
from ottla.connect.converters import Converter
from ottla.connect.converters.json import JsonConverter
from ottla.connect.debezium import READ, check_skipped, heartbeat
from ottla.connect.errors import ConfigError, ConnectError, RetriableError
from ottla.connect.postgres import catalog, slot
from ottla.connect.postgres.catalog import Connection
from ottla.connect.postgres.changes import Capture, Translator, keys_to_compare
from ottla.connect.postgres.codecs import Modes
from ottla.connect.postgres.encoding import EncodingTranslator, TableEncoder
from ottla.connect.postgres.pgoutput import CHANGE_KINDS, CHANGES, PASSED, Message, Relation, decode
from ottla.connect.postgres.progress import Progress, Visible
from ottla.connect.postgres.settings import SETTINGS, connection_string
from ottla.connect.postgres.slot import Slot, SlotState
from ottla.connect.postgres.snapshot import ChunkRows, ComparedKeys, read_chunk
from ottla.connect.postgres.tables import CapturedTable, described_by, is_key_logged
from ottla.connect.selection import Selection
from ottla.connect.snapshots import NotVisibleYet
from ottla.connect.spi import Batch, Config, Json, Limit, Source, SourceRecord
from ottla.connect.tasks.conversion import Converters
from ottla.connect.transforms import Transforms

_logger = logging.getLogger(__name__)
# What the texts of values look like, here and in the log.
_SESSION = """
    SET timezone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET bytea_output = 'hex';
    SET extra_float_digits = 1; SET lc_monetary = 'C'; SET client_encoding = 'UTF8'; SET synchronous_commit = 'local'
"""
_MOVE_BYTES = 16 * 1024 * 1024  # of log without a change for us, after which the slot moves nevertheless


class PostgresSource(Source):
    settings = SETTINGS
    version = "1"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._prefix: str = config["topic.prefix"]
        self._slot = Slot(config["slot.name"], config["publication.name"])
        self._selection = Selection(
            config["table.include.list"],
            config["table.exclude.list"],
            config["schema.include.list"],
            config["schema.exclude.list"],
        )
        self._capture = Capture(
            self._prefix,
            config["database.dbname"],
            ottla.__version__,
            config["tombstones.on.delete"],
            _skipped(config["skipped.operations"]),
            config["provide.transaction.metadata"],
        )
        self._modes = Modes(
            config["decimal.handling.mode"],
            config["time.precision.mode"],
            config["interval.handling.mode"],
            config["binary.handling.mode"],
            config["hstore.handling.mode"],
            config["unavailable.value.placeholder"],
            config["money.fraction.digits"],
        )
        self._converters = _json_converters(config, self._capture)
        self._encoders: dict[int, TableEncoder] = {}
        self._connection: Connection | None = None
        self._tables: dict[Relation, CapturedTable | None] = {}
        self._shapes: dict[Relation, str | None] = {}  # of the catalog, when captured tables were described
        self._quiet: tuple[int, Progress] | None = None  # the log up to here had nothing behind this position
        self._heartbeat_at = monotonic()
        self._is_published = False  # the publication has the tables that are captured

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        return check_skipped(config["skipped.operations"])

    def partitions(self) -> Iterable[Json]:
        return ({"server": self._prefix},)

    def read(self, partition: Json, offset: Json | None, limit: Limit) -> Batch | None:
        with self._connected() as connection:
            if offset is None:
                return Batch([], self._begin(connection).to_json())
            progress = Progress.from_json(offset)
            self._publish_new(connection)
            if progress.remaining and progress.chunk is None:
                return self._read_snapshot(connection, progress, limit)
            if self.config["snapshot.mode"] == "initial_only" and progress.chunk is None:
                return None
            return self._read_log(connection, progress, limit)

    def committed(self, offsets: Sequence[tuple[Json, Json]]) -> None:
        """The slot moves on. If it cannot, it moves later: changes that come again are known by their position."""
        try:
            with self._connected() as connection:
                for _, offset in offsets:
                    self._slot.advance(connection, offset["lsn"])
        except RetriableError as error:
            _logger.info("the slot %s could not be moved: %s", self._slot.name, error)

    def slot_state(self) -> SlotState | None:
        """For watching: how much log the server keeps for the slot, and how far the slot is behind."""
        with self._connected() as connection:
            return self._slot.state(connection)

    def measures(self) -> Mapping[str, float]:
        state = self.slot_state()
        if state is None:
            return {"slot_present": 0}
        known = {
            "slot_present": 1,
            "slot_lost": int(state.wal_status == "lost"),
            "slot_retained_bytes": state.retained_bytes,
            "slot_behind_bytes": state.behind_bytes,
            "slot_safe_bytes": state.safe_bytes,
        }
        return {name: value for name, value in known.items() if value is not None}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- the beginning -----------------------------------------------------------------------------

    def _begin(self, connection: Connection) -> Progress:
        """A slot without an offset is one of an earlier attempt; everything before it is in the snapshot."""
        tables = self._captured(connection)
        self._slot.publish(connection, self.config["publication.autocreate.mode"], tables)
        self._is_published = True
        state = self._slot.checked(connection, None)
        lsn = state.confirmed_lsn if state else self._slot.create(connection)
        has_snapshot = self.config["snapshot.mode"] in ("initial", "initial_only")
        return Progress(lsn, remaining=tuple(".".join(table) for table in tables) if has_snapshot else ())

    def _publish_new(self, connection: Connection) -> None:
        """Once after a start: tables that came since the last one, or that the settings take since then. Their changes
        are captured from now on."""
        if not self._is_published and self.config["publication.autocreate.mode"] == "filtered":
            tables = catalog.captured(connection, self._selection, refuse=_logger.warning)
            if tables:
                self._slot.publish(connection, "filtered", tables)
        self._is_published = True

    def _captured(self, connection: Connection) -> list[tuple[str, str]]:
        tables = catalog.captured(connection, self._selection)
        if not tables:
            raise ConfigError(
                "no table is captured: table.include.list and its like leave none over (names are SCHEMA.TABLE)"
            )
        return tables

    # -- the snapshot ------------------------------------------------------------------------------

    def _read_snapshot(self, connection: Connection, progress: Progress, limit: Limit) -> Batch | None:
        name = progress.remaining[0]
        schema, table_name = catalog.parts(connection, name)
        rows_max = min(limit.records, self.config["snapshot.fetch.size"])
        try:
            chunk = read_chunk(connection, schema, table_name, progress, Limit(rows_max, limit.bytes))
        except NotVisibleYet:
            return None
        if chunk is None:
            _logger.warning("table %s was dropped while its snapshot was read", name)
            return Batch([], progress.without(name).to_json())
        until_lsn = slot.mark(connection)
        captured = self._described(connection, chunk)
        records = self._snapshot_records(captured, chunk, progress)
        upto = None if chunk.is_last else captured.key_texts(chunk.rows[-1])
        after = progress.with_chunk(upto, chunk.visible, until_lsn)
        return Batch(records, replace(after, begun=progress.begun or bool(records)).to_json())

    def _described(self, connection: Connection, chunk: ChunkRows) -> CapturedTable:
        types = catalog.types(connection)
        return CapturedTable(self._prefix, chunk.table, chunk.table.key, types, self._modes)

    def _snapshot_records(
        self, table: CapturedTable, chunk: ChunkRows, progress: Progress
    ) -> list[SourceRecord]:
        records = []
        sequence = f'[null,"{chunk.lsn}"]'
        for i, texts in enumerate(chunk.rows):
            row = table.row(texts)
            place = progress.place_of(i, len(chunk.rows), is_last_chunk=chunk.is_last)
            source = self._capture.source(table, chunk.time_us, chunk.xid, chunk.lsn, sequence, place)
            records.append(table.events.change(READ, table.key(row), None, row, source))
        return records

    # -- the log -----------------------------------------------------------------------------------

    def _read_log(self, connection: Connection, progress: Progress, limit: Limit) -> Batch | None:
        flushed = self._flushed(connection)
        if self._quiet == (flushed, progress) and not self._is_heartbeat_due():
            return None
        mark = self._mark(connection, progress, flushed)
        self._slot.checked(connection, progress.lsn)
        self._slot.advance(connection, progress.lsn)  # in case `committed` was not called for this offset
        translator, encoded, is_complete = self._translated(connection, progress, limit)
        after = translator.progress.passed(translator.progress.lsn)
        if is_complete:
            reached = flushed if mark is None else max(flushed, mark)
            after = after.passed(reached)
            if mark is not None and after.index == 0 and mark > after.lsn:
                after = replace(after, lsn=mark)
        after = self._seen(connection, after)
        records = translator.records
        if mark is not None and self._is_heartbeat_due():
            records.append(heartbeat(self.config["heartbeat.topics.prefix"], self._prefix))
            self._heartbeat_at = monotonic()
        if after == progress and not records and not encoded:
            self._quiet = (flushed, progress) if is_complete else None
            return None
        return Batch(records, after.to_json(), encoded=encoded)

    def _translated(
        self, connection: Connection, progress: Progress, limit: Limit
    ) -> tuple[Translator, list[Any], bool]:
        """As records, or as columns of bytes if converters and progress allow; and whether the log's end is reached."""
        tables = self._table_of(connection)
        if self._converters is not None and progress.is_over:
            order = ComparedKeys(connection)
            encoding = EncodingTranslator(
                self._capture, tables, order, progress, self._converters, self._encoders
            )
            portion = _Portion(self._slot.peek(connection, limit.records), progress.index, limit)
            encoding.run_bytes(portion)
            return encoding, encoding.rows(), portion.is_complete
        messages, is_complete = self._messages(connection, progress, limit)
        translator = Translator(self._capture, tables, self._order(connection, messages, progress), progress)
        translator.run(messages)
        return translator, [], is_complete

    def _mark(self, connection: Connection, progress: Progress, flushed: int) -> int | None:
        """Written when the slot should move although no change of ours has come."""
        if self._is_heartbeat_due():
            query = self.config["heartbeat.action.query"]
            if query:
                connection.execute(sql.SQL(query))
            return slot.mark(connection)
        return slot.mark(connection) if flushed - progress.lsn > _MOVE_BYTES else None

    def _is_heartbeat_due(self) -> bool:
        interval_ms = self.config["heartbeat.interval.ms"]
        return bool(interval_ms > 0 and (monotonic() - self._heartbeat_at) * 1000 >= interval_ms)

    def _messages(
        self, connection: Connection, progress: Progress, limit: Limit
    ) -> tuple[list[tuple[int, Message]], bool]:
        """From the slot's position on, and whether that is all there is. What was written before does not count."""
        portion = _Portion(self._slot.peek(connection, limit.records), progress.index, limit)
        passed, messages = progress.index, []
        for lsn, data in portion:
            if passed and data[:1] in CHANGES:
                passed -= 1
                messages.append((lsn, decode(data) if self._capture.transactions else PASSED))
            else:
                messages.append((lsn, decode(data)))
        return messages, portion.is_complete

    def _table_of(self, connection: Connection) -> Callable[[Relation], CapturedTable | None]:
        """For one batch, and asked once the batch has been read: what it tells of is in the catalog by then."""
        is_checked = False

        def find(relation: Relation) -> CapturedTable | None:
            nonlocal is_checked
            if not is_checked:
                self._forget_altered(connection)
                is_checked = True
            if relation not in self._tables:
                self._tables[relation] = self._new_table(relation)
            return self._tables[relation]

        return find

    def _forget_altered(self, connection: Connection) -> None:
        """The log describes a table in the same way after DROP NOT NULL: a NULL would still be written as a zero."""
        now = catalog.shapes(connection, [relation.oid for relation in self._shapes])
        for relation, shape in list(self._shapes.items()):
            if now.get(relation.oid) != shape:
                del self._shapes[relation]
                self._encoders.pop(id(self._tables.pop(relation)), None)

    def _new_table(self, relation: Relation) -> CapturedTable | None:
        if not self._selection.takes(relation.schema, relation.table):
            return None
        with psycopg.connect(connection_string(self.config), autocommit=True) as connection:
            shape = catalog.shapes(connection, [relation.oid]).get(relation.oid)
            now = catalog.table(connection, relation.schema, relation.table)
            types = catalog.types(connection)
        table = described_by(relation, now)
        is_logged = is_key_logged(relation, table.key)
        captured = CapturedTable(self._prefix, table, table.key, types, self._modes, is_key_logged=is_logged)
        self._shapes[relation] = shape
        return captured

    def _order(
        self, connection: Connection, messages: Sequence[tuple[int, Message]], progress: Progress
    ) -> ComparedKeys:
        """Keys of the table whose snapshot is being read are compared by the database."""
        order = ComparedKeys(connection)
        bounds = progress.bounds()
        keys = keys_to_compare(messages, self._table_of(connection), frozenset(bounds)) if bounds else {}
        for name, limits_of_table in bounds.items():
            table = catalog.table(connection, *catalog.parts(connection, name))
            if table is not None and table.key:
                order.prepare(table, keys[name], limits_of_table)
        return order

    def _seen(self, connection: Connection, progress: Progress) -> Progress:
        """Forgets transactions that the next chunk is certain to see."""
        if not progress.unseen:
            return progress
        row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
        assert row is not None
        visible = Visible.parse(row[0])
        return replace(progress, unseen=tuple(xid for xid in progress.unseen if not visible.sees(xid)))

    def _flushed(self, connection: Connection) -> int:
        row = connection.execute("SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
        assert row is not None
        return int(row[0])

    # -- the connection ----------------------------------------------------------------------------

    @contextmanager
    def _connected(self) -> Any:
        """A connection that lives as long as this object; one that fails is replaced at the next use."""
        try:
            if self._connection is None or self._connection.closed:
                connection = psycopg.connect(connection_string(self.config), autocommit=True)
                connection.execute(_SESSION)
                lock_ms = self.config["snapshot.lock.timeout.ms"]
                connection.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(lock_ms)))
                self._connection = connection
                self._quiet = None
            yield self._connection
        except psycopg.Error as error:
            self.close()
            raise _translated(error, self.config) from error


class _Portion:
    """Messages up to a limit of changes and bytes. The first `passed` changes were written before and do not count."""

    def __init__(self, messages: Iterator[tuple[int, bytes]], passed: int, limit: Limit) -> None:
        self._messages, self._passed, self._limit = messages, passed, limit
        self.is_complete = False  # the log has no more

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        count, size = -self._passed, 0
        for message in self._messages:
            yield message
            if message[1][0] in CHANGE_KINDS:
                count += 1
                size += len(message[1]) if count > 0 else 0
                if count >= self._limit.records or size >= self._limit.bytes:
                    return
        self.is_complete = True


def _skipped(words: Sequence[str]) -> frozenset[str]:
    return frozenset() if "none" in words else frozenset(words)


def _json_converters(
    config: Config, capture: Capture
) -> tuple[JsonConverter, JsonConverter, Converter] | None:
    """If events can be written as JSON straight from the log: nothing looks at them in between."""
    if "transforms" not in config or capture.transactions or Transforms(config).is_set:
        return None  # without settings of the framework this is not a task, but a test or a check
    converters = Converters(config)
    if isinstance(converters.key, JsonConverter) and isinstance(converters.value, JsonConverter):
        return converters.key, converters.value, converters.header
    return None


def _translated(error: psycopg.Error, config: Config) -> ConnectError:
    where = (
        f"PostgreSQL at {config['database.hostname']}:{config['database.port']}/{config['database.dbname']}"
    )
    text = " ".join(str(error).split())
    if isinstance(
        error, psycopg.errors.InsufficientPrivilege | psycopg.errors.InvalidAuthorizationSpecification
    ):
        return ConfigError(
            f"{where} refuses: {text}; database.user needs REPLICATION and SELECT on the tables"
        )
    return RetriableError(f"{where}: {text}")
