"""Values through topics: ours and Confluent's serializers read each other's."""

import asyncio
import enum
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypedDict

import protoxy
import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer as ConfluentAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentAvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer as ConfluentProtobufDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as ConfluentProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory
from pydantic import BaseModel

from ottla import Consumer, Producer, aio
from ottla.serialization import (
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    JsonSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    XmlDeserializer,
    XmlSerializer,
)
from ottla.serialization.framing import (
    KEY_HEADER,
    VALUE_HEADER,
    BadValue,
    guid_header,
    indexes_of,
    indexes_to_bytes,
)
from ottla.serialization.registry_client import RegistryRefused

ORDER = (
    '{"type":"record","name":"Order","namespace":"shop","fields":'
    '[{"name":"id","type":"string"},{"name":"n","type":"int"}]}'
)
VALUE = {"id": "7", "n": 3}
JSON = (
    '{"title":"Order","type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer"}},'
    '"required":["id"]}'
)
CONTEXT = SerializationContext("orders", MessageField.VALUE)


class Ward(enum.Enum):
    NORTH = 1
    SOUTH = 2


@dataclass
class Visit:
    patient: str
    at: datetime
    ward: Ward
    tags: list[str]
    note: str | None = None
    minutes: int = 10


class Reading(TypedDict):
    device: str
    pulse: int


def order_class(folder):
    """The class of a message in one of two .proto files, of which one imports the other."""
    (folder / "item.proto").write_text('syntax = "proto3"; package shop; message Item { string sku = 1; }')
    (folder / "order.proto").write_text(
        'syntax = "proto3"; package shop; import "item.proto"; import "google/protobuf/timestamp.proto";'
        "message Ignored {} message Order { message Line { Item item = 1; int32 n = 2; } repeated Line lines = 1;"
        " google.protobuf.Timestamp at = 2; }"
    )
    pool = descriptor_pool.DescriptorPool()
    for file in protoxy.compile([folder / "order.proto"], includes=[folder], include_source_info=False).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_ours_reads_what_confluents_avro_wrote_and_the_other_way_round(client, confluent):
    theirs = ConfluentAvroSerializer(confluent, ORDER)(VALUE, CONTEXT)
    assert AvroDeserializer(client)(theirs) == VALUE
    ours = AvroSerializer(client, ORDER, topic="orders")(VALUE)
    assert ours == theirs
    assert ConfluentAvroDeserializer(confluent)(ours, CONTEXT) == VALUE


def test_ours_reads_what_confluents_json_wrote_and_the_other_way_round(client, confluent):
    theirs = JSONSerializer(JSON, confluent)(VALUE, CONTEXT)
    assert JsonSchemaDeserializer(client)(theirs) == VALUE
    ours = JsonSchemaSerializer(client, JSON, topic="orders")(VALUE)
    assert JSONDeserializer(JSON, schema_registry_client=confluent)(ours, CONTEXT) == VALUE
    assert ours[:5] == theirs[:5]


