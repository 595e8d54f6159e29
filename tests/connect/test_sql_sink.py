"""The SQL sink in all its databases: tables equal the topic's truth, whatever fails and is tried again."""

from __future__ import annotations

import random
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
import pytest

from ottla.client.values import TopicPartition
from ottla.connect import schema as schemas
from ottla.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from ottla.connect.schema import Schema
from ottla.connect.spi import Config, SinkBatch, SinkRecord
from ottla.connect.sql.columns import column
from ottla.connect.sql.dialects import Dialect, dialect
from ottla.connect.sql.mariadb import MariaDialect
from ottla.connect.sql.rows import Group, KeyRule, grouped
from ottla.connect.sql.sink import SqlSink

KEY = schemas.struct("Key", {"id": schemas.integer()})
VALUE = schemas.struct("Value", {"id": schemas.integer(), "name": schemas.string(optional=True)})
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true", "auto.create": "true"}
DATABASES = ("sqlite", "duckdb", "postgresql", "mariadb")
SAVEPOINTS = ("sqlite", "postgresql", "mariadb")  # DuckDB has none


@dataclass
class Store:
    url: str
    user: str | None = None

    def sink(self, **more: str) -> SqlSink:
        settings = {
            "name": "sink",
            "connection.url": self.url,
            **{name.replace("_", "."): each for name, each in more.items()},
        }
        if self.user:
            settings["connection.user"] = self.user
        return SqlSink(Config(settings, SqlSink.settings))

    def upserting(self, **more: str) -> SqlSink:
        return self.sink(**{name.replace(".", "_"): value for name, value in UPSERT.items()}, **more)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        database: Dialect = dialect(self.url, self.user, None)
        try:
            return database.execute(statement)
        finally:
            database.close()


