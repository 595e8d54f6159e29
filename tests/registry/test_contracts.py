"""Contracts in the broker: records must name a registered schema, or be what it says."""

import json
import struct
import uuid
from typing import NamedTuple

import pytest

from ottla import Producer, errors
from ottla.registry import decisions, formats
from ottla.registry.contracts import Schemas, record_names
from ottla.registry.records import DELETE_SUBJECT, SCHEMA, Key
from ottla.registry.state import Content
from ottla.serialization import AvroSerializer, JsonSchemaSerializer, ProtobufSerializer, RegistryClient
from ottla.serialization.avro_check import AvroCheck
from ottla.server.node import memory_disk
from ottla.testing import Broker, Cluster
from ottla.wire import batch, compression
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record
from tests.integration.nodes import broker as running_broker
from tests.integration.nodes import run
from tests.registry.test_serializers import order_class
from tests.registry.test_store import UNREADABLE, schema_record

ORDER = (
    '{"type":"record","name":"Order","namespace":"shop","fields":'
    '[{"name":"id","type":"string"},{"name":"n","type":"int"}]}'
)
OTHER = '{"type":"record","name":"Other","namespace":"shop","fields":[{"name":"x","type":"long"}]}'
BY_ID = {"confluent.value.schema.validation": "true"}
IN_FULL = {"ottla.value.schema.validate": "full"}


@pytest.fixture(scope="module")
def broker():
    with Broker(registry=True) as broker:
        yield broker


@pytest.fixture
def registry(broker):
    return RegistryClient(broker.registry)


@pytest.fixture
def topic(broker, request):
    """Makes the topic of the test with these settings."""

    def made(settings):
        return broker.create_topic("t" + uuid.uuid4().hex[:8], 1, settings)

    return made


class Asked(NamedTuple):
    """What a topic asks of its keys or values."""

    field: str
    strategy: str


def with_id(schema_id, payload=b""):
    return struct.pack(">bi", 0, schema_id) + payload


def sent(broker, topic, *records, **settings):
    """Sends records (value, key) in one batch: nothing leaves before the last of them is there."""
    settings |= {"linger_ms": 100_000, "delivery_timeout_ms": 300_000}
    with Producer(bootstrap_servers=broker.bootstrap, **settings) as producer:
        deliveries = [producer.send(topic, value, key) for value, key in records]
        producer.flush()
        return [delivery.result(60) for delivery in deliveries]


def refused(broker, topic, *records, **settings):
    with pytest.raises(errors.InvalidRecord) as failure:
        sent(broker, topic, *records, **settings)
    return str(failure.value)


def test_a_value_must_name_a_schema_of_its_subject_and_a_tombstone_needs_none(broker, registry, topic):
    name = topic(BY_ID)
    schema_id = registry.register(f"{name}-value", ORDER).schema_id
    other = registry.register("somebody-else-value", OTHER).schema_id
    sent(broker, name, (with_id(schema_id), b"k"), (None, b"k"))
    assert "id 9999, is not registered under the subject" in refused(broker, name, (with_id(9999), b"k"))
    assert f"id {other}, is not registered" in refused(broker, name, (with_id(other), b"k"))
    words = refused(broker, name, (with_id(schema_id), b"k"), (b"plain text", b"k"))
    assert "record 1: the value names no schema" in words
    assert [record.value for record in broker.records(name)] == [with_id(schema_id), None]


def test_keys_are_checked_by_themselves(broker, registry, topic):
    name = topic({"confluent.key.schema.validation": "true"})
    schema_id = registry.register(f"{name}-key", '"string"').schema_id
    sent(broker, name, (b"anything", with_id(schema_id)), (b"anything", None))
    assert "the key names no schema" in refused(broker, name, (b"anything", b"k"))


@pytest.mark.parametrize(("key", "value"), UNREADABLE)
def test_a_record_that_cannot_be_read_does_not_end_the_brokers_reading(key, value):
    schemas = Schemas()
    good = [part.encode() for part in schema_record({"subject": "bad-value", "version": 2}, id=9)]
    schemas.apply(*good)
    schemas.apply(key.replace('"bad"', '"bad-value"').encode(), value.encode())
    for strategy in ("topic", "record", "topic-record"):
        allowed = schemas.allowed("bad", Asked("value", strategy))
        assert allowed.ids == (struct.pack("=i", 9) if strategy == "topic" else b"")