def test_ours_reads_what_confluents_protobuf_wrote_and_the_other_way_round(client, confluent, tmp_path):
    kind = order_class(tmp_path)
    order = kind()
    line = order.lines.add()
    line.item.sku, line.n = "apple", 3
    order.at.seconds = 1_700_000_000
    theirs = ConfluentProtobufSerializer(kind, confluent, {"use.deprecated.format": False})(order, CONTEXT)
    read = ProtobufDeserializer(client)(theirs)
    assert read.lines[0].item.sku == "apple" and read.at.seconds == 1_700_000_000
    ours = ProtobufSerializer(client, kind, topic="orders")(order)
    assert ours == theirs
    again = ConfluentProtobufDeserializer(kind, {"use.deprecated.format": False}, confluent)(ours, CONTEXT)
    assert again == order
    assert client.ask("GET", "/subjects") == ["item.proto", "orders-value"]
    text = client.ask("GET", "/subjects/orders-value/versions/1")["schema"]
    assert 'import "item.proto";' in text and "message Order" in text


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_guids_in_headers_are_read_and_written(client, confluent, tmp_path, kind):
    """Confluent's serializer and deserializer of each kind, unmodified, and ours; the values are the same bytes."""
    headers = {"schema.id.serializer": header_schema_id_serializer}
    value: Any = {"id": "long enough", "n": 3}
    serializer: Any
    deserializer: Any
    ours: Any
    our_reader: Any
    if kind == "avro":
        serializer = ConfluentAvroSerializer(confluent, ORDER, conf=headers)
        deserializer, our_reader = ConfluentAvroDeserializer(confluent), AvroDeserializer(client)
        ours = AvroSerializer(client, ORDER, topic="orders", ids="header")
    elif kind == "json":
        serializer = JSONSerializer(JSON, confluent, conf=headers)
        deserializer = JSONDeserializer(None, schema_registry_client=confluent)
        ours, our_reader = (
            JsonSchemaSerializer(client, JSON, topic="orders", ids="header"),
            JsonSchemaDeserializer(client),
        )
    else:
        message = order_class(tmp_path)
        value = message(lines=[message.Line(n=3), message.Line(n=4)])
        settings = {"use.deprecated.format": False}
        serializer = ConfluentProtobufSerializer(message, confluent, {**settings, **headers})
        deserializer = ConfluentProtobufDeserializer(message, settings, confluent)
        ours, our_reader = (
            ProtobufSerializer(client, message, topic="orders", ids="header"),
            ProtobufDeserializer(client),
        )
    context = SerializationContext("orders", MessageField.VALUE, headers=[])
    theirs = serializer(value, context)
    guid = client.ask("GET", "/subjects/orders-value/versions/1")["guid"]
    assert context.headers[0][0] == "__value_schema_id"
    path = b"\x02\x02" if kind == "protobuf" else b""  # to the second message of its file
    assert context.headers == [("__value_schema_id", guid_header(guid, path))]
    assert ours.headers_of(value) == context.headers
    written = ours(value)
    assert written == theirs or kind == "json"  # JSON may have spaces
    as_sent = SerializationContext("orders", MessageField.VALUE, headers=context.headers)
    assert deserializer(written, as_sent) == value
    read = our_reader(theirs, as_sent)
    assert read == value if kind != "protobuf" else read.lines[0].n == 3


def test_guids_in_headers_go_through_our_producers_and_consumers_by_themselves(broker, client):
    serializers: dict[str, Any] = {
        "value_serializer": AvroSerializer(client, ORDER, topic="by-guid", ids="header"),
        "key_serializer": JsonSchemaSerializer(client, JSON, topic="by-guid", ids="header", is_key=True),
    }
    with Producer(bootstrap_servers=broker.bootstrap, **serializers) as producer:
        producer.send("by-guid", VALUE, VALUE, headers=[("mine", b"1")])
        producer.send("by-guid", None, VALUE)

    async def send():
        async with aio.Producer(bootstrap_servers=broker.bootstrap, **serializers) as producer:
            await producer.send_and_wait("by-guid", VALUE)

    asyncio.run(send())
    records = broker.records("by-guid")
    names = [[name for name, _ in record.headers] for record in records]
    assert names == [["mine", VALUE_HEADER, KEY_HEADER], [KEY_HEADER], [VALUE_HEADER]]
    assert not records[0].value.startswith(b"\0\0\0\0")
    deserializers: dict[str, Any] = {
        "value_deserializer": AvroDeserializer(client),
        "key_deserializer": JsonSchemaDeserializer(client, is_key=True),
    }
    settings = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest"}
    with Consumer(settings, **deserializers) as consumer:
        consumer.assign([("by-guid", 0)])
        read = []
        while len(read) < 3:
            read += [(record.key, record.value) for record in consumer.poll(10.0)]
    assert read == [(VALUE, VALUE), (VALUE, None), (None, VALUE)]


def test_our_client_sends_dataclasses_and_reads_them(broker, client):
    visit = Visit("ann", datetime(2026, 11, 17, tzinfo=UTC), Ward.SOUTH, ["first"])
    serializer = AvroSerializer(client, Visit, topic="visits")
    with Producer(bootstrap_servers=broker.bootstrap, value_serializer=serializer) as producer:
        producer.send("visits", visit)
    settings = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest"}
    with Consumer(settings, value_deserializer=AvroDeserializer(client)) as consumer:
        consumer.assign([("visits", 0)])
        (record,) = consumer.poll(60.0)
    assert record.value == {
        "patient": "ann", "at": visit.at, "ward": "SOUTH", "tags": ["first"], "note": None, "minutes": 10,
    }  # fmt: skip


