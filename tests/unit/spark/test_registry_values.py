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
    BooleanType,
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
    ProtobufDeserializer,
    ProtobufSerializer,
    RegistryClient,
    framing,
)
from ottla.serialization.arrow import AvroColumn, is_known
from ottla.serialization.arrow_types import arrow_type
from ottla.serialization.columns import columns_of
from ottla.spark.errors import BadValue, OptionError, SchemaError
from ottla.spark.options import ReadOptions, Registered, WriteOptions
from ottla.spark.record_schema import columns, schema_text
from ottla.spark.registry_values import RegistryValues, pinned, struct_text
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
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
KIND = pa.struct([("id", pa.string()), ("at", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string()))])


@pytest.fixture(scope="module")
def url():
    with Broker(registry=True) as broker:
        yield broker.registry


def rows(*values, headers=None):
    count = len(values)
    columns = [
        pa.array(values, pa.binary()),
        pa.array(["t"] * count),
        pa.array([0] * count),
        pa.array(range(count)),
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=["value", "topic", "partition", "offset"])
    if headers is None:
        return batch
    pairs = [[{"key": name, "value": value} for name, value in each] for each in headers]
    return batch.append_column("headers", pa.array(pairs, HEADERS))


def test_values_of_several_versions_are_read_with_the_latest(url):
    client = RegistryClient(url)
    old = AvroSerializer(client, json.dumps(OLD), topic="t")({"id": "a", "gone": 1})
    new = AvroSerializer(client, json.dumps(NEW), topic="t")({"id": "b", "at": 5, "tags": ["x"]})
    text, schema = struct_text(Registered(url, "t-value", "AVRO"))
    assert text == "STRUCT<`id`: STRING, `at`: TIMESTAMP, `tags`: ARRAY<STRING>>"
    read = RegistryValues(KIND, url, "AVRO", schema).decode(rows(old, new, None, b"plain"))
    assert [row and row["id"] for row in read.to_pylist()] == ["a", "b", None, None]
    assert read[0].as_py()["tags"] == []
    with pytest.raises(BadValue, match=r"t-0, offset 1: .*written without a registry"):
        RegistryValues(KIND, url, "AVRO", schema, fail_fast=True).decode(rows(new, b"plain"))


def test_values_of_the_readers_schema_and_others_keep_their_order(url):
    """Where pyruhvro is installed, those of the reader's schema are decoded at once and the others one by one."""
    client = RegistryClient(url)
    old = AvroSerializer(client, json.dumps(OLD), topic="mixed")
    first = old({"id": "2", "gone": 1})
    new = AvroSerializer(client, json.dumps(NEW), topic="mixed")
    values = [
        new({"id": "0", "at": 1, "tags": []}), None, first, b"plain",
        new({"id": "4", "at": None, "tags": ["x"]}), old({"id": "5", "gone": 1}),
    ]  # fmt: skip
    of = RegistryValues(KIND, url, "AVRO", json.dumps(NEW), subject="mixed-value")
    read, reasons = of.decode_telling(rows(*values))
    assert [row and row["id"] for row in read.to_pylist()] == ["0", None, "2", None, "4", "5"]
    assert [reason is not None for reason in reasons.to_pylist()] == [n == 3 for n in range(6)]
    assert of.decode(rows()).to_pylist() == []
    unknown = of.decode_telling(rows(*[b"\0\0\0\x27\x10x"] * 3))[1]
    assert unknown.to_pylist() == ["its schema 10000 is not registered"] * 3


def test_a_query_keeps_the_version_that_it_was_planned_with(url):
    client = RegistryClient(url)
    of = Registered(url, "pinned-value", "AVRO")
    client.register("pinned-value", json.dumps(OLD))
    client.register("pinned-value", json.dumps(NEW))
    client.register("pinned-value", json.dumps({**NEW, "fields": NEW["fields"][:2]}))
    assert pinned(of, "struct<id:string,gone:int>").version == 1
    assert pinned(of, "struct<id:string,at:timestamp,tags:array<string>>").version == 2
    assert pinned(of, "struct<id:string,at:timestamp>").version == 3
    assert "`gone`: INT" in struct_text(pinned(of, "struct<id:string,gone:int>"))[0]
    with pytest.raises(OptionError, match="has the columns struct<x:int> any more"):
        pinned(of, "struct<x:int>")


