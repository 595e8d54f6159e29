"""Values with a registry's schemas become columns: types, evolution, what cannot be read."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.util import find_spec

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from ottla.serialization import (
    ArrowDecoder,
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufSerializer,
    RegistryClient,
    framing,
)
from ottla.serialization.arrow import AvroColumn, arrow_type, is_known
from ottla.spark.errors import BadValue, OptionError, SchemaError
from ottla.spark.options import ReadOptions, WriteOptions
from ottla.spark.record_schema import columns, schema_text
from ottla.spark.registry_values import RegistryValues, struct_text
from ottla.spark.registry_writing import ValueEncoder, registered_id
from ottla.spark.rows import shape
from ottla.testing import Broker
from tests.registry.test_serializers import order_class

OLD = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "string"}, {"name": "gone", "type": "int"}],
}
NEW = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "string"},
        {
            "name": "at",
            "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}],
            "default": None,
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}
KIND = pa.struct([("id", pa.string()), ("at", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string()))])


@pytest.fixture(scope="module")
def url():
    with Broker(registry=True) as broker:
        yield broker.registry


def rows(*values):
    count = len(values)
    columns = [
        pa.array(values, pa.binary()),
        pa.array(["t"] * count),
        pa.array([0] * count),
        pa.array(range(count)),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["value", "topic", "partition", "offset"])


def test_values_of_several_versions_are_read_with_the_latest(url):
    client = RegistryClient(url)
    old = AvroSerializer(client, json.dumps(OLD), topic="t")({"id": "a", "gone": 1})
    new = AvroSerializer(client, json.dumps(NEW), topic="t")({"id": "b", "at": 5, "tags": ["x"]})
    text, schema = struct_text(url, "t-value", "AVRO")
    assert text == "STRUCT<`id`: STRING, `at`: TIMESTAMP, `tags`: ARRAY<STRING>>"
    read = RegistryValues(KIND, url, "AVRO", schema).decode(rows(old, new, None, b"plain"))
    assert [row and row["id"] for row in read.to_pylist()] == ["a", "b", None, None]
    assert read[0].as_py()["tags"] == []
    with pytest.raises(BadValue, match=r"t-0, offset 1: .*written without a registry"):
        RegistryValues(KIND, url, "AVRO", schema, fail_fast=True).decode(rows(new, b"plain"))


def test_json_schemas_become_columns_too(url):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "on": {"type": ["boolean", "null"]}}}
    value = JsonSchemaSerializer(RegistryClient(url), schema, topic="j")({"n": 4, "on": True})
    text, latest = struct_text(url, "j-value", "JSON")
    assert text == "STRUCT<`n`: BIGINT, `on`: BOOLEAN>"
    kind = pa.struct([("n", pa.int64()), ("on", pa.bool_())])
    assert RegistryValues(kind, url, "JSON", latest).decode(rows(value)).to_pylist() == [{"n": 4, "on": True}]


def test_the_same_comes_of_whole_columns_and_of_single_values(url):
    """pyruhvro, where it is installed, and fastavro."""
    fields = [
        {"name": "s", "type": "string"},
        {"name": "n", "type": ["null", "int"], "default": None},
        {"name": "l", "type": "long"},
        {"name": "d", "type": "double"},
        {"name": "f", "type": "float"},
        {"name": "on", "type": "boolean"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "us",
            "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}],
            "default": None,
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": {"type": "map", "values": "long"}},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
        {"name": "in", "type": {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}},
    ]
    schema = json.dumps({"type": "record", "name": "All", "fields": fields})
    client = RegistryClient(url)
    serializer = AvroSerializer(client, schema, topic="all")
    values = [
        serializer(
            {
                "s": "ä" * n, "n": n if n % 2 else None, "l": -n << 40, "d": n / 3, "f": 0.5 * n,
                "on": n > 1, "day": n, "ms": n * 1000, "us": n if n % 3 else None, "tags": ["x"] * n,
                "sizes": {str(at): at for at in range(n)}, "kind": "AB"[n % 2], "in": {"x": n},
            }
        )
        for n in range(5)
    ]  # fmt: skip
    assert is_known(json.loads(schema))
    assert not is_known(json.loads(schema.replace('"long"', '"bytes"')))
    decode = ArrowDecoder(client, "all-value")
    whole = decode(rows(*values)).column("value")
    kind = arrow_type(json.loads(schema))
    single = AvroColumn(client, schema, kind).decode(pa.array(values, pa.binary()))[0]
    if find_spec("pyruhvro") is not None:
        at_once = AvroColumn(client, schema, kind)
        at_once.knows(client.version("all-value").schema_id, has_references=False)
        assert at_once._at_once(pa.array(values, pa.binary())) is not None
    assert whole.to_pylist() == single.to_pylist()
    assert whole.type == single.type
    with pytest.raises(framing.BadValue, match="t-0, offset 1: "):
        decode(rows(values[0], values[1][:-1]))
    assert (
        ArrowDecoder(client, "all-value", permissive=True)(rows(b"x", None)).column("value").null_count == 2
    )


def test_what_cannot_be_decoded_stands_in_columns_of_its_own(url):
    client = RegistryClient(url)
    good = AvroSerializer(client, json.dumps(NEW), topic="bad")({"id": "b", "at": 5, "tags": []})
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "bad", "registry": url, "valueFormat": "avro"}
    options = ReadOptions.parse({**given, "valueMode": "column", "columns": "value,offset"}, streaming=False)
    text = schema_text(options)
    assert text.endswith("`offset` BIGINT, `valueError` STRING, `valueBytes` BINARY")
    value = StructType().add("id", StringType()).add("tags", ArrayType(StringType()))
    kind = StructType().add("value", value)
    shaped = shape(options, kind)(rows(good, b"plain", None)).to_pylist()
    assert [row["value"] and row["value"]["id"] for row in shaped] == ["b", None, None]
    assert [row["valueBytes"] for row in shaped] == [None, b"plain", None]
    assert "written without a registry" in shaped[1]["valueError"]
    with pytest.raises(OptionError, match="valueMode=column needs"):
        ReadOptions.parse(
            {"kafka.bootstrap.servers": "x:1", "subscribe": "t", "valueMode": "column"}, streaming=False
        )


def test_protobuf_messages_become_columns(url, tmp_path):
    kind = order_class(tmp_path)
    value = kind(lines=[kind.Line(n=3)])
    value.at.FromMilliseconds(1500)
    client = RegistryClient(url)
    data = ProtobufSerializer(client, kind, topic="p")(value)
    text, schema = struct_text(url, "p-value", "PROTOBUF")
    assert text == "STRUCT<>"  # the file's first message has no fields
    of = RegistryValues(
        pa.struct([("lines", pa.list_(pa.struct([("n", pa.int32())]))), ("at", pa.timestamp("us", "UTC"))]),
        url, "PROTOBUF", schema,
    )  # fmt: skip
    read = of.decode(rows(data, None, b"x")).to_pylist()
    assert read[0]["lines"] == [{"n": 3}]
    assert read[0]["at"].timestamp() == 1.5
    assert read[1:] == [None, None]
    every = (
        'syntax = "proto3"; enum E { A = 0; } message All { string s = 1; bytes b = 2; uint64 u = 3; '
        "repeated int32 r = 4; "
        "map<string, double> m = 5; E e = 6; optional bool o = 7; fixed32 x = 8; float f = 9; sint64 i = 10; }"
    )
    client.register("every-value", every, "PROTOBUF")
    assert struct_text(url, "every-value", "PROTOBUF")[0] == (
        "STRUCT<`s`: STRING, `b`: BINARY, `u`: DECIMAL(20, 0), `r`: ARRAY<INT>, `m`: MAP<STRING, DOUBLE>, `e`: STRING, "
        "`o`: BOOLEAN, `x`: BIGINT, `f`: FLOAT, `i`: BIGINT>"
    )


def test_structs_are_written_with_a_schema_that_is_registered(url):
    """What Spark's rows are by then: Arrow."""
    value = (
        StructType()
        .add("id", StringType())
        .add("n", IntegerType())
        .add("at", TimestampType())
        .add("day", DateType())
        .add("tags", ArrayType(StringType()))
        .add("sizes", MapType(StringType(), LongType()))
        .add("price", DecimalType(9, 2))
        .add("inner", StructType().add("x", DoubleType()))
    )
    row = {
        "id": "7", "n": 3, "at": datetime(2026, 1, 2, tzinfo=UTC), "day": date(2026, 1, 2), "tags": ["a"],
        "sizes": [("k", 1)], "price": Decimal("1.25"), "inner": {"x": 0.5},
    }  # fmt: skip
    given = {"kafka.bootstrap.servers": "x:1", "topic": "w", "registry": url, "valueFormat": "avro"}
    options = WriteOptions.parse(given, streaming=False)
    assert options.registered is not None
    schema = StructType().add("value", value)
    schema_id, text = registered_id(options.registered, schema)
    assert registered_id(options.registered, schema)[0] == schema_id
    batch = pa.RecordBatch.from_arrays(
        [pa.array([row, None], to_arrow_type(value, timezone="UTC"))], ["value"]
    )
    written = ValueEncoder("AVRO", schema_id, text)(batch).column("value").to_pylist()
    assert written[1] is None
    read = AvroDeserializer(RegistryClient(url))(written[0])
    assert read == {**row, "sizes": {"k": 1}}
    assert columns(schema, "w", encoded=True) == ["value"]
    plain = StructType().add("id", StringType()).add("tags", ArrayType(StringType()))
    given = {**given, "topic": "wj", "valueFormat": "json-schema"}
    of = WriteOptions.parse(given, streaming=False).registered
    assert of is not None
    json_id, json_text = registered_id(of, StructType().add("value", plain))
    batch = pa.RecordBatch.from_arrays([pa.array([{"id": "7", "tags": ["x"]}])], ["value"])
    (data,) = ValueEncoder("JSON", json_id, json_text)(batch).column("value").to_pylist()
    assert JsonSchemaDeserializer(RegistryClient(url))(data) == {"id": "7", "tags": ["x"]}