def test_typed_dicts_and_dataclasses_are_json_schemas_too(client):
    reading = JsonSchemaSerializer(client, Reading, topic="readings")
    assert JsonSchemaDeserializer(client)(reading({"device": "d", "pulse": 61})) == {
        "device": "d",
        "pulse": 61,
    }
    with pytest.raises(BadValue, match="pulse"):
        reading({"device": "d", "pulse": "high"})
    schema = client.ask("GET", "/subjects/readings-value/versions/1/schema")
    assert schema["required"] == ["device", "pulse"]


class Bed(BaseModel):
    ward: Ward
    number: int = 1


class Stay(BaseModel):
    patient: str
    beds: list[Bed]
    until: datetime | None = None


def test_pydantic_models_are_avro_and_json_schemas(client):
    stay = Stay(patient="ann", beds=[Bed(ward=Ward.SOUTH)])
    avro = AvroSerializer(client, Stay, topic="stays")
    bed = {"ward": "SOUTH", "number": 1}
    assert AvroDeserializer(client)(avro(stay)) == {"patient": "ann", "beds": [bed], "until": None}
    plain = JsonSchemaSerializer(client, topic="plain-stays")
    assert JsonSchemaDeserializer(client, build=Stay.model_validate)(plain(stay)) == stay
    assert JsonSerializer()(stay) == stay.model_dump_json().encode()


def test_json_and_xml_need_no_registry_and_refuse_what_is_none():
    assert JsonDeserializer()(JsonSerializer()({"ä": [1, None]})) == {"ä": [1, None]}
    for value in ({"a": {1, 2}}, float("nan")):
        with pytest.raises(BadValue, match="cannot be written as JSON"):
            JsonSerializer()(value)
    with pytest.raises(BadValue, match="is not JSON"):
        JsonDeserializer()(b"{")
    text = '<?xml version="1.0" encoding="ISO-8859-1"?><a b="ä">ü</a>'
    data = XmlSerializer()(text)
    assert data == text.encode("latin-1") and XmlDeserializer()(data) == text
    element = XmlDeserializer(elements=True)(data)
    assert (element.get("b"), element.text) == ("ä", "ü")
    assert XmlDeserializer()(XmlSerializer()(element)) == '<a b="ä">ü</a>'
    for wrong, reason in (("<a>", "no element found"), (b"x", "syntax error"), (7, "a int is no XML")):
        with pytest.raises(BadValue, match=reason):
            XmlSerializer()(wrong)
    laughs = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    with pytest.raises(BadValue, match="is not XML"):
        XmlDeserializer()(f'<!DOCTYPE a [<!ENTITY a0 "ha">{laughs}]><a>&a9;</a>'.encode())
    for convert in (JsonSerializer(), JsonDeserializer(), XmlSerializer(), XmlDeserializer()):
        assert convert(None) is None


def test_a_value_that_does_not_fit_and_bytes_without_a_schema_are_refused_in_words(client):
    with pytest.raises(BadValue, match="does not fit its Avro schema"):
        AvroSerializer(client, ORDER, topic="orders")({"id": 7})
    with pytest.raises(BadValue, match="written without a registry's serializer"):
        AvroDeserializer(client)(b'{"id": 7}')
    data = AvroSerializer(client, ORDER, topic="orders")(VALUE)
    with pytest.raises(BadValue, match="is not what schema 1 says"):
        AvroDeserializer(client)(data[:6])


PROTO = 'syntax = "proto3"; message Order { string id = 1; }'


@pytest.mark.parametrize(
    ("schema", "schema_type"),
    [(ORDER, "AVRO"), (JSON, "JSON"), (PROTO, "PROTOBUF")],
    ids=["avro", "json", "protobuf"],
)
def test_a_value_with_a_schema_of_another_type_is_refused_in_words(client, schema, schema_type):
    schema_id = client.register("others-value", schema, schema_type).schema_id
    deserializers = AvroDeserializer, JsonSchemaDeserializer, ProtobufDeserializer
    for deserialize in (kind(client) for kind in deserializers if kind.schema_type != schema_type):
        with pytest.raises(BadValue, match=f"its schema {schema_id} is of type {schema_type}, not"):
            deserialize(b"\0" + schema_id.to_bytes(4, "big") + b"x")