def test_a_json_value_of_another_type_is_told_and_spoils_no_other(url):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    client = RegistryClient(url)
    good = JsonSchemaSerializer(client, schema, topic="types")({"n": 4})
    bad = good[:5] + b'{"n": "four"}'
    of = RegistryValues(pa.struct([("n", pa.int64())]), url, "JSON", json.dumps(schema))
    read, reasons = of.decode_telling(rows(good, bad, good))
    assert read.to_pylist() == [{"n": 4}, None, {"n": 4}]
    assert "does not fit its columns" in reasons[1].as_py()


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "other.json"}, "in another schema"),
        ({"$ref": "#"}, "in another schema or is the schema itself"),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}, "type": "object",
          "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}}, "holds itself"),
    ],
)  # fmt: skip
def test_a_json_schema_without_columns_says_why(url, schema, reason):
    client = RegistryClient(url)
    client.ask("PUT", "/config/endless-value", {"compatibility": "NONE"})
    client.register("endless-value", json.dumps(schema), "JSON")
    with pytest.raises(OptionError, match=reason):
        struct_text(Registered(url, "endless-value", "JSON"))


def test_json_schemas_become_columns_too(url):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "on": {"type": ["boolean", "null"]}}}
    value = JsonSchemaSerializer(RegistryClient(url), schema, topic="j")({"n": 4, "on": True})
    text, latest = struct_text(Registered(url, "j-value", "JSON"))
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
    kind = arrow_type(columns_of(client, "all-value").text)
    single = AvroColumn(client, schema, kind).decode(pa.array(values, pa.binary()))[0]
    if find_spec("pyruhvro") is not None:
        at_once = AvroColumn(client, schema, kind)
        at_once.knows(client.version("all-value"))
        assert at_once._at_once(pa.array([value[5:] for value in values], pa.binary())) is not None
    assert whole.to_pylist() == single.to_pylist()
    assert whole.type == single.type
    with pytest.raises(framing.BadValue, match="t-0, offset 1: "):
        decode(rows(values[0], values[1][:-1]))
    permissive = ArrowDecoder(client, "all-value", mode="permissive")
    assert permissive(rows(b"x", None)).column("value").null_count == 2


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
    text, schema = struct_text(Registered(url, "p-value", "PROTOBUF"))
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
    assert struct_text(Registered(url, "every-value", "PROTOBUF"))[0] == (
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


def test_a_struct_is_written_as_the_message_that_the_subject_has_and_new_columns_get_new_numbers(url):
    client = RegistryClient(url)
    client.register(
        "pw-value",
        'syntax = "proto3"; package shop; message Order { reserved 7; string id = 5; sint64 n = 2; Inner inner = 3; '
        "message Inner { double x = 4; } } message Other {}",
        "PROTOBUF",
    )
    of = Registered(url, "pw-value", "PROTOBUF")
    inner = StructType().add("x", DoubleType())
    known = StructType().add("id", StringType()).add("n", IntegerType()).add("inner", inner)
    assert registered_id(of, StructType().add("value", known))[0] == client.version("pw-value").schema_id
    wider = known.add("at", TimestampType()).add("sizes", MapType(StringType(), LongType()))
    wider = wider.add("lines", ArrayType(StructType().add("sku", StringType()))).add("on", BooleanType())
    schema_id, text = registered_id(of, StructType().add("value", wider))
    assert registered_id(of, StructType().add("value", wider))[0] == schema_id
    at = datetime(2026, 1, 2, tzinfo=UTC)
    row = {
        "id": "7", "n": 3, "inner": {"x": 0.5}, "at": at, "sizes": [("k", 1)],
        "lines": [{"sku": "a"}, {"sku": None}], "on": None,
    }  # fmt: skip
    batch = pa.RecordBatch.from_arrays([pa.array([row], to_arrow_type(wider, timezone="UTC"))], ["value"])
    (data,) = ValueEncoder("PROTOBUF", schema_id, text)(batch).column("value").to_pylist()
    message = ProtobufDeserializer(client)(data)
    assert (message.id, message.n, message.inner.x, dict(message.sizes)) == ("7", 3, 0.5, {"k": 1})
    numbers = {field.name: field.number for field in message.DESCRIPTOR.fields}
    assert numbers == {"id": 5, "n": 2, "inner": 3, "at": 8, "sizes": 9, "lines": 10, "on": 11}
    assert not message.HasField("on") and message.at.ToSeconds() == at.timestamp()
    kind = to_arrow_type(wider, timezone="UTC")
    assert RegistryValues(kind, url, "PROTOBUF", text).decode(rows(data)).to_pylist() == [row]


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (ArrayType(ArrayType(StringType())), "no lists of lists"),
        (DecimalType(9, 2), "cast it before writing"),
        (BooleanType(), "not its type in the subject's schema"),
    ],
)
def test_a_column_that_protobuf_does_not_have_is_refused(url, column, reason):
    of = Registered(url, "refused-value", "PROTOBUF")
    registered_id(of, StructType().add("value", StructType().add("flag", StringType())))
    name = "flag" if isinstance(column, BooleanType) else "other"
    with pytest.raises(SchemaError, match=reason):
        registered_id(of, StructType().add("value", StructType().add(name, column)))