def test_what_cannot_be_written_with_a_schema_is_refused(url):
    given = {"kafka.bootstrap.servers": "x:1", "topic": "w", "registry": url}
    with pytest.raises(OptionError, match="written as avro or json-schema"):
        WriteOptions.parse({**given, "valueFormat": "protobuf"}, streaming=False)
    of = WriteOptions.parse({**given, "valueFormat": "avro"}, streaming=False).registered
    assert of is not None
    with pytest.raises(SchemaError, match="wants a struct"):
        registered_id(of, StructType().add("value", StringType()))
    with pytest.raises(SchemaError, match="strings as keys"):
        registered_id(of, StructType().add("value", StructType().add("m", MapType(LongType(), LongType()))))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"valueFormat": "avro"}, "needs registry"),
        ({"registry": "http://x"}, "need valueFormat=avro"),
        ({"valueFormat": "avro", "registry": "http://x", "valueSchema": "a INT"}, "leave out valueSchema"),
        ({"valueFormat": "avro", "registry": "http://x", "subscribe": "a,b"}, "valueSubject has to name"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, reason):
    given = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "a", **options}
    with pytest.raises(OptionError, match=reason):
        ReadOptions.parse(given, streaming=False)


def test_another_type_of_schema_is_refused(url):
    RegistryClient(url).register("k", '"int"')
    with pytest.raises(OptionError, match="of type AVRO, not JSON"):
        struct_text(url, "k", "JSON")
