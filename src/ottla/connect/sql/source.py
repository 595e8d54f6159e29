"""The source that polls: rows with a higher number, a later time, both, or all of them, with JDBC's setting names."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from ottla.connect.errors import ConfigError, ConnectError, RetriableError
from ottla.connect.schema import Schema
from ottla.connect.settings import HIGH, INT, LIST, LONG, Setting
from ottla.connect.spi import Batch, Config, Json, Limit, Source, SourceRecord
from ottla.connect.sql.dialects import Dialect, dialect
from ottla.connect.sql.reading import query_schema, table_schema, value_of
from ottla.connect.sql.sink import CONNECTION

_EPOCH = datetime(1970, 1, 1)
_CLOCKS = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    "mariadb": "UTC_TIMESTAMP(6)",
    "duckdb": "CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP)",
    "postgresql": "now() AT TIME ZONE 'UTC'",
}


class SqlSource(Source):
    settings = (
        *CONNECTION,
        Setting("mode", choices=("bulk", "incrementing", "timestamp", "timestamp+incrementing"), importance=HIGH),
        Setting("incrementing.column.name", default="", doc="a column whose numbers only grow"),
        Setting("timestamp.column.name", default="", doc="a column with the time of the row's last change"),
        Setting("table.whitelist", LIST, "", "tables to read, as NAME or SCHEMA.NAME", HIGH),
        Setting("query", default="", doc="a SELECT to read instead of tables"),
        Setting("topic.prefix", doc="rows go to PREFIX + table; of a query, to PREFIX", importance=HIGH),
        Setting("poll.interval.ms", INT, 5000, "how often a table is asked for new rows", least=1),
        Setting("batch.max.rows", INT, 10_000, "rows of one batch", least=1),
        Setting("timestamp.delay.interval.ms", LONG, 0, "how old a row must be", least=0),
    )  # fmt: skip

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._database: Dialect | None = None
        self._empty_at: dict[str, float] = {}
        mode = config["mode"]
        self._number = config["incrementing.column.name"] if "incrementing" in mode else ""
        self._time = config["timestamp.column.name"] if "timestamp" in mode else ""

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        wrong = {}
        if "incrementing" in config["mode"] and not config["incrementing.column.name"]:
            wrong["incrementing.column.name"] = f"mode={config['mode']} needs incrementing.column.name"
        if "timestamp" in config["mode"] and not config["timestamp.column.name"]:
            wrong["timestamp.column.name"] = f"mode={config['mode']} needs timestamp.column.name"
        if bool(config["query"]) == bool(config["table.whitelist"]):
            wrong["table.whitelist"] = "name the tables in table.whitelist, or set query; one of the two"
        return wrong

    def partitions(self) -> Iterable[Json]:
        if self.config["query"]:
            return [{"query": "query"}]
        return [{"protocol": "1", "table": table} for table in self.config["table.whitelist"]]

    def read(self, partition: Json, offset: Json | None, limit: Limit) -> Batch | None:
        table = partition.get("table", "")
        if time.monotonic() - self._empty_at.get(table, -1e9) < self.config["poll.interval.ms"] / 1000:
            return None
        with self._guarded() as database:
            batch = (
                self._bulk(database, table, offset)
                if self.config["mode"] == "bulk"
                else self._new(
                    database, table, offset or {}, min(limit.records, self.config["batch.max.rows"])
                )
            )
        if batch is None or self.config["mode"] == "bulk":
            self._empty_at[table] = time.monotonic()
        return batch

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    # -- all rows ----------------------------------------------------------------------------------

    def _bulk(self, database: Dialect, table: str, offset: Json | None) -> Batch | None:
        """Every time all of them. The offset counts, and tells another process when the last time was."""
        now_ms = time.time_ns() // 1_000_000
        last_ms = (offset or {}).get("polled_ms", 0)
        if 0 <= now_ms - last_ms < self.config["poll.interval.ms"]:
            return None
        schema, rows = self._rows(database, table, "", [], "")
        times = (offset or {}).get("bulk", 0) + 1
        return Batch(self._records(table, schema, rows), {"bulk": times, "polled_ms": now_ms})

    # -- new rows ----------------------------------------------------------------------------------

    def _new(self, database: Dialect, table: str, offset: Json, rows_max: int) -> Batch | None:
        conditions, parameters = self._conditions(database, offset)
        order = ", ".join(database.quoted(name) for name in (self._time, self._number) if name)
        suffix = f" ORDER BY {order} LIMIT {rows_max + 1}"
        schema, rows = self._rows(database, table, conditions, parameters, suffix)
        if len(rows) > rows_max and not self._number:
            schema, rows = self._whole_times(database, table, schema, rows, rows_max)
        rows = rows[:rows_max] if self._number else rows
        if not rows:
            return None
        if self._number and any(row[self._number] is None for row in rows):
            raise ConnectError(
                f"column {self._number}, which incrementing.column.name names, has a null: where to go on would not be"
                " known; give the row a number, or use mode=timestamp"
            )
        return Batch(self._records(table, schema, rows), self._offset_behind(rows[-1]))

    def _whole_times(
        self, database: Dialect, table: str, schema: Schema, rows: list[dict[str, Any]], rows_max: int
    ) -> tuple[Schema, list[dict[str, Any]]]:
        """Rows of one time stay together: the next poll asks for later ones. A time with too many rows comes whole."""
        last = rows[rows_max][self._time]
        earlier = [row for row in rows if row[self._time] < last]
        if earlier:
            return schema, earlier
        return self._rows(
            database,
            table,
            f" WHERE {database.quoted(self._time)} = {database.mark}",
            [self._bound(last)],
            "",
        )

    def _conditions(self, database: Dialect, offset: Json) -> tuple[str, list[Any]]:
        mark, number, when = database.mark, database.quoted(self._number), database.quoted(self._time)
        parts: list[str] = []
        parameters: list[Any] = []
        if self._time:
            delay = timedelta(milliseconds=self.config["timestamp.delay.interval.ms"])
            parts.append(f"{when} < {mark}")
            parameters.append(self._bound(self._now(database) - delay))
        after = _time_of(offset)
        if self._time and after is not None:
            if self._number and "incrementing" in offset:
                parts.append(f"(({when} = {mark} AND {number} > {mark}) OR {when} > {mark})")
                parameters += [self._bound(after), offset["incrementing"], self._bound(after)]
            else:
                parts.append(f"{when} > {mark}")
                parameters.append(self._bound(after))
        elif self._number and "incrementing" in offset:
            parts.append(f"{number} > {mark}")
            parameters.append(offset["incrementing"])
        elif self._number and not self._time:
            parts.append(f"{number} IS NOT NULL")  # as at every later poll: no number is less than NULL
        return (f" WHERE {' AND '.join(parts)}" if parts else ""), parameters

    def _now(self, database: Dialect) -> datetime:
        """The database's clock, in UTC."""
        text = _CLOCKS[database.name]
        value = database.execute(f"SELECT {text}")[0][0]
        return datetime.fromisoformat(value) if isinstance(value, str) else value

    def _bound(self, moment: Any) -> Any:
        """SQLite has times as texts, and they are compared as they were written."""
        if isinstance(moment, str):
            return moment
        is_sqlite = self._database is not None and self._database.name == "sqlite"
        return moment.isoformat(" ", "microseconds") if is_sqlite else moment

    def _offset_behind(self, row: dict[str, Any]) -> Json:
        offset: Json = {}
        if self._number:
            offset["incrementing"] = int(row[self._number])
        if self._time:
            value = row[self._time]
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
            if moment.tzinfo is not None:
                moment = moment.astimezone(UTC).replace(tzinfo=None)
            micros = (moment - _EPOCH) // timedelta(microseconds=1)
            offset |= {"timestamp": micros // 1000, "timestamp_nanos": micros % 1_000_000 * 1000}
            if isinstance(value, str):
                offset["timestamp_text"] = value
        return offset

    # -- rows --------------------------------------------------------------------------------------

    def _rows(
        self, database: Dialect, table: str, where: str, parameters: list[Any], suffix: str
    ) -> tuple[Schema, list[dict[str, Any]]]:
        if self.config["query"]:
            inner = f"SELECT * FROM ({self.config['query']}) q{where}{suffix}"
            names, rows = database.query(inner, parameters)
            return query_schema(names, rows), [dict(zip(names, row, strict=True)) for row in rows]
        schema = table_schema(database, table)
        if schema is None:
            raise ConfigError(f"table.whitelist names {table}, which does not exist")
        for column in filter(None, (self._number, self._time)):
            if schema.field(column) is None:
                raise ConfigError(f"table {table} has no column {column}")
        names, rows = database.query(f"SELECT * FROM {database.identifier(table)}{where}{suffix}", parameters)
        return schema, [dict(zip(names, row, strict=True)) for row in rows]

    def _records(self, table: str, schema: Schema, rows: list[dict[str, Any]]) -> list[SourceRecord]:
        topic = self.config["topic.prefix"] + table.rpartition(".")[2]
        fields = [(field.name, field.schema) for field in schema.fields]
        return [
            SourceRecord(
                topic, {name: value_of(field_schema, row.get(name)) for name, field_schema in fields}, schema
            )
            for row in rows
        ]

    @contextmanager
    def _guarded(self) -> Iterator[Dialect]:
        url = self.config["connection.url"]
        shown = url.split("?")[0]
        try:
            if self._database is None:
                self._database = dialect(
                    url, self.config["connection.user"], self.config.password("connection.password")
                )
            yield self._database
        except ConnectError:
            raise
        except ImportError as error:
            raise ConfigError(f"the driver for {shown} is not installed: {error}") from error
        except Exception as error:
            is_driver = self._database is None or isinstance(error, self._database.errors())
            self.close()
            if is_driver:
                raise RetriableError(f"{shown}: {' '.join(str(error).split())}") from error
            raise


def _time_of(offset: Json) -> Any:
    if "timestamp" not in offset:
        return None
    if "timestamp_text" in offset:
        return offset["timestamp_text"]
    seconds, millis = divmod(offset["timestamp"], 1000)
    micros = offset.get("timestamp_nanos", millis * 1_000_000) // 1000
    return _EPOCH + timedelta(seconds=seconds, microseconds=micros)
