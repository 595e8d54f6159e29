"""The sink: records become rows, and their positions are stored in the same transaction: exactly once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ottla.client.values import TopicPartition
from ottla.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from ottla.connect.settings import BOOLEAN, HIGH, INT, LIST, LOW, PASSWORD, Setting
from ottla.connect.spi import Config, Sink, SinkBatch, SinkRecord
from ottla.connect.sql.dialects import POSITIONS, TOPIC_IDS, Dialect, dialect
from ottla.connect.sql.rows import Group, KeyRule, grouped

log = logging.getLogger(__name__)
CONNECTION = (
    Setting("connection.url", importance=HIGH,
            doc="jdbc:postgresql://HOST:PORT/DATABASE, jdbc:mariadb://..., jdbc:sqlite:PATH, jdbc:duckdb:PATH"),
    Setting("connection.user", default=None, doc="user of the database", importance=HIGH),
    Setting("connection.password", PASSWORD, None, "its password", HIGH),
)  # fmt: skip


class SqlSink(Sink):
    settings = (
        *CONNECTION,
        Setting("insert.mode", default="insert", choices=("insert", "upsert", "update"), importance=HIGH),
        Setting("pk.mode", default="none", choices=("none", "kafka", "record_key", "record_value"), importance=HIGH,
                doc="where the primary key comes from"),
        Setting("pk.fields", LIST, "", "names of the key's columns; all fields of the key or value if empty"),
        Setting("fields.whitelist", LIST, "", "fields of the value to write; all if empty"),
        Setting("table.name.format", default="${topic}", doc="the table; ${topic} is the topic's name"),
        Setting("auto.create", BOOLEAN, False, "create tables that are missing"),
        Setting("auto.evolve", BOOLEAN, False, "add columns that are missing"),
        Setting("delete.enabled", BOOLEAN, False, "a null value deletes the row; needs pk.mode=record_key", HIGH),
        Setting("batch.size", INT, 3000, "not used: a step's records are written together", LOW, least=1),
    )  # fmt: skip

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._connector = str(config.get("name") or "sql-sink")
        self._rule = KeyRule(
            config["pk.mode"],
            tuple(config["pk.fields"]),
            frozenset(config["fields.whitelist"]),
            config["delete.enabled"],
        )
        self._dialect: Dialect | None = None
        self._tables: dict[str, list[Group]] = {}  # what the step writes
        self._records: dict[str, list[SinkRecord]] = {}  # that it writes, to tell which of them is refused
        self._keeps_ids = False  # of topics: whether the database has the table
        self._identified: set[TopicPartition] = set()  # whose topic's id this object has stored

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        wrong = {}
        if config["delete.enabled"] and config["pk.mode"] != "record_key":
            wrong["delete.enabled"] = "deletes need the row's key: set pk.mode=record_key"
        if config["insert.mode"] != "insert" and config["pk.mode"] == "none":
            wrong["pk.mode"] = f"insert.mode={config['insert.mode']} needs a primary key: set pk.mode"
        return wrong

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._forget_step()
        with self._guarded() as database:
            database.begin()
            return database.lock_positions(self._connector, partitions)

    def replaced(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        with self._guarded() as database:
            kept = database.topic_ids(self._connector) if self._keeps_ids else {}
        ids = {where: self.topic_ids.get(where.topic) for where in partitions}
        return [where for where, own in ids.items() if own and kept.get(where, own) != own]

    def write(self, batch: SinkBatch) -> None:
        """Kept until `commit`: tables are created and altered before the transaction touches them. In the order of
        each partition; what different partitions write has different keys."""
        insert_mode = self.config["insert.mode"]
        records: dict[str, list[SinkRecord]] = {}
        for record in batch.records:
            records.setdefault(record.topic, []).append(record)
        new = {topic: grouped(of_topic, self._rule, insert_mode) for topic, of_topic in records.items()}
        for topic, groups in new.items():
            table = self.config["table.name.format"].replace("${topic}", topic)
            self._tables.setdefault(table, []).extend(groups)
            if self.refused is not None:
                self._records.setdefault(table, []).extend(records[topic])

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        with self._guarded() as database:
            for table, groups in self._tables.items():
                self._prepare(database, table, groups)
            for table, groups in self._tables.items():
                if self.refused is not None and database.has_savepoints:
                    self._apply_accepted(database, table, groups, self._records[table])
                else:
                    self._apply_all(database, table, groups)
            database.set_positions(self._connector, positions)
            new_ids = self._new_ids(positions)
            if new_ids:
                database.set_topic_ids(self._connector, new_ids)
            database.commit()
            self._identified |= new_ids.keys()
        self._forget_step()

    def rollback(self) -> None:
        self._forget_step()
        if self._dialect is not None:
            with self._guarded() as database:
                database.rollback()

    def forget(self, partitions: Sequence[TopicPartition] | None) -> None:
        with self._guarded() as database:
            database.begin()
            database.forget(POSITIONS, self._connector, partitions)
            if self._keeps_ids:
                database.forget(TOPIC_IDS, self._connector, partitions)
            database.commit()

    def close(self) -> None:
        if self._dialect is not None:
            self._dialect.close()
            self._dialect = None

    def _forget_step(self) -> None:
        self._tables, self._records = {}, {}

    def _new_ids(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, str]:
        """They do not change while a sink runs: each is stored once."""
        missing = positions.keys() - self._identified if self._keeps_ids else set()
        return {where: self.topic_ids[where.topic] for where in missing if where.topic in self.topic_ids}

    def _prepare(self, database: Dialect, table: str, groups: Sequence[Group]) -> None:
        """The table has every column that is needed, before the first row is touched."""
        there = database.columns_of(table)
        for group in groups:
            if not group.rows:
                continue
            if there is None:
                if not self.config["auto.create"]:
                    raise ConfigError(f"table {table} does not exist; create it, or set auto.create=true")
                database.create(table, group)
                there = {column.name for column in group.columns}
            missing = [column for column in group.columns if column.name not in there]
            if missing:
                if not self.config["auto.evolve"]:
                    names = ", ".join(column.name for column in missing)
                    raise ConfigError(f"table {table} has no column {names}; add it, or set auto.evolve=true")
                database.add_columns(table, missing)
                there |= {column.name for column in missing}

    def _apply_accepted(
        self, database: Dialect, table: str, groups: Sequence[Group], records: Sequence[SinkRecord]
    ) -> None:
        """All under a savepoint. If the database refuses a row: first one half of the records, then the other, down to
        the record that is refused. The rest stays in the step's transaction, with its positions."""
        database.execute("SAVEPOINT ottla_rows")
        try:
            self._apply_all(database, table, groups)
        except Exception as error:
            if self.refused is None or not database.is_refusal(error):
                raise
            database.execute("ROLLBACK TO SAVEPOINT ottla_rows")
            database.execute("RELEASE SAVEPOINT ottla_rows")
            if len(records) == 1:
                self.refused(records[0], DataError(f"table {table}: {' '.join(str(error).split())}"))
                return
        else:
            database.execute("RELEASE SAVEPOINT ottla_rows")
            return
        middle = len(records) // 2
        for half in (records[:middle], records[middle:]):
            again = grouped(half, self._rule, self.config["insert.mode"])
            self._apply_accepted(database, table, again, half)

    def _apply_all(self, database: Dialect, table: str, groups: Sequence[Group]) -> None:
        for group in groups:
            self._apply(database, table, group)

    def _apply(self, database: Dialect, table: str, group: Group) -> None:
        if group.is_emptied:
            if database.columns_of(table) is not None:
                database.empty(table)
            return
        if group.deleted and database.columns_of(table) is not None:
            database.delete(table, group)
        if group.rows:
            match self.config["insert.mode"]:
                case "upsert":
                    database.upsert(table, group)
                case "update":
                    database.update(table, group)
                case _:
                    database.insert(table, group)

    @contextmanager
    def _guarded(self) -> Iterator[Dialect]:
        """The database; after an error of its driver the next use connects again."""
        try:
            if self._dialect is None:
                self._dialect = self._connect()
            yield self._dialect
        except ConnectError:
            raise
        except Exception as error:
            database, self._dialect = self._dialect, None
            if database is None or not isinstance(error, database.errors()):
                raise
            database.close()
            where = self.config["connection.url"].split("?")[0]
            kind = RetriableError if database.is_away(error) else ConnectError
            raise kind(f"{where}: {' '.join(str(error).split())}") from error

    def _connect(self) -> Dialect:
        url = self.config["connection.url"]
        try:
            database = dialect(
                url, self.config["connection.user"], self.config.password("connection.password")
            )
        except ConfigError:
            raise
        except ImportError as error:
            raise ConfigError(f"the driver for {url.split('?')[0]} is not installed: {error}") from error
        except Exception as error:
            raise RetriableError(
                f"cannot connect to {url.split('?')[0]}: {' '.join(str(error).split())}"
            ) from error
        if database.columns_of(POSITIONS) is None:
            database.create_positions()
        self._keeps_ids = self._has_topic_ids(database)
        return database

    def _has_topic_ids(self, database: Dialect) -> bool:
        """A user who may not create the table works on without it, as before there was one."""
        if database.columns_of(TOPIC_IDS) is None:
            try:
                database.create_topic_ids()
            except database.errors() as error:
                log.warning("connector %s: no table %s: %s", self._connector, TOPIC_IDS, error)
        return database.columns_of(TOPIC_IDS) is not None