def test_a_reader_with_a_newer_schema_gets_its_defaults(client):
    data = AvroSerializer(client, ORDER, topic="orders")(VALUE)
    newer = ORDER.replace("]}", ',{"name":"note","type":"string","default":"none"}]}')
    assert AvroDeserializer(client, newer)(data) == {**VALUE, "note": "none"}


@pytest.mark.parametrize(
    ("subjects", "expected"),
    [("topic", "orders-value"), ("record", "shop.Order"), ("topic-record", "orders-shop.Order")],
)
def test_subjects_are_named_by_topic_by_record_or_by_both(client, subjects, expected):
    AvroSerializer(client, ORDER, topic="orders", subjects=subjects)(VALUE)
    assert client.subjects() == [expected]


def test_schemas_with_references_are_resolved_on_both_sides(client):
    client.register("item", '{"type":"record","name":"shop.Item","fields":[{"name":"sku","type":"string"}]}')
    order = '{"type":"record","name":"Order","fields":[{"name":"item","type":"shop.Item"}]}'
    client.register("orders-value", order, "AVRO", [{"name": "shop.Item", "subject": "item", "version": 1}])
    serializer = AvroSerializer(client, order, topic="orders", use_latest=True)
    value = {"item": {"sku": "apple"}}
    assert AvroDeserializer(client)(serializer(value)) == value


def test_json_schemas_whose_references_have_references_are_resolved(client):
    client.register("sku", '{"type":"string"}', "JSON")
    sku = [{"name": "sku.json", "subject": "sku", "version": 1}]
    client.register("item", '{"properties":{"sku":{"$ref":"sku.json"}}}', "JSON", sku)
    order = '{"properties":{"item":{"$ref":"item.json"}}}'
    client.register("orders-value", order, "JSON", [{"name": "item.json", "subject": "item", "version": 1}])
    serializer = JsonSchemaSerializer(client, order, topic="orders", use_latest=True)
    value = {"item": {"sku": "apple"}}
    assert JsonSchemaDeserializer(client)(serializer(value)) == value
    with pytest.raises(BadValue, match="item/sku"):
        serializer({"item": {"sku": 7}})


@pytest.mark.parametrize("word", ["$schema", "$ref"])
def test_no_address_that_a_json_schema_names_is_fetched(client, word):
    """A server that never answers would hold up every caller, the registry and the broker too."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(0)
        schema = {word: f"http://127.0.0.1:{silent.getsockname()[1]}/schema.json", "type": "object"}
        with pytest.raises((BadValue, RegistryRefused)):
            JsonSchemaSerializer(client, schema, topic="orders")({"a": 1})
        with pytest.raises(BlockingIOError):
            silent.accept()


@pytest.mark.parametrize("path", [[0], [1], [0, 2], [3, 0, 300]])
def test_paths_to_messages_survive(path):
    data = b"x" + indexes_to_bytes(path) + b"rest"
    indexes, begin = indexes_of(data, 1)
    assert indexes == path and data[begin:] == b"rest"


NODE = '{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"]},{"name":"n","type":"int"}]}'
NOTHINGS = '{"type":"array","items":"null"}'


def framed(client, schema, payload):
    registered = client.register("hostile-value", schema)
    return b"\0" + registered.schema_id.to_bytes(4, "big") + payload


def test_a_value_that_refers_to_itself_is_read_unless_it_is_too_deep_for_the_reader(client):
    read = AvroDeserializer(client)
    levels = 50
    value = read(framed(client, NODE, b"\2" * levels + b"\0" + b"\2" * (levels + 1)))
    for _ in range(levels):
        value = value["next"]
    assert value == {"next": None, "n": 1}
    with pytest.raises(BadValue, match="too deep"):
        read(framed(client, NODE, b"\2" * 100_000 + b"\0" + b"\2" * 100_001))


def test_a_few_bytes_do_not_become_an_endless_list(client):
    read = AvroDeserializer(client)
    assert read(framed(client, NOTHINGS, b"\6\0")) == [None] * 3
    with pytest.raises(BadValue, match="items"):
        read(framed(client, NOTHINGS, b"\x80\x94\xeb\xdc\x03\0"))  # half a billion of them
