"""The SQL sink in all its databases: tables equal the topic's truth, whatever fails and is tried again."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.client.values import TopicPartition
from ottla.connect import schema as schemas
from ottla.connect.errors import ConfigError, ConnectError, DataError
from ottla.connect.schema import Schema
from ottla.connect.spi import Config, SinkBatch, SinkRecord
from ottla.connect.sql.dialects import Dialect, dialect
from ottla.connect.sql.sink import SqlSink

KEY = schemas.struct("Key", {"id": schemas.integer()})
VALUE = schemas.struct("Value", {"id": schemas.integer(), "name": schemas.string(optional=True)})
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true", "auto.create": "true"}
DATABASES = ("sqlite", "duckdb", "postgresql", "mariadb")


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


def test_settings_that_contradict_each_other_are_named():
    config = Config(
        {"connection.url": "jdbc:sqlite:x", "delete.enabled": "true", "insert.mode": "upsert"},
        SqlSink.settings,
    )
    assert set(SqlSink.check(config)) == {"delete.enabled", "pk.mode"}
    with pytest.raises(ConfigError, match="of no known database"):
        dialect("jdbc:oracle:thin", None, None)