def test_a_schema_of_another_registry_that_nests_deep_has_no_names():
    assert list(record_names(Content("[" * 100_000))) == []


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_checked_too(broker, registry, topic, codec):
    name = topic(BY_ID)
    schema_id = registry.register(f"{name}-value", ORDER).schema_id
    good = [(with_id(schema_id, b"x" * 100), b"k")] * 20
    sent(broker, name, *good, compression_type=codec)
    assert "record 20: the value's schema, id 77777" in refused(
        broker, name, *good, (with_id(77777), b"k"), compression_type=codec
    )
    assert len(broker.records(name)) == 20


def test_an_id_counts_from_the_moment_its_registration_is_answered(broker, registry, topic):
    name = topic(BY_ID)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(20):
            schema = f'{{"type":"record","name":"R{name}{number}","fields":[]}}'
            registry.ask("PUT", f"/config/{name}-value", {"compatibility": "NONE"})
            schema_id = registry.register(f"{name}-value", schema).schema_id
            producer.send(name, with_id(schema_id)).result(60)


def test_a_deleted_schema_is_refused(broker, registry, topic):
    name = topic(BY_ID)
    schema_id = registry.register(f"{name}-value", ORDER).schema_id
    sent(broker, name, (with_id(schema_id), None))
    registry.ask("DELETE", f"/subjects/{name}-value")
    refused(broker, name, (with_id(schema_id), None))


