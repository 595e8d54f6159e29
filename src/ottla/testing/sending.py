"""Records sent from inside, through the Produce handler: input for the code under test, without a client."""

from collections.abc import Mapping, Sequence

from ottla.broker.broker import Broker
from ottla.errors import NONE, UnknownTopicOrPartition, error_for
from ottla.testing.asking import ask
from ottla.testing.inspect import TopicRecord
from ottla.wire import batch as batches
from ottla.wire.kernel import murmur2
from ottla.wire.records import Record

Text = bytes | str | None
Headers = Mapping[str, Text] | Sequence[tuple[str, Text]]
ACKS_ALL = -1
TIMEOUT_MS = 30_000


def partition_for(key: Text, count: int) -> int:
    """As Kafka's default partitioner; records without a key go to partition 0, so that a test can rely on it."""
    raw = as_bytes(key)
    return 0 if raw is None else (murmur2(raw) & 0x7FFFFFFF) % count


async def ensure_topic(broker: Broker, topic: str) -> int:
    """The number of its partitions; the topic is created if the broker's settings allow it."""
    from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    (described,) = (await ask(broker, request)).topics
    if described.error_code != NONE:
        raise error_for(described.error_code, f"topic {topic}")
    return len(described.partitions)


async def send(
    broker: Broker, topic: str, partition: int, key: Text, value: Text, headers: Headers, timestamp_ms: int
) -> TopicRecord:
    from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    known = broker.image.topics.get(topic)
    if known is None:
        raise UnknownTopicOrPartition(f"there is no topic {topic}")
    pairs = tuple(headers.items() if isinstance(headers, Mapping) else headers)
    encoded = tuple((name, as_bytes(text)) for name, text in pairs)
    record = Record(0, timestamp_ms, as_bytes(key), as_bytes(value), encoded)
    data = PartitionProduceData(index=partition, records=bytes(batches.build([record])))
    wanted = TopicProduceData(name=topic, topic_id=known.topic_id, partition_data=[data])
    request = ProduceRequest(acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, topic_data=[wanted])
    (response,) = (await ask(broker, request)).responses[0].partition_responses
    if response.error_code != NONE:
        raise error_for(response.error_code, response.error_message)
    return TopicRecord(
        topic, partition, response.base_offset, timestamp_ms, record.key, record.value, encoded
    )


def as_bytes(text: Text) -> bytes | None:
    return text.encode() if isinstance(text, str) else text
