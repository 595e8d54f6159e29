"""Records through the public clients: what was written comes back, from every place and in every dress."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.compat import clients
from tests.compat.batches import NOW_MS
from tests.compat.clients import AioKafka, Client, Confluent, KafkaPython, Row
from tests.conftest import Target

Unique = Callable[[str], str]
PYTHON = (Confluent, KafkaPython, AioKafka)
_TIME = NOW_MS - 3_600_000
_DRESSES = [
    Row(b"value", b"key"),
    Row(b"value", None),
    Row(None, b"key"),
    Row(b"", b""),
    Row(b"v", b"k", (("one", b"1"), ("two", b""), ("one", b"again"))),
    Row(b"\0" * 1000, "schlüssel".encode()),
    Row(b"x"),
]


@pytest.fixture(params=PYTHON, ids=lambda each: each.name)
def client(request: pytest.FixtureRequest, target: Target) -> Client:
    made: Client = request.param(target.bootstrap)
    return made


@pytest.mark.parametrize("codec", clients.CODECS)
def test_every_codec_brings_back_what_was_written(client: Client, codec: str, unique: Unique) -> None:
    topic = unique(f"codec-{codec}")
    client.create(topic)
    rows = [row._replace(timestamp=_TIME + i) for i, row in enumerate(_DRESSES * 5)]
    client.produce(topic, rows, compression_type=codec)
    back = client.consume(topic, len(rows))
    assert [row._replace(offset=None) for row in back] == rows
    assert [row.offset for row in back] == list(range(len(rows)))


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting_stores_the_records(client: Client, acks: int | str, unique: Unique) -> None:
    topic = unique("acks")
    client.create(topic)
    client.produce(topic, [Row(b"%d" % i) for i in range(50)], acks=acks)
    assert [row.value for row in client.consume(topic, 50)] == [b"%d" % i for i in range(50)]


def test_reading_starts_at_any_offset_also_inside_a_batch(client: Client, unique: Unique) -> None:
    topic = unique("inside")
    client.create(topic)
    for start in (0, 7, 8):
        client.produce(topic, [Row(b"%d" % i) for i in range(start, {0: 7, 7: 8, 8: 15}[start])])
    for offset in (0, 1, 6, 7, 8, 9, 13, 14):
        assert client.consume(topic, 15 - offset, offset)[0].offset == offset
    with pytest.raises(Exception, match=r"(?i)offset"):
        client.consume(topic, 1, 99)


def test_a_time_finds_its_offset(client: Client, unique: Unique) -> None:
    topic = unique("times")
    client.create(topic)
    client.produce(topic, [Row(b"v", timestamp=_TIME + 10 * i) for i in range(20)])
    for delta, offset in {-5: 0, 0: 0, 1: 1, 10: 1, 95: 10, 190: 19}.items():
        assert client.offset_at(topic, _TIME + delta) == offset
    assert client.offset_at(topic, _TIME + 191) is None


@pytest.mark.parametrize("size", [1, 1000, 100_000, 900_000])
def test_values_of_every_size_fit(client: Client, size: int, unique: Unique) -> None:
    topic = unique("size")
    client.create(topic)
    client.produce(topic, [Row(b"v" * size)])
    assert client.consume(topic, 1)[0].value == b"v" * size


def test_the_largest_batch_fits_and_one_byte_more_does_not(client: Client, unique: Unique) -> None:
    topic, limit = unique("largest"), 2_000_000
    client.create(topic, configs={"max.message.bytes": str(limit)})
    overhead = (
        61 + 14
    )  # batch header; record: length 4, attributes, deltas 2, key, value length 4, headers, slack
    client.produce(topic, [Row(b"v" * (limit - overhead))], message_max_bytes=limit + 1000)
    with pytest.raises(Exception, match=r"(?i)size|large"):
        client.produce(topic, [Row(b"v" * (limit - 60))], message_max_bytes=limit + 1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{"acks": "all", "compression_type": "zstd"}, {"acks": "0", "compression_type": "lz4"}]
)
def test_java_writes_and_reads(target: Target, java: None, settings: dict[str, str], unique: Unique) -> None:
    topic, tools = unique("java"), clients.Java(target.bootstrap)
    Confluent(target.bootstrap).create(topic)
    if settings["acks"] == "0":
        settings = {**settings, "enable_idempotence": "false"}
    rows = [Row(b"value-%d" % i, b"key-%d" % i) for i in range(30)]
    tools.produce(topic, rows, **settings)  # type: ignore[arg-type]
    back = tools.consume(topic, 25, 5)
    assert [(row.key, row.value, row.offset) for row in back] == [
        (rows[i].key, rows[i].value, i) for i in range(5, 30)
    ]


@pytest.mark.slow
def test_java_finds_offsets_by_time(target: Target, java: None, unique: Unique) -> None:
    topic, client = unique("java-times"), Confluent(target.bootstrap)
    client.create(topic)
    times = [_TIME, _TIME + 30, _TIME + 20]
    client.produce(topic, [Row(b"v", timestamp=each) for each in times])
    tools = clients.Java(target.bootstrap)
    assert [tools.offset_at(topic, each) for each in (-2, -1, -3, _TIME + 5)] == [0, 3, 1, 1]


@pytest.mark.parametrize("codec", clients.CODECS)
def test_what_one_client_writes_all_read(target: Target, codec: str, unique: Unique) -> None:
    topic = unique("mixed")
    made = [each(target.bootstrap) for each in PYTHON]
    made[0].create(topic)
    for i, writer in enumerate(made):
        writer.produce(topic, [Row(b"%d" % i, b"k", (("h", b"v"),), _TIME + i)] * 10, compression_type=codec)
    first, *others = (reader.consume(topic, 30) for reader in made)
    assert all(each == first for each in others)


def test_log_append_time_replaces_the_clients(target: Target, unique: Unique) -> None:
    client, topic = Confluent(target.bootstrap), unique("append-time")
    client.create(topic, configs={"message.timestamp.type": "LogAppendTime"})
    client.produce(topic, [Row(b"v", timestamp=_TIME)], compression_type="gzip")
    (row,) = client.consume(topic, 1)
    assert row.timestamp is not None and row.timestamp > _TIME + 1_000_000


@pytest.mark.parametrize("codec", ["gzip", "zstd", "uncompressed", "producer"])
def test_the_topics_codec_wins(target: Target, codec: str, unique: Unique) -> None:
    client, topic = Confluent(target.bootstrap), unique("topic-codec")
    client.create(topic, configs={"compression.type": codec})
    rows = [row._replace(timestamp=_TIME) for row in _DRESSES]
    client.produce(topic, rows, compression_type="snappy")
    assert [row._replace(offset=None) for row in client.consume(topic, len(rows))] == rows


def test_an_idempotent_producer_keeps_order_with_many_requests_in_flight(
    target: Target, unique: Unique
) -> None:
    client, topic = Confluent(target.bootstrap), unique("idempotent")
    client.create(topic)
    rows = [Row(b"%d" % i) for i in range(5000)]
    offsets = client.produce(topic, rows, enable_idempotence=True, linger_ms=0, batch_num_messages=10)
    assert offsets == list(range(5000))
    assert [row.value for row in client.consume(topic, 5000)] == [row.value for row in rows]


def test_a_keyless_record_is_refused_by_a_compacted_topic(target: Target, unique: Unique) -> None:
    client, topic = Confluent(target.bootstrap), unique("compacted")
    client.create(topic, configs={"cleanup.policy": "compact"})
    with pytest.raises(KafkaException) as caught:
        client.produce(topic, [Row(b"v", None)])
    assert caught.value.args[0].code() == KafkaError.INVALID_RECORD


def test_deleted_records_are_gone(target: Target, unique: Unique) -> None:
    client, topic = Confluent(target.bootstrap), unique("truncated")
    client.create(topic)
    client.produce(topic, [Row(b"%d" % i) for i in range(10)])
    where = confluent_kafka.TopicPartition(topic, 0, 6)
    deleted = client.admin.delete_records([where])[where].result(60)
    assert deleted.low_watermark == 6
    assert [row.value for row in client.consume(topic, 4, 6)] == [b"6", b"7", b"8", b"9"]
    with pytest.raises(KafkaException):
        client.consume(topic, 1, 2)


def test_list_offsets_through_the_admin_client(target: Target, unique: Unique) -> None:
    client, topic = Confluent(target.bootstrap), unique("listed")
    client.create(topic)
    client.produce(topic, [Row(b"v", timestamp=_TIME + each) for each in (0, 50, 20)])
    spec = confluent_kafka.admin.OffsetSpec
    where = confluent_kafka.TopicPartition(topic, 0)
    for asked, expected in {spec.earliest(): 0, spec.latest(): 3, spec.max_timestamp(): 1}.items():
        assert client.admin.list_offsets({where: asked})[where].result(60).offset == expected