def test_a_schema_whose_transaction_was_aborted_is_none(broker, registry, topic):
    """The registry is fenced meanwhile, as by another one that is killed before it commits."""
    name = topic(BY_ID)
    value = {"subject": f"{name}-value", "version": 1, "id": 5000, "schema": ORDER, "deleted": False}
    key = Key(SCHEMA, f"{name}-value", 1).to_bytes()
    with Producer(
        bootstrap_servers=broker.bootstrap, transactional_id="schema-registry-_schemas"
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("_schemas", json.dumps(value).encode(), key).result(60)
        refused(broker, name, (with_id(5000), None))  # it is not decided yet
        producer.abort_transaction()
    refused(broker, name, (with_id(5000), None))
    schema_id = registry.register(f"{name}-value", ORDER).schema_id
    sent(broker, name, (with_id(schema_id), None))
    refused(broker, name, (with_id(5000), None))


def test_ids_in_headers_count_as_well(broker, registry, topic):
    name = topic(BY_ID)
    serializer = AvroSerializer(registry, ORDER, topic=name, ids="header")
    value = {"id": "7", "n": 3}
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send(name, serializer(value), headers=serializer.headers_of(value)).result(60)
        with pytest.raises(errors.InvalidRecord, match="by its GUID, is not registered"):
            header = ("__value_schema_id", b"\1" + bytes(16))
            producer.send(name, serializer(value), headers=[header]).result(60)


def test_a_message_of_protobuf_has_its_path_in_the_header(broker, registry, topic, tmp_path):
    name, kind = topic({"ottla.value.schema.validate": "full"}), order_class(tmp_path)
    serializer = ProtobufSerializer(registry, kind, topic=name, ids="header")
    value = kind(lines=[kind.Line(n=3)])
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        headers = serializer.headers_of(value)
        producer.send(name, serializer(value), headers=headers).result(60)
        with pytest.raises(errors.InvalidRecord, match="lines"):
            producer.send(name, b"\x08\x01", headers=headers).result(60)


def test_subjects_by_the_names_of_records(broker, registry, topic):
    strategy = "io.confluent.kafka.serializers.subject.RecordNameStrategy"
    name = topic({**BY_ID, "confluent.value.subject.name.strategy": strategy})
    right = registry.register("shop.Order", ORDER).schema_id
    wrong = registry.register(f"{name}-value", OTHER).schema_id
    sent(broker, name, (with_id(right), None))
    assert "by the name of its record" in refused(broker, name, (with_id(wrong), None))
    both = topic({**BY_ID, "confluent.value.subject.name.strategy": "topic-record"})
    refused(broker, both, (with_id(right), None))
    assert registry.register(f"{both}-shop.Order", ORDER).schema_id == right
    sent(broker, both, (with_id(right), None))


def test_names_of_records_by_the_kind_of_schema():
    proto = 'syntax = "proto3"; package shop; message Order { message Line {} }'
    assert "shop.Order" in set(record_names(Content(proto, "PROTOBUF")))
    assert list(record_names(Content('{"title":"Order"}', "JSON"))) == ["Order"]
    assert list(record_names(Content('"string"'))) == []


@pytest.mark.parametrize("transactional", [False, True])
def test_a_refused_batch_leaves_producer_and_transaction_usable(broker, registry, topic, transactional):
    """Idempotent and transactional producers go on; the markers of transactions are no records and not checked."""
    name = topic(BY_ID)
    schema_id = registry.register(f"{name}-value", ORDER).schema_id
    more = {"transactional_id": f"x-{name}"} if transactional else {"enable_idempotence": True}
    with Producer(bootstrap_servers=broker.bootstrap, **more) as producer:
        if transactional:
            producer.init_transactions()
            producer.begin_transaction()
        with pytest.raises(errors.InvalidRecord):
            producer.send(name, b"no schema").result(60)
        if transactional:
            producer.abort_transaction()
            producer.begin_transaction()
        producer.send(name, with_id(schema_id)).result(60)
        if transactional:
            producer.commit_transaction()
    assert [record.value for record in broker.records(name)] == [with_id(schema_id)]


# -- full validation -----------------------------------------------------------------------------------


def test_a_value_that_is_not_what_its_avro_schema_says_is_refused_with_the_field(broker, registry, topic):
    name = topic(IN_FULL)
    serializer = AvroSerializer(registry, ORDER, topic=name)
    good = serializer({"id": "7", "n": 3})
    sent(broker, name, (good, None), (None, b"k"))
    words = refused(broker, name, (good, None), (good[:-1], None))
    assert "record 1: value: field n: the value ends" in words
    assert "bytes are left over" in refused(broker, name, (good + b"x", None))


def test_json_and_protobuf_values_are_checked_too(broker, registry, topic, tmp_path):
    name = topic(IN_FULL)
    schema = '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'
    serializer = JsonSchemaSerializer(registry, schema, topic=name)
    good = serializer({"n": 1})
    sent(broker, name, (good, None), compression_type="zstd")
    assert "value: n: " in refused(broker, name, (good[:5] + b'{"n":"one"}', None))
    assert "is not JSON" in refused(broker, name, (good[:5] + b"{", None))
    name = topic(IN_FULL)
    kind = order_class(tmp_path)
    value = kind(lines=[kind.Line(n=3)])
    good = ProtobufSerializer(registry, kind, topic=name)(value)
    prefix = good[: -len(value.SerializeToString())]
    sent(broker, name, (good, None))
    assert "field at: the bytes are of another type" in refused(broker, name, (prefix + b"\x10\x01", None))
    assert "field lines.n: " in refused(broker, name, (prefix + b"\x0a\x03\x12\x01a", None))
    assert "is not what schema" in refused(broker, name, (prefix + b"\x0a\x7f", None))


def test_a_large_batch_is_checked_in_full_in_parts(broker, registry, topic):
    name = topic(IN_FULL)
    good = AvroSerializer(registry, ORDER, topic=name)({"id": "7", "n": 3})
    sent(broker, name, *[(good, None)] * 3000, batch_size=1_000_000)
    assert "record 2999: value: field n" in refused(
        broker, name, *[(good, None)] * 2999, (good[:-1], None), batch_size=1_000_000
    )


def test_record_errors_name_the_records_and_a_topic_that_another_registry_wrote_counts():
    value = {"subject": "t-value", "version": 1, "id": 7, "schema": ORDER, "deleted": False}
    records = [Record(0, 1, Key(SCHEMA, "t-value", 1).to_bytes(), json.dumps(value).encode())]
    good = with_id(7, b"\x02a\x02")
    bad = [good, with_id(7, b"\x02a"), good, b"zzzzzzz", with_id(8)]

    async def scenario():
        async with running_broker([memory_disk()]) as (_, client):
            await client.create("_schemas", cleanup_policy="compact")
            await client.create("t", **BY_ID)
            await client.create("f", **IN_FULL, **{"confluent.value.subject.name.strategy": "record"})

            async def produced(topic, batch):
                data = TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=0, records=batch)]
                )
                answer = await client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]))
                return answer.responses[0].partition_responses[0]

            before = await produced("t", a_batch([good]))
            assert before.error_code == errors.InvalidRecord.code
            assert (await produced("_schemas", batch.build(records))).error_code == 0
            assert (await produced("t", a_batch([good]))).error_code == 0
            answer = await produced("t", a_batch(bad, compression.ZSTD))
            assert answer.error_code == errors.InvalidRecord.code
            assert [error.batch_index for error in answer.record_errors] == [3, 4]
            assert "id 8" in answer.record_errors[1].batch_index_error_message
            named = {**value, "subject": "shop.Order"}
            key = Key(SCHEMA, "shop.Order", 1).to_bytes()
            assert (
                await produced("_schemas", batch.build([Record(0, 1, key, json.dumps(named).encode())]))
            ).error_code == 0
            answer = await produced("f", a_batch(bad[:3]))
            assert [error.batch_index for error in answer.record_errors] == [1]
            assert "field n" in answer.record_errors[0].batch_index_error_message

    def a_batch(values, codec=0):
        return batch.build([Record(at, 1, None, value) for at, value in enumerate(values)], codec=codec)

    run(scenario())


