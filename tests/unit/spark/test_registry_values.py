"""Values with a registry's schemas become columns: types, evolution, what cannot be read."""

import json

import pyarrow as pa
import pytest

from ottla.serialization import AvroSerializer, JsonSchemaSerializer, RegistryClient
from ottla.spark.errors import BadValue, OptionError
from ottla.spark.options import ReadOptions
from ottla.spark.registry_values import RegistryValues, struct_text
from ottla.testing import Broker

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
