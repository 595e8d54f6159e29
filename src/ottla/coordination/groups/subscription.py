"""The bytes of the `consumer` protocol type inside classic messages: subscriptions and assignments."""

from collections.abc import Iterable

from ottla.errors import InvalidRequest
from ottla.wire import codec
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER = "consumer"
HIGHEST_VERSION = 3


def version_of(data: bytes) -> int:
    """Newer versions only add fields at the end: they are read as the newest that is known."""
    if len(data) < 2:
        raise InvalidRequest("no version in the bytes of the consumer protocol")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise InvalidRequest(f"version {version} of the consumer protocol")
    return min(version, HIGHEST_VERSION)


def parse_subscription(data: bytes) -> ConsumerProtocolSubscription:
    return codec.read(ConsumerProtocolSubscription, version_of(data), data, 2)[0]


def parse_assignment(data: bytes) -> dict[str, list[int]]:
    """Topic name to partitions; no bytes at all is no partition."""
    if not data:
        return {}
    assignment = codec.read(ConsumerProtocolAssignment, version_of(data), data, 2)[0]
    return {topic.topic: list(topic.partitions) for topic in assignment.assigned_partitions}


def write_assignment(partitions: dict[str, list[int]], version: int) -> bytes:
    topics = [
        AssignedTopic(topic=name, partitions=sorted(numbers)) for name, numbers in sorted(partitions.items())
    ]
    body = codec.write(ConsumerProtocolAssignment(assigned_partitions=topics, user_data=None), version)
    return version.to_bytes(2, "big") + bytes(body)


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that members of a classic group subscribe to; None when that cannot be told."""
    topics: set[str] = set()
    for data in subscriptions:
        try:
            version_of(data)  # that there is one; topics stand in front in all of them, so the first will do
            topics.update(codec.read(ConsumerProtocolSubscription, 0, data, 2)[0].topics)
        except InvalidRequest:
            return None
    return frozenset(topics)