# -- several brokers -----------------------------------------------------------------------------------


def test_a_broker_that_does_not_lead_the_registrys_topic_asks_its_leader():
    with Cluster(brokers=2, default_replication_factor=1) as cluster:
        from ottla.testing.registry import BrokerRegistry

        registry = BrokerRegistry({"bootstrap.servers": cluster.bootstrap})
        try:
            client = RegistryClient(registry.address)
            cluster.create_topic("t", 4, {**BY_ID, "min.insync.replicas": "1"}, replication_factor=1)
            schema_id = client.register("t-value", ORDER).schema_id
            with Producer(bootstrap_servers=cluster.bootstrap) as producer:
                for number in range(10):
                    for partition in range(4):
                        producer.send("t", with_id(schema_id), partition=partition).result(60)
                        with pytest.raises(errors.InvalidRecord):
                            producer.send("t", with_id(4711), partition=partition).result(60)
                    schema = ORDER.replace('"int"', '"int","default":' + str(number))
                    schema_id = client.register("t-value", schema).schema_id
        finally:
            registry.stop()


# -- one writer ----------------------------------------------------------------------------------------


def test_nobody_but_the_registry_writes_to_its_topic(broker, registry):
    registry.register("writers", '"int"')
    for more in ({}, {"enable_idempotence": True}):
        with (
            Producer(bootstrap_servers=broker.bootstrap, **more) as producer,
            pytest.raises(errors.PolicyViolation, match="schema-registry-_schemas"),
        ):
            producer.send("_schemas", b"{}", b"x").result(60)
    with Producer(bootstrap_servers=broker.bootstrap, transactional_id="mine") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(errors.PolicyViolation):
            producer.send("_schemas", b"{}", b"x").result(60)
        producer.abort_transaction()
    assert registry.register("writers-2", '"long"').schema_id > 0


# -- parts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "data", "fault"),
    [
        ('["null","string"]', b"\x02\x02a", None),
        ('["null","string"]', b"\x04", "branch 2 of a union that has 2"),
        (
            '{"type":"array","items":"null"}',
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0",
            "more items than bytes",
        ),
        ('{"type":"array","items":"int"}', b"\x03\x04\x02\x04\0", None),
        ('{"type":"map","values":"boolean"}', b"\x02\x02a\x02\0", "2 where a boolean"),
        ('{"type":"enum","name":"E","symbols":["A"]}', b"\x02", "symbol 1 of an enum that has 1"),
        ('{"type":"fixed","name":"F","size":4}', b"abc", "4 bytes are needed and 3"),
        ('"string"', b"\x02\xff", "no UTF-8"),
        ('"string"', b"\x04a", "a length of 2 where 1 bytes"),
        ('"int"', b"\xff\xff\xff\xff\x1f", "does not fit an int"),
        ('"long"', b"\x80" * 11, "too long"),
        (
            '{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}',
            b"\x02\x02\x02\0",
            None,
        ),
        (
            '{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}',
            b"\x02\x02\x06",
            "field next.next.next: branch 3",
        ),
        (
            '{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}',
            b"\x02" * 100_000,
            "nested too deep",
        ),
    ],
)
def test_avro_bytes_are_read_as_the_schema_says(schema, data, fault):
    told = AvroCheck(json.loads(schema)).fault(data)
    assert told is None if fault is None else fault in (told or "")


def test_what_was_deleted_for_good_is_not_allowed_any_more():
    schemas = Schemas()

    class Terms:
        field, strategy = "value", "topic"

    value = {"subject": "t-value", "version": 1, "id": 7, "schema": ORDER}
    key = Key(SCHEMA, "t-value", 1).to_bytes()
    schemas.apply(key, json.dumps(value).encode())
    assert schemas.allowed("t", Terms()).ids == struct.pack("=i", 7)
    schemas.apply(Key(DELETE_SUBJECT, "t-value").to_bytes(), b'{"subject":"t-value","version":1}')
    assert schemas.allowed("t", Terms()).ids == b""
    schemas.apply(b"not a key", b"{")
    schemas.apply(key, None)
    assert schemas.allowed("t", Terms()).guids == b""


def test_the_loop_does_not_wait_for_a_schema_that_is_being_parsed(monkeypatch):
    """New schemas are applied on the loop; a long one is parsed on a thread."""
    schemas, applied = Schemas(), []

    def slow(content, references):
        is_free = schemas._changing.acquire(timeout=30)
        applied.append(is_free)
        if is_free:
            schemas._changing.release()
        return formats.parse(content, references)

    monkeypatch.setattr(decisions, "parse", slow)
    assert schemas._check(Content(ORDER))(b"") is not None
    assert applied == [True]
