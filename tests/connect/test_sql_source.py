"""The source that polls tables: every row once, whatever the batches, in all databases."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import schema as schemas
from ottla.connect.errors import ConfigError, ConnectError
from ottla.connect.spi import Config, Limit
from ottla.connect.sql.dialects import dialect
from ottla.connect.sql.source import SqlSource

DATABASES = ("sqlite", "duckdb", "postgresql", "mariadb")
CREATE = (
    "CREATE TABLE visit (id INTEGER NOT NULL PRIMARY KEY, moment TIMESTAMP{} NOT NULL, note VARCHAR(40),"
    " price DECIMAL(8, 2))"
)


class Database:
    def __init__(self, url: str, user: str | None) -> None:
        self.url, self.user = url, user
        self.run(CREATE.format("(6)" if "mariadb" in url else ""))

    def run(self, *statements: str) -> None:
        database = dialect(self.url, self.user, None)
        for statement in statements:
            database.execute(statement)
        database.close()

    def insert(self, *rows: tuple[int, str]) -> None:
        values = ", ".join(f"({number}, '{at}', 'note {number}', 1.5)" for number, at in rows)
        self.run(f"INSERT INTO visit VALUES {values}")


class Reading:
    """Steps as the framework does them, with the offset through JSON."""

    def __init__(self, database: Database, **settings: str) -> None:
        given = {"connection.url": database.url, "topic.prefix": "db-", "poll.interval.ms": "1"}
        if database.user:
            given["connection.user"] = database.user
        given |= {name.replace("_", "."): value for name, value in settings.items()}
        given["mode"] = given.get("mode", "incrementing")
        self.source = SqlSource(Config(given, SqlSource.settings))
        self.offset: Any = None

    def all(self, steps: int = 50) -> list[dict[str, Any]]:
        values: list[dict[str, Any]] = []
        (partition,) = self.source.partitions()
        for _ in range(steps):
            self.source._empty_at.clear()
            batch = self.source.read(partition, self.offset, Limit())
            if batch is None:
                break
            self.offset = json.loads(json.dumps(batch.offset))
            values += [record.value for record in batch.records]
        self.source.close()
        return values


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    name = f"source_{uuid.uuid4().hex[:12]}"
    if request.param in ("sqlite", "duckdb"):
        yield Database(f"jdbc:{request.param}:{tmp_path / name}", None)
        return
    server = request.getfixturevalue("postgres" if request.param == "postgresql" else "mariadb")
    server.new_database(name)
    yield Database(
        f"jdbc:{request.param}://127.0.0.1:{server.port}/{name}",
        "postgres" if request.param == "postgresql" else "root",
    )


def test_rows_with_higher_numbers_come_once(database):
    reading = Reading(database, table_whitelist="visit", incrementing_column_name="id", batch_max_rows="2")
    assert reading.all() == []
    database.insert(*((i, "2024-01-01 10:00:00") for i in range(1, 6)))
    assert [row["id"] for row in reading.all()] == [1, 2, 3, 4, 5]
    database.insert((9, "2024-01-01 10:00:00"))
    assert [row["id"] for row in reading.all()] == [9]


def test_rows_changed_later_come_again_and_rows_of_one_time_stay_together(database):
    reading = Reading(
        database,
        mode="timestamp",
        table_whitelist="visit",
        timestamp_column_name="moment",
        batch_max_rows="2",
    )
    database.insert(
        (1, "2024-01-01 10:00:00"),
        *((i, "2024-01-01 10:00:01.000001") for i in (2, 3, 4)),
        (5, "2024-01-01 11:00:00"),
    )
    assert sorted(row["id"] for row in reading.all()) == [1, 2, 3, 4, 5]
    database.run("UPDATE visit SET moment = '2024-01-02 00:00:00' WHERE id = 2")
    assert [row["id"] for row in reading.all()] == [2]
    assert reading.all() == []


def test_time_and_number_together_leave_nothing_out(database):
    reading = Reading(
        database, mode="timestamp+incrementing", table_whitelist="visit", timestamp_column_name="moment",
        incrementing_column_name="id", batch_max_rows="2",
    )  # fmt: skip
    database.insert(*((i, "2024-01-01 10:00:00.5") for i in range(1, 8)))
    assert [row["id"] for row in reading.all()] == list(range(1, 8))
    database.insert((8, "2024-01-01 10:00:00.5"))
    database.run("UPDATE visit SET moment = '2024-01-01 10:00:01' WHERE id = 3")
    assert [row["id"] for row in reading.all()] == [8, 3]


def test_rows_of_the_future_wait(database):
    reading = Reading(database, mode="timestamp", table_whitelist="visit", timestamp_column_name="moment")
    database.insert((1, "2024-01-01 10:00:00"), (2, "2037-01-01 00:00:00"))
    assert [row["id"] for row in reading.all()] == [1]


def test_bulk_brings_all_rows_again_after_the_interval(database):
    reading = Reading(database, mode="bulk", table_whitelist="visit", poll_interval_ms="100000000")
    database.insert((1, "2024-01-01 10:00:00"), (2, "2024-01-01 10:00:00"))
    assert [row["id"] for row in reading.all()] == [1, 2]
    assert reading.all() == []
    reading.offset["polled_ms"] = 0
    assert [row["id"] for row in reading.all()] == [1, 2]
    assert reading.offset["bulk"] == 2


def test_a_query_is_read_like_a_table(database):
    reading = Reading(
        database, query="SELECT id, note FROM visit WHERE id <> 2", incrementing_column_name="id"
    )
    database.insert(*((i, "2024-01-01 10:00:00") for i in (1, 2, 3)))
    assert reading.all() == [{"id": 1, "note": "note 1"}, {"id": 3, "note": "note 3"}]


def test_values_fit_their_schema(database):
    database.insert((1, "2024-02-29 10:00:00.25"))
    reading = Reading(database, table_whitelist="visit", incrementing_column_name="id")
    (partition,) = reading.source.partitions()
    record = reading.source.read(partition, None, Limit()).records[0]
    reading.source.close()
    assert record.topic == "db-visit"
    schemas.check(record.value_schema, record.value)
    assert record.value["moment"] == datetime(2024, 2, 29, 10, 0, 0, 250000, tzinfo=UTC)
    assert (
        not record.value_schema.field("id").schema.optional
        and record.value_schema.field("note").schema.optional
    )


def test_rows_without_a_number_are_left_out_or_refused(database):
    """Confluent's source asks for numbers above -1, and refuses a null that a time brings along."""
    database.run("CREATE TABLE loose (id INTEGER, moment TIMESTAMP NULL, note VARCHAR(40))")
    database.run("INSERT INTO loose VALUES (NULL, '2024-01-01 10:00:00', 'a')")
    reading = Reading(database, table_whitelist="loose", incrementing_column_name="id")
    assert reading.all() == []
    database.run("INSERT INTO loose VALUES (-5, NULL, 'b'), (NULL, NULL, 'c'), (2, NULL, 'd')")
    assert [row["note"] for row in reading.all()] == ["b", "d"]
    both = Reading(
        database, mode="timestamp+incrementing", table_whitelist="loose", timestamp_column_name="moment",
        incrementing_column_name="id",
    )  # fmt: skip
    with pytest.raises(ConnectError, match=r"column id, which incrementing\.column\.name names, has a null"):
        both.all()
    both.source.close()


def test_mistakes_in_settings_are_named(database):
    with pytest.raises(ConfigError, match="nothing_like_it, which does not exist"):
        Reading(database, table_whitelist="nothing_like_it", incrementing_column_name="id").all()
    with pytest.raises(ConfigError, match="visit has no column number"):
        Reading(database, table_whitelist="visit", incrementing_column_name="number").all()
    settings = {"connection.url": "jdbc:sqlite:x", "mode": "timestamp", "topic.prefix": "p"}
    assert set(SqlSource.check(Config(settings, SqlSource.settings))) == {
        "timestamp.column.name",
        "table.whitelist",
    }