def test_what_cannot_be_written_with_a_schema_is_refused(url):
    given = {"kafka.bootstrap.servers": "x:1", "topic": "w", "registry": url}
    with pytest.raises(OptionError, match="written as avro or json-schema or protobuf"):
        WriteOptions.parse({**given, "valueFormat": "xml"}, streaming=False)
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
        struct_text(Registered(url, "k", "JSON"))


def test_guids_in_headers_and_ids_before_values_are_read_side_by_side(url):
    """Where pyruhvro is installed, those of the reader's schema are decoded at once, however they name it."""
    client = RegistryClient(url)
    old = AvroSerializer(client, json.dumps(OLD), topic="guids", ids="header")
    first = {"id": "0", "gone": 1}
    old(first)  # registered first
    new, prefixed = (
        AvroSerializer(client, json.dumps(NEW), topic="guids", ids=ids) for ids in ("header", "prefix")
    )
    value = {"id": "1", "at": 5, "tags": ["x"]}
    known, unknown = [("other", b"x"), *new.headers_of(value)], [(framing.VALUE_HEADER, b"\1" + b"\7" * 16)]
    batch = rows(
        old(first), new(value), None, prefixed({**value, "id": "3"}), new(value), b"plain", b"x",
        headers=[old.headers_of(first), known, known, [("other", b"x")], unknown, [], [(framing.VALUE_HEADER, b"x")]],
    )  # fmt: skip
    of = RegistryValues(KIND, url, "AVRO", json.dumps(NEW), subject="guids-value")
    for part in (batch, batch.slice(0, 4), batch.slice(1)):
        read = of.decode(part)
        expected = ["0", "1", None, "3", None, None, None][part.column("offset")[0].as_py() :][: len(part)]
        assert [row and row["id"] for row in read.to_pylist()] == expected
    told = [reason or "" for reason in of.decode_telling(batch)[1].to_pylist()]
    assert told[:4] == [""] * 4
    assert "07070707-0707-0707-0707-070707070707 is not registered" in told[4]
    assert "written without a registry" in told[5] and "does not hold the GUID" in told[6]


@pytest.mark.parametrize("ids", ["prefix", "header"])
def test_the_columnar_client_decodes_json_and_protobuf_too_and_tells_what_it_cannot(url, tmp_path, ids):
    client = RegistryClient(url)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "tags": {"type": "array"}}}
    serializer = JsonSchemaSerializer(client, schema, topic=f"arrow-{ids}", ids=ids)
    values = [{"n": 4, "tags": ["x"]}, {"n": 5, "tags": []}]
    headers = [serializer.headers_of(value) for value in values]
    batch = rows(*map(serializer, values), b"x", headers=[*headers, []])
    decoded = ArrowDecoder(client, f"arrow-{ids}-value", mode="column")(batch)
    assert decoded.column("value").to_pylist() == [*values, None]
    assert decoded.column("valueBytes").to_pylist() == [None, None, b"x"]
    assert "written without a registry" in decoded.column("valueError")[2].as_py()
    with pytest.raises(framing.BadValue, match="t-0, offset 2: "):
        ArrowDecoder(client, f"arrow-{ids}-value")(batch)
    text = (
        'syntax = "proto3"; message A { string s = 1; map<string, double> m = 2; uint64 u = 3; B b = 4; '
        "message B { optional bool on = 1; } }"
    )
    registered = client.register(f"arrow-{ids}-p-value", text, "PROTOBUF")
    message = ProtobufDeserializer(client)(framing.with_id(registered.schema_id, b"\0\x0a\x01a\x18\x07"))
    serialize = ProtobufSerializer(client, type(message), topic=f"arrow-{ids}-p", ids=ids, use_latest=True)
    batch = rows(serialize(message), headers=[serialize.headers_of(message)])
    (row,) = ArrowDecoder(client, f"arrow-{ids}-p-value")(batch).column("value").to_pylist()
    assert row == {"s": "a", "m": [], "u": Decimal(7), "b": None}
    with pytest.raises(ValueError, match="failfast, permissive, column"):
        ArrowDecoder(client, f"arrow-{ids}-p-value", mode="drop")


def test_types_of_columns_are_the_same_in_sql_and_in_arrow():
    text = "STRUCT<`a b`: MAP<STRING, ARRAY<DECIMAL(20, 0)>>, `e`: STRUCT<>, `t`: TIMESTAMP_NTZ, `v`: VOID>"
    assert arrow_type(text) == pa.struct(
        [
            ("a b", pa.map_(pa.string(), pa.list_(pa.decimal128(20, 0)))),
            ("e", pa.struct([])),
            ("t", pa.timestamp("us")),
            ("v", pa.null()),
        ]
    )
    assert arrow_type("BIGINT") == pa.int64()