@pytest.fixture(params=DATABASES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    name = f"sink_{uuid.uuid4().hex[:12]}"
    match request.param:
        case "sqlite" | "duckdb":
            yield Store(f"jdbc:{request.param}:{tmp_path / name}")
        case "postgresql":
            server = request.getfixturevalue("postgres")
            server.new_database(name)
            yield Store(f"jdbc:postgresql://127.0.0.1:{server.port}/{name}", "postgres")
        case _:
            server = request.getfixturevalue("mariadb")
            server.new_database(name)
            yield Store(f"jdbc:mariadb://127.0.0.1:{server.port}/{name}", "root")


def a_record(
    offset: int, key: int | None, value: dict[str, Any] | None, part: int = 0, schema: Schema = VALUE
) -> SinkRecord:
    return SinkRecord(
        "people", part, offset, value, None if value is None else schema, None if key is None else {"id": key},
        None if key is None else KEY,
    )  # fmt: skip


def step(sink: SqlSink, records: list[SinkRecord], part: int = 0) -> None:
    """As the framework does it: what is below the stored position is not written again."""
    where = TopicPartition("people", part)
    begin = sink.positions([where]).get(where, 0)
    rest = [record for record in records if record.offset >= begin]
    end = records[-1].offset + 1 if records else begin
    sink.write(SinkBatch(where, lambda: rest, begin, end, None))
    sink.commit({where: max(begin, end)})


def test_rows_are_inserted_updated_and_deleted(store):
    sink = store.upserting()
    step(sink, [a_record(0, 1, {"id": 1, "name": "Eva"}), a_record(1, 2, {"id": 2, "name": None})])
    step(
        sink,
        [
            a_record(2, 1, {"id": 1, "name": "Ida"}),
            a_record(3, 2, None),
            a_record(4, 3, {"id": 3, "name": "x"}),
        ],
    )
    sink.close()
    assert store.rows("SELECT id, name FROM people ORDER BY id") == [(1, "Ida"), (3, "x")]


def test_a_step_that_is_repeated_changes_nothing(store):
    records = [
        a_record(0, 1, {"id": 1, "name": "Eva"}),
        a_record(1, 1, None),
        a_record(2, 2, {"id": 2, "name": "b"}),
    ]
    for _ in range(3):
        sink = store.sink(
            auto_create="true", pk_mode="kafka"
        )  # every record is a row: one written twice would show
        step(sink, [record for record in records if record.value is not None])
        sink.close()
    assert len(store.rows("SELECT * FROM people")) == 2


def replaced(sink: SqlSink, topic_id: str) -> list[TopicPartition]:
    sink.topic_ids = {"people": topic_id}
    known = list(sink.positions([TopicPartition("people", part) for part in (0, 1)]))
    found = sorted(sink.replaced(known))
    sink.rollback()
    sink.close()
    return found


def test_positions_know_the_topic_that_they_are_of(store):
    this, other, where = "0123456789abcdef" * 2, "fedcba9876543210" * 2, TopicPartition("people", 0)
    step(store.upserting(), [a_record(0, 1, {"id": 1, "name": "before ids"})])
    assert replaced(store.upserting(), other) == []  # of any topic
    for topic_id in (other, this):  # the last one that was written counts
        sink = store.upserting()
        sink.topic_ids = {"people": topic_id}
        for offset in (1, 2):
            step(sink, [a_record(offset, 1, {"id": 1, "name": "x"})])
        sink.close()
    assert replaced(store.upserting(), this) == []
    assert replaced(store.upserting(), other) == [where]
    sink = store.upserting()
    sink.forget([where])
    sink.close()
    assert replaced(store.upserting(), other) == []
    assert store.rows("SELECT * FROM ottla_connect_topic_ids") == []


def test_a_user_who_may_not_create_the_table_of_topic_ids_works_on_without(tmp_path, monkeypatch):
    def refuse(self: Dialect) -> None:
        raise sqlite3.OperationalError("permission denied")

    monkeypatch.setattr(Dialect, "create_topic_ids", refuse)
    store = Store(f"jdbc:sqlite:{tmp_path}/rows")
    sink = store.upserting()
    sink.topic_ids = {"people": "a" * 32}
    step(sink, [a_record(0, 1, {"id": 1, "name": "Eva"})])
    sink.close()
    assert replaced(store.upserting(), "b" * 32) == []
    sink = store.upserting()
    sink.forget(None)
    sink.close()
    assert store.rows("SELECT name FROM people") == [("Eva",)]


def test_a_step_that_fails_leaves_nothing_behind(store):
    sink = store.upserting()
    step(sink, [a_record(0, 1, {"id": 1, "name": "Eva"})])
    where = TopicPartition("people", 0)
    assert sink.positions([where]) == {where: 1}
    sink.write(SinkBatch(where, lambda: [a_record(1, 1, {"id": 1, "name": "lost"})], 1, 2, None))
    sink.rollback()
    sink.close()
    again = store.upserting()
    assert again.positions([where]) == {where: 1}
    again.rollback()
    again.close()
    assert store.rows("SELECT name FROM people") == [("Eva",)]


def test_tables_equal_the_truth_after_random_failures(store):
    """Steps that are cut before or behind the commit, repeated by another object, from an older position."""
    chance = random.Random(7)
    truth: dict[int, str] = {}
    log: list[SinkRecord] = []
    for offset in range(600):
        key = chance.randrange(40)
        if chance.random() < 0.3 and key in truth:
            del truth[key]
            log.append(a_record(offset, key, None))
        else:
            truth[key] = f"name {offset}"
            log.append(a_record(offset, key, {"id": key, "name": truth[key]}))
    where, at, done = TopicPartition("people", 0), 0, 0
    sink = store.upserting()
    while done < len(log):
        done = sink.positions([where]).get(where, 0)
        assert done >= at
        at = done
        records = log[done : done + chance.randrange(1, 60)]
        sink.write(SinkBatch(where, partial(list, records), done, done + len(records), None))
        fate = chance.random()
        if fate < 0.2:
            sink.rollback()
        elif fate < 0.4:
            sink.close()  # as if the process had died: the transaction goes with its connection
            sink = store.upserting()
        else:
            sink.commit({where: done + len(records)})
    sink.close()
    assert dict(store.rows("SELECT id, name FROM people")) == truth


EVERYTHING: dict[str, tuple[Schema, Any, Callable[[Any], Any]]] = {
    "flag": (Schema(schemas.BOOLEAN), True, bool),
    "tiny": (schemas.integer(8), -3, int),
    "small": (schemas.integer(16), 300, int),
    "whole": (schemas.integer(32), 2**31 - 1, int),
    "big": (schemas.integer(64), -(2**63), int),
    "single": (Schema(schemas.FLOAT32), 1.5, float),
    "twice": (Schema(schemas.FLOAT64), -2.25e100, float),
    "words": (schemas.string(), 'Zoë\'s "words" \\ \t\n', str),
    "bytes": (Schema(schemas.BYTES), b"\x00\xff", bytes),
    "exact": (schemas.decimal(2), Decimal("12345.60"), lambda value: Decimal(str(value)).quantize(Decimal("0.01"))),
    "day": (schemas.day(), date(2024, 2, 29), lambda value: date.fromisoformat(str(value))),
    "clock": (schemas.time_of_day(), time(23, 59, 58, 123000), lambda value: value if isinstance(value, time) else str(value)),
    "moment": (schemas.timestamp(), datetime(2024, 2, 29, 1, 2, 3, 456000, tzinfo=UTC), lambda value: datetime.fromisoformat(str(value))),
    "list": (schemas.array(schemas.integer()), [1, 2], lambda value: value if isinstance(value, list) else __import__("json").loads(value)),
    "micro": (Schema(schemas.INT64, name="io.debezium.time.MicroTimestamp", version=1), 1_000_001, lambda value: datetime.fromisoformat(str(value))),
}  # fmt: skip


def test_every_type_is_stored(store):
    schema = schemas.struct(
        "V", {"id": schemas.integer(), **{name: each[0].as_optional() for name, each in EVERYTHING.items()}}
    )
    sink = store.upserting()
    row = {"id": 1, **{name: each[1] for name, each in EVERYTHING.items()}}
    step(sink, [a_record(0, 1, row, schema=schema), a_record(1, 2, {"id": 2}, schema=schema)])
    sink.close()
    full, empty = store.rows(
        f"SELECT {', '.join(dialect_quoted(store, name) for name in EVERYTHING)} FROM people ORDER BY id"
    )
    assert set(empty) == {None}
    expected = {
        **{name: each[1] for name, each in EVERYTHING.items()},
        "micro": datetime(1970, 1, 1, 0, 0, 1, 1),
    }
    expected["moment"] = expected["moment"].replace(tzinfo=None)
    for (name, (_, _, read)), stored in zip(EVERYTHING.items(), full, strict=True):
        shown = read(stored)
        if name == "clock" and not isinstance(shown, time):
            assert "23:59:58.123" in shown
        else:
            assert shown == expected[name], name


def dialect_quoted(store: Store, name: str) -> str:
    return f"`{name}`" if "mariadb" in store.url else f'"{name}"'


def test_new_fields_become_columns(store):
    sink = store.upserting(auto_evolve="true")
    step(sink, [a_record(0, 1, {"id": 1, "name": "Eva"})])
    wider = schemas.struct(
        "Value",
        {"id": schemas.integer(), "name": schemas.string(optional=True), "age": schemas.integer(optional=True),
         "ward": schemas.string(default="it's A", has_default=True)},
    )  # fmt: skip
    step(
        sink,
        [
            a_record(1, 2, {"id": 2, "name": "b"}),
            a_record(2, 3, {"id": 3, "name": "c", "age": 4, "ward": "B"}, schema=wider),
        ],
    )
    sink.close()
    rows = store.rows("SELECT id, age, ward FROM people ORDER BY id")
    assert [(row[0], row[1]) for row in rows] == [(1, None), (2, None), (3, 4)]
    assert [row[2] for row in rows] == ["it's A", "it's A", "B"]


def test_a_required_field_without_default_is_not_added(store):
    sink = store.upserting(auto_evolve="true")
    step(sink, [a_record(0, 1, {"id": 1, "name": "Eva"})])
    wider = schemas.struct("Value", {"id": schemas.integer(), "age": schemas.integer()})
    with pytest.raises(ConnectError, match=r"age.*required and has no default"):
        step(sink, [a_record(1, 2, {"id": 2, "age": 4}, schema=wider)])
    sink.rollback()
    sink.close()


def test_missing_tables_and_columns_are_refused_unless_allowed(store):
    settings = {"insert_mode": "upsert", "pk_mode": "record_key"}
    sink = store.sink(**settings)
    with pytest.raises(ConfigError, match=r"people does not exist.*auto\.create=true"):
        step(sink, [a_record(0, 1, {"id": 1, "name": "x"})])
    sink.rollback()
    sink.close()


def test_debezium_events_are_unwrapped(store):
    row = VALUE.as_optional()
    envelope = schemas.struct(
        "clinic.Envelope", {"before": row, "after": row, "op": schemas.string()}, version=2
    )

    def event(offset: int, key: int, op: str, after: dict[str, Any] | None) -> SinkRecord:
        value = {"before": None, "after": after, "op": op}
        return SinkRecord(
            "people",
            0,
            offset,
            value,
            envelope,
            None if op == "t" else {"id": key},
            None if op == "t" else KEY,
        )

    sink = store.upserting()
    step(
        sink,
        [
            event(0, 1, "r", {"id": 1, "name": "gone"}),
            event(1, 0, "t", None),
            event(2, 2, "c", {"id": 2, "name": "b"}),
        ],
    )
    step(sink, [event(3, 3, "c", {"id": 3, "name": "c"}), event(4, 2, "d", None), a_record(5, 2, None)])
    sink.close()
    assert store.rows("SELECT id, name FROM people") == [(3, "c")]


def test_many_rows_go_at_once(store):
    sink = store.upserting()
    step(sink, [a_record(i, i % 3000, {"id": i % 3000, "name": f"n{i}"}) for i in range(5000)])
    step(sink, [a_record(5000 + i, i, None) for i in range(1000)])
    sink.close()
    assert store.rows("SELECT count(*), min(id), max(id) FROM people") == [(2000, 1000, 2999)]
    assert store.rows("SELECT name FROM people WHERE id = 1500") == [("n4500",)]


def test_update_mode_changes_rows_that_are_there_alone(store):
    sink = store.upserting()
    step(sink, [a_record(0, 1, {"id": 1, "name": "Eva"})])
    sink.close()
    sink = store.sink(insert_mode="update", pk_mode="record_value", pk_fields="id")
    step(sink, [a_record(1, 1, {"id": 1, "name": "Ida"}), a_record(2, 9, {"id": 9, "name": "nobody"})])
    sink.close()
    assert store.rows("SELECT id, name FROM people") == [(1, "Ida")]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Eva", None], []),
        (["Eva", None, "Ida"], [(1, "Ida")]),
        ([None, "Eva"], [(1, "Eva")]),
        (["Eva", None, None, "Ida", None], []),
    ],
)
def test_insert_mode_keeps_the_order_of_inserts_and_deletes_within_a_step(store, names, expected):
    sink = store.sink(pk_mode="record_key", delete_enabled="true", auto_create="true")
    step(
        sink,
        [a_record(i, 1, None if name is None else {"id": 1, "name": name}) for i, name in enumerate(names)],
    )
    sink.close()
    assert store.rows("SELECT id, name FROM people") == expected


