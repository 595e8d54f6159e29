"""Converters with a schema registry: values go there and back, and Confluent's clients read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.connect import schema as s
from ottla.connect.converters import Converter, converter
from ottla.connect.errors import ConfigError, DataError, RetriableError
from ottla.connect.schema import Schema
from ottla.testing import Broker
from tests.connect.waiting import wait_for

AVRO = "io.confluent.connect.avro.AvroConverter"
PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"
JSON_SCHEMA = "io.confluent.connect.json.JsonSchemaConverter"
LINE = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}
CONTEXT = SerializationContext("visits", MessageField.VALUE)
PLACE = s.struct("clinic.Place", {"ward": s.string(), "bed": Schema(s.INT8, optional=True)}, optional=True)
VISIT = s.struct(
    "clinic.Visit",
    {
        "id": s.integer(64),
        "small": s.integer(16),
        "note": s.string(optional=True),
        "open": Schema(s.BOOLEAN),
        "weight": Schema(s.FLOAT32),
        "height": Schema(s.FLOAT64, optional=True),
        "scan": Schema(s.BYTES, optional=True),
        "tags": s.array(s.string()),
        "counts": s.map_of(s.string(), s.integer(64)),
        "before": PLACE,
        "after": PLACE,
        "at": s.timestamp(),
    },
)
LOGICAL = s.struct(
    None,
    {
        "price": s.decimal(2),
        "day": s.day(optional=True),
        "clock": s.time_of_day(),
        "by_number": s.map_of(s.integer(32), s.string(), optional=True),
        "kind": s.string(default="plain", has_default=True),
        "uid": s.string(name="io.debezium.data.Uuid", version=1, doc="a word", parameters={"a": "b"}),
    },
    doc="a record",
    version=3,
)
VALUE = {
    "id": 2**40, "small": -7, "note": None, "open": True, "weight": 1.5, "height": -2.25, "scan": b"\x00\xff",
    "tags": ["a", "ü"], "counts": {"x": 1}, "before": None, "after": {"ward": "A", "bed": 3},
    "at": datetime(2026, 11, 17, 6, 0, 0, 123000, tzinfo=UTC),
}  # fmt: skip
MORE = {
    "price": Decimal("-12.30"), "day": date(2024, 2, 29), "clock": time(23, 59, 59, 999000), "by_number": {7: "x"},
    "kind": "odd", "uid": "u",
}  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Iterator[Broker]:
    with Broker(registry=True) as broker:
        yield broker


def made(name: str, broker: Broker, **more: str) -> Converter:
    given_settings = {
        "schema.registry.url": broker.registry,
        **{key.replace("_", "."): v for key, v in more.items()},
    }
    return converter(name, given_settings, is_key=False)


@pytest.mark.parametrize("name", [AVRO, JSON_SCHEMA])
@pytest.mark.parametrize(("schema", "value"), [(VISIT, VALUE), (LOGICAL, MORE)])
def test_schemas_and_values_come_back_as_they_were(registry, name, schema, value):
    used = made(name, registry)
    data = used.from_value(f"t-{name}-{schema.name}", schema, value)
    back, again = made(name, registry).to_value("t", data)
    assert again == value
    assert back == schema


def test_protobuf_keeps_values_and_loses_small_integers(registry):
    used = made(PROTOBUF, registry)
    data = used.from_value("proto", VISIT, VALUE)
    back, again = made(PROTOBUF, registry).to_value("proto", data)
    assert again == VALUE
    assert back.name == "clinic.Visit"
    assert [(each.name, each.schema.type) for each in back.fields[:4]] == [
        ("id", s.INT64), ("small", s.INT32), ("note", s.STRING), ("open", s.BOOLEAN),
    ]  # fmt: skip
    assert back.field("note").schema.optional and not back.field("id").schema.optional
    assert back.field("at").schema.logical == s.TIMESTAMP
    with pytest.raises(DataError, match="Protobuf writes structs"):
        used.from_value("proto", s.string(), "x")


def test_confluents_deserializers_read_what_is_written(registry):
    confluent = SchemaRegistryClient({"url": registry.registry})
    avro = made(AVRO, registry).from_value("visits", VISIT, VALUE)
    assert AvroDeserializer(confluent)(avro, CONTEXT) == VALUE
    logical = made(AVRO, registry).from_value("logical", LOGICAL, {**MORE, "by_number": None})
    assert AvroDeserializer(confluent)(logical, CONTEXT) == {**MORE, "by_number": None}
    told = json.loads(confluent.get_latest_version("logical-value").schema.schema_str)
    price = told["fields"][0]["type"]
    assert price["logicalType"] == "decimal" and price["connect.name"] == s.DECIMAL and price["scale"] == 2
    in_json = made(JSON_SCHEMA, registry).from_value("visits-json", VISIT, VALUE)
    text = confluent.get_latest_version("visits-json-value").schema.schema_str
    context = SerializationContext("visits-json", MessageField.VALUE)
    read = JSONDeserializer(text, schema_registry_client=confluent)(in_json, context)
    assert read["after"] == {"ward": "A", "bed": 3} and read["scan"] == "AP8=" and read["note"] is None


def test_what_confluents_serializer_writes_is_read(registry):
    confluent = SchemaRegistryClient({"url": registry.registry})
    told = {
        "type": "record", "name": "Order", "namespace": "shop",
        "fields": [
            {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 2}},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
            {"name": "line", "type": ["null", LINE]},
            {"name": "other", "type": ["null", "Line"], "default": None},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }  # fmt: skip
    value = {"id": b"ab", "state": "DONE", "line": {"n": 3}, "other": None, "at": VALUE["at"]}
    data = AvroSerializer(confluent, json.dumps(told))(
        value, SerializationContext("orders", MessageField.VALUE)
    )
    schema, read = made(AVRO, registry).to_value("orders", data)
    assert read == value
    assert schema.name == "shop.Order" and schema.field("other").schema.name == "shop.Line"
    assert schema.field("at").schema.logical == s.TIMESTAMP


primitive: st.SearchStrategy[tuple[Schema, Any]] = st.sampled_from([
    (s.integer(8), -128), (s.integer(16), 32767), (s.integer(32), -(2**31)), (s.integer(64), 2**63 - 1),
    (Schema(s.FLOAT64), 1e300), (Schema(s.BOOLEAN), False), (s.string(), "ü"), (Schema(s.BYTES), b"\0\x80"),
    (s.decimal(3), Decimal("1.250")), (s.timestamp(), VALUE["at"]), (s.day(), date(1, 1, 1)),
])  # fmt: skip
nested = st.recursive(
    st.tuples(primitive, st.booleans()).map(lambda each: (each[0][0].as_optional(each[1]), each[0][1])),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(
            lambda parts: (
                s.struct(None, {f"f{i}": part[0] for i, part in enumerate(parts)}, optional=True),
                {f"f{i}": part[1] for i, part in enumerate(parts)},
            )
        ),
        inner.map(lambda part: (s.array(part[0]), [part[1], part[1]])),
        inner.map(lambda part: (s.map_of(s.string(), part[0]), {"k": part[1]})),
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("name", [AVRO, JSON_SCHEMA])
def test_random_values_come_back(registry, name):
    writing, reading = made(name, registry), made(name, registry)
    number = 0

    @settings(max_examples=25, deadline=None)
    @given(nested)
    def run(part):
        nonlocal number
        number += 1
        schema, value = part
        whole = s.struct(f"r.R{number}", {"x": _named(schema, f"r.R{number}")})
        data = writing.from_value(f"random-{name}-{number}", whole, {"x": value})
        assert reading.to_value("random", data) == (whole, {"x": value})

    run()


def _named(schema: Schema, path: str) -> Schema:
    """Records of Avro need names of their own."""
    from dataclasses import replace

    from ottla.connect.schema import Field

    if schema.type == s.STRUCT:
        fields = tuple(Field(each.name, _named(each.schema, f"{path}_{each.name}")) for each in schema.fields)
        return replace(schema, name=f"{path}_s", fields=fields)
    if schema.values is not None:
        return replace(schema, values=_named(schema.values, f"{path}_v"))
    return schema


def test_null_is_null_and_values_without_schema_are_guessed(registry):
    used = made(AVRO, registry)
    assert used.from_value("nulls", None, None) is None
    assert used.to_value("nulls", None) == (None, None)
    assert used.to_value("t", used.from_value("texts", None, "x")) == (s.string(), "x")
    with pytest.raises(DataError, match="a dict without a schema cannot be written as AVRO"):
        used.from_value("t", None, {"a": 1})


def test_what_cannot_work_is_told(registry):
    with pytest.raises(ConfigError, match=r"value\.converter\.schema\.registry\.url"):
        converter(AVRO, {}, is_key=False)
    with pytest.raises(DataError, match="not with a zero and the id of a schema"):
        made(AVRO, registry).to_value("t", b"plain")
    with pytest.raises(DataError, match="the schema registry refuses"):
        made(AVRO, registry).to_value("t", b"\0\0\x7f\0\0x")
    with pytest.raises(DataError, match="the schema registry refuses"):
        made(AVRO, registry, auto_register_schemas="false").from_value("never", VISIT, VALUE)
    with pytest.raises(DataError, match="does not fit its schema"):
        made(AVRO, registry).from_value("wrong", VISIT, {**VALUE, "id": "text"})
    with pytest.raises(RetriableError, match="no schema registry answers"):
        converter(AVRO, {"schema.registry.url": "http://127.0.0.1:1"}, is_key=False).from_value(
            "t", VISIT, VALUE
        )


def test_a_source_writes_avro_and_a_sink_reads_it(registry, tmp_path):
    """Through a worker: generated records to a topic in Avro, and from there to a file."""
    from ottla.connect.running.threads import ThreadRunner
    from ottla.connect.worker.settings import WorkerSettings
    from ottla.connect.worker.standalone import Standalone
    from tests.connect.conftest import worker_settings

    avro = {"value.converter": AVRO, "value.converter.schema.registry.url": str(registry.registry)}
    source = {
        "connector.class": "datagen", "topic": "readings", "fields": "id:sequence,pulse:int(40,180)", "records": "20",
        "rate": "1000", **avro,
    }  # fmt: skip
    sink = {
        "connector.class": "FileStreamSink",
        "topics": "readings",
        "file": str(tmp_path / "out.txt"),
        **avro,
    }
    worker = Standalone(WorkerSettings.parse(worker_settings(registry), distributed=False), ThreadRunner())
    try:
        worker.start({"gen": source, "out": sink})
        wait_for(
            lambda: (
                (tmp_path / "out.txt").exists() and len((tmp_path / "out.txt").read_text().splitlines()) == 20
            )
        )
    finally:
        worker.close()
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert all("pulse" in line for line in lines)
