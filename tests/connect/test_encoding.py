"""The fast way from the log to JSON gives the bytes of the other way: translated, then converted."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from ottla.connect.converters.headers import SimpleHeaderConverter
from ottla.connect.converters.json import JsonConverter
from ottla.connect.definitions import SOURCE_SETTINGS
from ottla.connect.errors import DataError
from ottla.connect.postgres.source import PostgresSource
from ottla.connect.spi import Config, Limit
from ottla.connect.tasks.conversion import SourceConversion
from tests.connect import debezium
from tests.connect.databases import Postgres

_NOW = re.compile(
    rb'"ts_ms":\d+,"ts_us":\d+,"ts_ns":\d+\}(?=\}?$)'
)  # of the moment of writing; it stands last


def _sources(settings: dict[str, str], framework: dict[str, str]) -> tuple[PostgresSource, PostgresSource]:
    """The fast one has the framework's settings."""
    fast = PostgresSource(Config({**settings, "transforms": "", **framework}, PostgresSource.settings))
    slow = PostgresSource(Config({**settings, **framework}, PostgresSource.settings))
    return fast, slow


def _as_rows(batch: Any, framework: dict[str, str]) -> list[Any]:
    """Topic, key, value and headers, by topic."""
    rows: list[Any] = []
    for topic, columns in batch.encoded:
        for row in columns.to_pylist():
            rows.append((topic, row["key"], row["value"], row.get("headers") or []))
    schemas = {"schemas.enable": framework["value.converter.schemas.enable"]}
    converter, headers = JsonConverter(schemas), SimpleHeaderConverter()
    for record in batch.records:
        shown = [
            {"key": each.key, "value": headers.from_value(record.topic, each.schema, each.value)}
            for each in record.headers
        ]
        key = converter.from_value(record.topic, record.key_schema, record.key)
        value = converter.from_value(record.topic, record.value_schema, record.value)
        rows.append((record.topic, key, value, shown))
    order = {topic: i for i, topic in enumerate(dict.fromkeys(row[0] for row in rows))}
    return sorted(
        ((topic, key, value and _NOW.sub(b"NOW}", value), told) for topic, key, value, told in rows),
        key=lambda row: order[row[0]],
    )


@pytest.mark.parametrize("with_schemas", ["true", "false"])
@pytest.mark.parametrize(
    "more",
    [{}, {"skipped.operations": "u,t"}, {"decimal.handling.mode": "string", "tombstones.on.delete": "false"}],
)
def test_both_ways_give_the_same_bytes(postgres: Postgres, with_schemas, more):
    name = f"encoding_{random.randrange(10**9)}"
    debezium.prepare(postgres, name)
    framework = {"value.converter.schemas.enable": with_schemas, "key.converter.schemas.enable": with_schemas}
    settings = {
        **debezium.settings("usual", postgres, name),
        "slot.name": name,
        "snapshot.mode": "never",
        **more,
    }
    fast, slow = _sources(settings, framework)
    offset = fast.read({}, None, Limit()).offset
    debezium.change(postgres, name)
    postgres.execute(
        "INSERT INTO clinic.everything (id, words, loose, moment, zone_moment) VALUES (77,"
        " E'\\u0001 \"\\\\ \\u2028', 'NaN', '0044-03-15 BC', '12345-01-01 00:00+00')",
        database=name,
    )
    ours, other = fast.read({}, offset, Limit()), slow.read({}, offset, Limit())
    assert ours.encoded and not other.encoded
    assert ours.offset == other.offset
    for one, two in zip(_as_rows(ours, framework), _as_rows(other, framework), strict=True):
        assert one == two
    small: list[Any] = []
    at = offset
    while (batch := fast.read({}, at, Limit(records=3))) is not None:
        small += _as_rows(batch, framework)
        at = json.loads(json.dumps(batch.offset))
        fast.committed([({}, at)])
    assert sorted(small, key=str) == sorted(_as_rows(ours, framework), key=str)
    fast.close()
    slow.close()
    postgres.execute("SELECT pg_drop_replication_slot(%s)", name)


def test_what_needs_the_other_way_takes_it():
    base = {"database.hostname": "h", "database.dbname": "d", "topic.prefix": "p", "transforms": ""}
    other = "org.apache.kafka.connect.storage.StringConverter"
    assert PostgresSource(Config(base, PostgresSource.settings))._converters is not None
    for more in ({"value.converter": other}, {"provide.transaction.metadata": "true"}):
        assert PostgresSource(Config({**base, **more}, PostgresSource.settings))._converters is None


@pytest.mark.parametrize(
    "created",
    [
        "CREATE TABLE price (id integer PRIMARY KEY, amount numeric NOT NULL)",
        "CREATE TABLE price (id integer PRIMARY KEY, amount numeric(5, 2) NOT NULL)",
    ],
)
def test_a_value_that_cannot_be_converted_is_left_to_the_framework(postgres: Postgres, created):
    name = postgres.new_database(f"encoding_{random.randrange(10**9)}")
    postgres.execute(created, database=name)
    settings = {
        **debezium.settings("usual", postgres, name),
        "slot.name": name,
        "table.include.list": "public.price",
    }
    source, _ = _sources({**settings, "snapshot.mode": "never"}, {})
    offset = source.read({}, None, Limit()).offset
    postgres.execute("INSERT INTO price VALUES (1, 1), (2, 'NaN'), (3, 3)", database=name)
    batch = source.read({}, offset, Limit())
    source.close()
    named = {"name": "prices", "connector.class": "postgres"}
    conversion = SourceConversion(Config({**named, "errors.tolerance": "all"}, SOURCE_SETTINGS))
    keys = [row["key"] for _, rows in conversion.rows(batch) for row in rows.to_pylist()]
    assert [json.loads(key)["payload"]["id"] for key in keys] == [1, 3]
    with pytest.raises(DataError, match="Tolerance exceeded"):
        SourceConversion(Config(named, SOURCE_SETTINGS)).rows(batch)