@pytest.mark.parametrize("names", [[None, "Ida"], ["Ida", None], ["Ida", None, "Eva"]])
def test_update_mode_does_not_bring_back_a_row_deleted_in_the_same_step(store, names):
    sink = store.upserting()
    step(sink, [a_record(0, 1, {"id": 1, "name": "Eva"}), a_record(1, 2, {"id": 2, "name": "Uma"})])
    sink.close()
    sink = store.sink(insert_mode="update", pk_mode="record_key", delete_enabled="true")
    records = [{"id": 1, "name": name} if name else None for name in names]
    step(
        sink,
        [
            *(a_record(offset, 1, value) for offset, value in enumerate(records, 2)),
            a_record(9, 2, {"id": 2, "name": "Ute"}),
        ],
    )
    sink.close()
    assert store.rows("SELECT id, name FROM people") == [(2, "Ute")]


def refusing(sink: SqlSink) -> tuple[SqlSink, list[tuple[int, str]]]:
    """As with errors.tolerance=all: offsets of the records that the database refuses, and why."""
    refused: list[tuple[int, str]] = []
    sink.refused = lambda record, error: refused.append((record.offset, str(error)))
    return sink, refused


@pytest.mark.parametrize("store", SAVEPOINTS, indirect=True)
@pytest.mark.parametrize("count", [5, 300])  # PostgreSQL gets many rows by COPY
def test_a_row_that_violates_a_constraint_is_refused_alone(store, count):
    sink, refused = refusing(store.sink(auto_create="true", pk_mode="record_value", pk_fields="id"))
    ids = list(range(count))
    ids[3] = ids[-1] = 1
    records = [a_record(i, None, {"id": key, "name": f"n{i}"}) for i, key in enumerate(ids)]
    step(sink, records)
    step(sink, records)  # again: behind the position
    sink.close()
    assert [offset for offset, _ in refused] == [3, count - 1]
    assert refused[0][1].startswith("table people: ")
    expected = [(key, f"n{key}") for key in range(count - 1) if key != 3]
    assert store.rows("SELECT id, name FROM people ORDER BY id") == expected
    assert store.rows("SELECT position FROM ottla_connect_positions") == [(count,)]


