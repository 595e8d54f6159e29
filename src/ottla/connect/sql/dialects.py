"""What databases have in common, and what each does in its own way. One connection, one transaction at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ottla.client.values import TopicPartition
from ottla.connect.errors import ConfigError, ConnectError
from ottla.connect.sql import columns as kinds
from ottla.connect.sql.columns import Column
from ottla.connect.sql.rows import Group

POSITIONS = "ottla_connect_positions"
TOPIC_IDS = (
    "ottla_connect_topic_ids"  # a table of its own: workers that do not know it write positions as before
)


class Dialect(ABC):
    """The parts that are the same for all; a subclass has `name`, `types`, the driver's calls and what differs."""

    name = ""
    quote = '"'
    mark = "?"  # of a parameter
    types: ClassVar[Mapping[str, str]] = {}
    default_decimal = "DECIMAL(38, 10)"
    text_key = "TEXT"  # the type of a text column in a primary key
    bytes_key = "BLOB"
    exact_text = ""  # what a text column needs, after its type, to tell upper from lower case
    lock = ""  # what keeps others from the positions that a step has read
    has_savepoints = True

    # -- the driver --------------------------------------------------------------------------------

    def begin(self) -> None:
        self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")

    @abstractmethod
    def rollback(self) -> None: ...

    @abstractmethod
    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def query(
        self, statement: str, parameters: Sequence[Any] = ()
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The names of the columns, and the rows."""

    @abstractmethod
    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None: ...

    def define(self, statement: str) -> None:
        """CREATE and ALTER: in the transaction, where the database has them in transactions."""
        self.execute(statement)

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def is_away(self, error: Exception) -> bool:
        """Whether the same may work later."""

    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]: ...

    def is_refusal(self, error: Exception) -> bool:
        """Whether a row is wrong for its table, so that the same row fails every time. Drivers refuse a value that they
        cannot encode with the errors of Python."""
        return isinstance(error, ValueError | ArithmeticError)

    # -- names and types ---------------------------------------------------------------------------

    def identifier(self, name: str) -> str:
        """`schema.table` names a table in a schema."""
        return ".".join(
            self.quote + part.replace(self.quote, self.quote * 2) + self.quote for part in name.split(".", 1)
        )

    def quoted(self, name: str) -> str:
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def type_of(self, column: Column, *, in_key: bool = False) -> str:
        if (
            in_key
            and column.kind in (kinds.TEXT, kinds.UUID, kinds.JSON)
            and self.types[column.kind] == self.types[kinds.TEXT]
        ):
            return self.text_key
        if in_key and column.kind == kinds.BYTES:
            return self.bytes_key
        if column.kind == kinds.DECIMAL:
            return "DECIMAL({}, {})".format(*column.precision) if column.precision else self.default_decimal
        return self.types[column.kind]

    def literal(self, value: Any) -> str:
        """A constant in a column's definition."""
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int | float) or type(value).__name__ == "Decimal":
            return str(value)
        if isinstance(value, bytes):
            return self.bytes_literal(value)
        return "'" + str(value).replace("'", "''") + "'"

    def bytes_literal(self, value: bytes) -> str:
        return f"X'{value.hex()}'"

    # -- tables ------------------------------------------------------------------------------------

    @abstractmethod
    def columns_of(self, table: str) -> set[str] | None:
        """The names of a table's columns; None if there is no such table."""

    def create(self, table: str, group: Group) -> None:
        lines = [self._definition(column, column.name in group.key) for column in group.columns]
        if group.key:
            lines.append(f"PRIMARY KEY ({', '.join(map(self.quoted, group.key))})")
        self.define(f"CREATE TABLE IF NOT EXISTS {self.identifier(table)} ({', '.join(lines)})")

    def add_columns(self, table: str, added: Sequence[Column]) -> None:
        for column in added:
            if column.is_required and column.default is None:
                raise ConnectError(
                    f"cannot add column {column.name} to {table}: it is required and has no default, so the rows of now"
                    " would have no value; make the field optional, or add the column by hand"
                )
            self.define(f"ALTER TABLE {self.identifier(table)} ADD COLUMN {self._definition(column, False)}")

    def _definition(self, column: Column, in_key: bool) -> str:
        parts = [self.quoted(column.name), self.type_of(column, in_key=in_key)]
        if column.default is not None and column.kind not in (kinds.JSON, kinds.BYTES):
            parts.append(f"DEFAULT {self.literal(column.default)}")
        if column.is_required:
            parts.append("NOT NULL")
        return " ".join(parts)

    # -- rows --------------------------------------------------------------------------------------

    def empty(self, table: str) -> None:
        self.execute(f"DELETE FROM {self.identifier(table)}")

    def delete(self, table: str, group: Group) -> None:
        condition = " AND ".join(f"{self.quoted(name)} = {self.mark}" for name in group.key)
        self.execute_many(f"DELETE FROM {self.identifier(table)} WHERE {condition}", group.deleted)

    def insert(self, table: str, group: Group) -> None:
        self.execute_many(self._insert(table, group), group.rows.values())

    def upsert(self, table: str, group: Group) -> None:
        self.execute_many(f"{self._insert(table, group)} {self._on_conflict(group)}", group.rows.values())

    def update(self, table: str, group: Group) -> None:
        rest = [column.name for column in group.columns if column.name not in group.key]
        changes = ", ".join(f"{self.quoted(name)} = {self.mark}" for name in rest)
        condition = " AND ".join(f"{self.quoted(name)} = {self.mark}" for name in group.key)
        names = [column.name for column in group.columns]
        order = [names.index(name) for name in (*rest, *group.key)]
        rows = [[row[place] for place in order] for row in group.rows.values()]
        self.execute_many(f"UPDATE {self.identifier(table)} SET {changes} WHERE {condition}", rows)

    def _insert(self, table: str, group: Group) -> str:
        names = ", ".join(self.quoted(column.name) for column in group.columns)
        marks = ", ".join([self.mark] * len(group.columns))
        return f"INSERT INTO {self.identifier(table)} ({names}) VALUES ({marks})"

    def _on_conflict(self, group: Group) -> str:
        rest = [self.quoted(column.name) for column in group.columns if column.name not in group.key]
        keys = ", ".join(map(self.quoted, group.key))
        if not rest:
            return f"ON CONFLICT ({keys}) DO NOTHING"
        return f"ON CONFLICT ({keys}) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in rest)}"

    # -- positions ---------------------------------------------------------------------------------

    def create_positions(self) -> None:
        self.define(
            f"CREATE TABLE IF NOT EXISTS {POSITIONS} (connector VARCHAR(200){self.exact_text} NOT NULL,"
            f" topic VARCHAR(249){self.exact_text} NOT NULL,"
            " part INTEGER NOT NULL, position BIGINT NOT NULL, PRIMARY KEY (connector, topic, part))"
        )

    def lock_positions(
        self, connector: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The next offset of each partition, 0 for one that is new; held until the transaction ends."""
        add = self._add_missing(POSITIONS)
        self.execute_many(add, [(connector, topic, part, -1) for topic, part in sorted(partitions)])
        positions = {}
        ask = (
            f"SELECT position FROM {POSITIONS} WHERE connector = {self.mark} AND topic = {self.mark} AND"
            f" part = {self.mark} {self.lock}"
        )
        for topic, part in sorted(partitions):
            rows = self.execute(ask, (connector, topic, part))
            if rows and rows[0][0] >= 0:
                positions[TopicPartition(topic, part)] = int(rows[0][0])
        return positions

    def _add_missing(self, table: str) -> str:
        marks = ", ".join([self.mark] * 4)
        return f"INSERT INTO {table} VALUES ({marks}) ON CONFLICT DO NOTHING"

    def set_positions(self, connector: str, positions: Mapping[TopicPartition, int]) -> None:
        self.execute_many(
            f"UPDATE {POSITIONS} SET position = {self.mark} WHERE connector = {self.mark} AND topic = {self.mark} AND"
            f" part = {self.mark}",
            [(position, connector, topic, part) for (topic, part), position in sorted(positions.items())],
        )

    def forget(self, table: str, connector: str, partitions: Sequence[TopicPartition] | None) -> None:
        """Of `POSITIONS` or `TOPIC_IDS`."""
        if partitions is None:
            self.execute(f"DELETE FROM {table} WHERE connector = {self.mark}", (connector,))
            return
        condition = f"connector = {self.mark} AND topic = {self.mark} AND part = {self.mark}"
        self.execute_many(
            f"DELETE FROM {table} WHERE {condition}",
            [(connector, *partition) for partition in partitions],
        )

    # -- the ids of the topics that positions are of -------------------------------------------------

    def create_topic_ids(self) -> None:
        self.define(
            f"CREATE TABLE IF NOT EXISTS {TOPIC_IDS} (connector VARCHAR(200){self.exact_text} NOT NULL,"
            f" topic VARCHAR(249){self.exact_text} NOT NULL,"
            " part INTEGER NOT NULL, topic_id VARCHAR(32) NOT NULL, PRIMARY KEY (connector, topic, part))"
        )

    def topic_ids(self, connector: str) -> dict[TopicPartition, str]:
        rows = self.execute(
            f"SELECT topic, part, topic_id FROM {TOPIC_IDS} WHERE connector = {self.mark}", (connector,)
        )
        return {TopicPartition(topic, part): topic_id for topic, part, topic_id in rows}

    def set_topic_ids(self, connector: str, topic_ids: Mapping[TopicPartition, str]) -> None:
        rows = [(connector, topic, part, topic_id) for (topic, part), topic_id in sorted(topic_ids.items())]
        self.execute_many(self._add_missing(TOPIC_IDS), rows)
        self.execute_many(
            f"UPDATE {TOPIC_IDS} SET topic_id = {self.mark} WHERE connector = {self.mark} AND topic = {self.mark} AND"
            f" part = {self.mark}",
            [(topic_id, *where) for *where, topic_id in rows],
        )


def dialect(url: str, user: str | None, password: str | None) -> Dialect:
    """`jdbc:postgresql://host:port/database?name=value`, `jdbc:sqlite:path`; `jdbc:` may be left out."""
    kind, separator, rest = url.removeprefix("jdbc:").partition(":")
    match kind if separator else "":
        case "postgresql" | "postgres":
            from ottla.connect.sql.postgresql import PostgresDialect

            return PostgresDialect(rest, user, password)
        case "mariadb" | "mysql":
            from ottla.connect.sql.mariadb import MariaDialect

            return MariaDialect(rest, user, password)
        case "sqlite":
            from ottla.connect.sql.embedded import SqliteDialect

            return SqliteDialect(rest)
        case "duckdb":
            from ottla.connect.sql.embedded import DuckDialect

            return DuckDialect(rest)
    raise ConfigError(
        f"connection.url={url.split('?')[0]} is of no known database; use jdbc:postgresql:, jdbc:mariadb:, jdbc:mysql:,"
        " jdbc:sqlite: or jdbc:duckdb:"
    )
