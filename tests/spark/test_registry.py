"""Values with schemas through Spark: written with registration, read as columns, also what cannot be decoded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.spark.conftest import Topics, topic_maker

pytest.importorskip("pyspark", reason="needs the extra spark")
pytest.importorskip("uvicorn", reason="needs the extra registry")

ROWS = (
    "SELECT string(id) AS key, struct(id, if(id % 2 = 0, null, double(id) / 2) AS half, timestamp_millis(id) AS at, "
    "array('a', string(id)) AS tags, map('n', id) AS sizes, named_struct('x', int(id), 'name', 'n') AS inner) "
    "AS value FROM range(100)"
)


@pytest.fixture
def registry(ottla: Any) -> Iterator[str]:
    """Beside the broker of all tests of the folder."""
    from ottla.testing.registry import BrokerRegistry

    registry = BrokerRegistry({"bootstrap.servers": ottla.bootstrap})
    yield registry.address
    registry.stop()


@pytest.fixture
def topics(spark: Any, ottla: Any) -> Topics:
    """On Ottla only: the registry is the same on any Kafka."""
    return Topics(spark, ottla.bootstrap)


@pytest.fixture
def make_topic(ottla: Any) -> Callable[..., str]:
    return topic_maker(ottla.bootstrap)


def send(topics: Any, topic: str, *values: bytes | None, headers: Any = ()) -> None:
    from ottla import Producer

    with Producer(bootstrap_servers=topics.bootstrap) as producer:
        for value in values:
            producer.send(topic, value, b"sent", headers=list(headers)).result(60)


@pytest.mark.parametrize("form", ["avro", "protobuf", "json-schema"])
def test_structs_go_out_with_a_registered_schema_and_come_back_as_columns(topics, make_topic, registry, form):
    from ottla.serialization import RegistryClient

    topic = make_topic(partitions=2)
    options = {"valueFormat": form, "registry": registry}
    rows = topics.spark.sql(ROWS)
    if form == "json-schema":  # JSON has no times
        rows = rows.selectExpr(
            "key", "struct(value.id, value.half, value.tags, value.sizes, value.inner) value"
        )
    topics.write(rows, topic, **options)
    schema_type = {"json-schema": "JSON"}.get(form, form.upper())
    assert RegistryClient(registry).version(f"{topic}-value").schema_type == schema_type
    send(topics, topic, b"no schema", None)
    read = topics.read(topic, **options, valueMode="column")
    assert read.selectExpr("count(*)", "sum(value.id)", "count(value.half)", "count(valueError)").first() == (
        102,
        sum(range(100)),
        50,
        1,
    )
    (bad,) = read.where("valueError IS NOT NULL").select("valueBytes", "value").collect()
    assert (bytes(bad.valueBytes), bad.value) == (b"no schema", None)
    one = read.where("value.id = 7").select("value.*").first()
    assert (one.tags, one.half, one.sizes, one.inner.x) == (["a", "7"], 3.5, {"n": 7}, 7)
    if form != "json-schema":
        assert round(one.at.timestamp() * 1000) == 7
    dead = make_topic(partitions=1)
    topics.write(read.where("valueError IS NOT NULL").selectExpr("key", "valueBytes AS value"), dead)
    assert topics.values(dead) == ["no schema"]


@pytest.mark.parametrize("form", ["avro", "protobuf", "json-schema"])
def test_a_schema_that_the_subject_does_not_allow_ends_the_write_before_anything_is_written(
    topics, make_topic, registry, form
):
    topic = make_topic(partitions=1)
    options = {"valueFormat": form, "registry": registry}
    topics.write(topics.spark.sql("SELECT struct('a' AS id) AS value"), topic, **options)
    refusal = "not its type in the subject's schema" if form == "protobuf" else "incompatible with an earlier"
    with pytest.raises(Exception, match=refusal):
        topics.write(topics.spark.sql("SELECT struct(1 AS id) AS value"), topic, **options)
    assert topics.read(topic).count() == 1


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_a_schema_that_changes_midway_reads_old_and_new_values(
    topics, make_topic, registry, checkpoint, form
):
    """The stream keeps the columns that it was planned with; a query that begins later has the new ones."""
    topic = make_topic(partitions=1)
    options = {"valueFormat": form, "registry": registry}
    topics.write(
        topics.spark.sql("SELECT struct(id, 'old' AS name) AS value FROM range(3)"), topic, **options
    )
    stream = topics.stream(topic, **options).selectExpr("value.id", "value.name")
    newer = "SELECT struct(id, 'new' AS name, id * 2 AS twice) AS value FROM range(3, 6)"
    topics.write(topics.spark.sql(newer), topic, **options)
    name = f"seen_{topic.replace('-', '_')}"
    query = stream.writeStream.format("memory").queryName(name).option("checkpointLocation", checkpoint)
    running = query.trigger(availableNow=True).start()
    running.awaitTermination(120)
    seen = {(row.id, row.name) for row in topics.spark.table(name).collect()}
    assert seen == {(n, "old" if n < 3 else "new") for n in range(6)}
    rows = topics.read(topic, **options).selectExpr("value.id", "value.twice").orderBy("id").collect()
    assert [row.twice for row in rows] == [None, None, None, 6, 8, 10]


def test_values_of_confluents_serializer_and_references_are_read(topics, make_topic, registry):
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    topic = make_topic(partitions=1)
    client = SchemaRegistryClient({"url": registry})
    inner = {"type": "record", "name": "Inner", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
    client.register_schema(f"{topic}-inner", Schema(json.dumps(inner), "AVRO"))
    fields = [{"name": "id", "type": "string"}, {"name": "inner", "type": "n.Inner"}]
    outer = {"type": "record", "name": "Outer", "fields": fields}
    reference = SchemaReference("n.Inner", f"{topic}-inner", 1)
    serialize = AvroSerializer(client, Schema(json.dumps(outer), "AVRO", [reference]))
    context = SerializationContext(topic, MessageField.VALUE)
    send(topics, topic, *(serialize({"id": str(n), "inner": {"x": n}}, context) for n in range(3)))
    read = topics.read(topic, valueFormat="avro", registry=registry, valueMode="failfast")
    assert [(row.id, row.x) for row in read.select("value.id", "value.inner.x").orderBy("id").collect()] == [
        (str(n), n) for n in range(3)
    ]
    send(topics, topic, b"\0\0\0\0\x09x")
    again = topics.read(topic, valueFormat="avro", registry=registry, valueMode="failfast")
    with pytest.raises(Exception, match=rf"{topic}-0, offset 3"):
        again.select("value.id").collect()


@pytest.mark.parametrize("form", ["avro", "json-schema"])
def test_guids_in_headers_of_confluents_serializers_are_read_as_columns(topics, make_topic, registry, form):
    """Beside values with ids before them; without the column headers in the query."""
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, header_schema_id_serializer
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    topic = make_topic(partitions=1)
    client = SchemaRegistryClient({"url": registry})
    avro = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    plain = {"title": "R", "type": "object", "properties": {"n": {"type": "integer"}}}
    schema, kind = (avro, AvroSerializer) if form == "avro" else (plain, JSONSerializer)
    text = json.dumps(schema)
    given = Schema(text, "AVRO") if form == "avro" else text
    named = {"schema.id.serializer": header_schema_id_serializer}
    for number, settings in enumerate([named, {}, named]):
        headers: list[tuple[str, bytes]] = []
        context = SerializationContext(topic, MessageField.VALUE, headers)
        arguments = (client, given) if form == "avro" else (given, client)
        value = kind(*arguments, conf=settings)({"n": number}, context)
        assert bool(headers) == bool(settings)
        send(topics, topic, value, headers=headers)
    send(topics, topic, b"neither")
    read = topics.read(topic, valueFormat=form, registry=registry, valueMode="column", columns="value,offset")
    rows = read.selectExpr("value.n", "valueError IS NULL ok").orderBy("offset").collect()
    assert [(row.n, row.ok) for row in rows] == [(0, True), (1, True), (2, True), (None, False)]