@pytest.mark.parametrize("store", SAVEPOINTS, indirect=True)
@pytest.mark.parametrize("count", [5, 300])
def test_a_text_that_the_database_cannot_hold_is_refused_alone(store, count):
    sink, refused = refusing(store.upserting())
    names = ["fine"] * count
    names[1] = "half of a pair: \ud800"
    names[4] = "NUL: \0"
    step(sink, [a_record(i, i, {"id": i, "name": name}) for i, name in enumerate(names)])
    step(sink, [a_record(count, 0, None)])
    sink.close()
    bad = [1, 4] if "postgresql" in store.url else [1]
    assert [offset for offset, _ in refused] == bad
    rows = store.rows("SELECT id, name FROM people ORDER BY id")
    assert rows == [(i, name) for i, name in enumerate(names) if i and i not in bad]


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_a_lost_connection_is_no_refusal_of_a_row(store):
    sink, refused = refusing(store.upserting())
    where = TopicPartition("people", 0)
    sink.positions([where])
    sink.write(SinkBatch(where, lambda: [a_record(0, 1, {"id": 1, "name": "Eva"})], 0, 1, None))
    store.rows(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with pytest.raises(RetriableError):
        sink.commit({where: 1})
    step(sink, [a_record(0, 1, {"id": 1, "name": "Eva"})])
    sink.close()
    assert refused == []
    assert store.rows("SELECT id, name FROM people") == [(1, "Eva")]


def test_connectors_topics_and_keys_that_differ_only_in_case_are_kept_apart(store):
    key = schemas.struct("Key", {"id": schemas.string()})
    value = schemas.struct("Value", {"name": schemas.string()})
    sink = store.upserting()
    upper, lower = TopicPartition("People", 0), TopicPartition("people", 0)
    sink.positions([upper, lower])
    records = [
        SinkRecord("people", 0, i, {"name": name}, value, {"id": name}, key) for i, name in enumerate("Aa")
    ]
    sink.write(SinkBatch(lower, lambda: records, 0, 2, None))
    sink.commit({lower: 2, upper: 7})
    assert sink.positions([upper, lower]) == {lower: 2, upper: 7}
    sink.rollback()
    sink.close()
    other = store.upserting(name="SINK")
    assert other.positions([upper, lower]) == {}
    other.rollback()
    other.close()
    assert sorted(store.rows("SELECT id, name FROM people")) == [("A", "A"), ("a", "a")]


def test_mariadb_compares_positions_and_text_keys_by_their_bytes(monkeypatch):
    """Default collations of MariaDB and MySQL ignore case."""
    monkeypatch.setattr(pymysql, "connect", lambda **_: None)
    database = MariaDialect("//localhost/reports", "root", None)
    statements: list[str] = []
    monkeypatch.setattr(database, "define", statements.append)
    database.create_positions()
    columns = (column("id", schemas.string()), column("name", schemas.string(optional=True)))
    database.create("people", Group(columns, ("id",)))
    exact = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
    assert f"(connector VARCHAR(200) {exact}, topic VARCHAR(249) {exact}, part INTEGER" in statements[0]
    assert f"(`id` VARCHAR(255) {exact}, `name` LONGTEXT, PRIMARY KEY (`id`))" in statements[1]


def test_positions_are_forgotten(store):
    sink = store.upserting()
    step(sink, [a_record(0, 1, {"id": 1, "name": "Eva"})])
    where = TopicPartition("people", 0)
    sink.forget([where])
    assert sink.positions([where]) == {}
    sink.rollback()
    sink.close()


def test_what_cannot_be_a_row_is_refused():
    sink = SqlSink(
        Config({"name": "s", "connection.url": "jdbc:sqlite:x", "pk.mode": "record_key"}, SqlSink.settings)
    )
    for record, words in (
        (SinkRecord("t", 0, 0, "text", schemas.string()), "needs a value with fields"),
        (SinkRecord("t", 0, 0, {"a": 1}), "no schema"),
        (SinkRecord("t", 0, 0, {"id": 1}, VALUE), "keys of t are null"),
        (SinkRecord("t", 0, 0, None, None, 1, schemas.integer()), "delete.enabled is false"),
    ):
        with pytest.raises(DataError, match=words):
            sink.write(SinkBatch(TopicPartition("t", 0), partial(list, [record]), 0, 1, None))


@pytest.mark.parametrize(("name", "value"), [
    ("io.debezium.time.MicroTimestamp", 9_223_372_036_825_200_000),
    ("io.debezium.time.ZonedTimestamp", "infinity"),
    ("io.debezium.time.ZonedTimestamp", "-0043-03-15T00:00:00Z"),
    ("io.debezium.time.Date", 2**31 - 1),
    ("io.debezium.time.MicroTime", -3_020_399_999_000),
    ("io.debezium.time.Time", 90_000_000),
])  # fmt: skip
def test_a_time_that_no_column_can_hold_is_an_error_of_its_record(name, value):
    kind = schemas.STRING if isinstance(value, str) else schemas.INT64
    odd = Schema(kind, name=name, version=1)
    for schema, key in (
        (schemas.struct("Value", {"id": odd}), None),
        (None, schemas.struct("Key", {"id": odd})),
    ):
        found = {"id": value}
        record = SinkRecord("t", 0, 7, schema and found, schema, key and found, key)
        with pytest.raises(DataError, match="t-0@7 has a value that does not fit into a column"):
            grouped([record], KeyRule("record_key" if key else "none", delete=True), "upsert")


def test_a_default_that_no_column_can_have_is_left_out():
    odd = Schema(
        schemas.STRING,
        name="io.debezium.time.ZonedTimestamp",
        version=1,
        default="infinity",
        has_default=True,
    )
    assert column("until", odd).default is None


def test_settings_that_contradict_each_other_are_named():
    config = Config(
        {"connection.url": "jdbc:sqlite:x", "delete.enabled": "true", "insert.mode": "upsert"},
        SqlSink.settings,
    )
    assert set(SqlSink.check(config)) == {"delete.enabled", "pk.mode"}
    with pytest.raises(ConfigError, match="of no known database"):
        dialect("jdbc:oracle:thin", None, None)
