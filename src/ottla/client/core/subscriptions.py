"""What members of a classic group tell each other: subscriptions and assignments, to and from bytes."""

import struct
from collections.abc import Iterable, Sequence

from ottla.client.values import TopicPartition
from ottla.frozen import frozen
from ottla.ports import Buffer
from ottla.wire import codec
from ottla.wire.messages import consumer_protocol_assignment as assignments
from ottla.wire.messages import consumer_protocol_subscription as subscriptions

_VERSION = struct.Struct(">h")
SUBSCRIPTION_VERSION, ASSIGNMENT_VERSION = 3, 3


@frozen
class Subscription:
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    owned = [subscriptions.TopicPartition(topic=t, partitions=p) for t, p in _grouped(subscription.owned)]
    message = subscriptions.ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        owned_partitions=owned,
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    message.user_data = None
    return _VERSION.pack(SUBSCRIPTION_VERSION) + bytes(codec.write(message, SUBSCRIPTION_VERSION))


def decode_subscription(data: Buffer) -> Subscription:
    """Newer versions only add at the end, so they are read as the newest that we know."""
    version = min(_VERSION.unpack_from(data)[0], SUBSCRIPTION_VERSION)
    subscription, _ = codec.read(subscriptions.ConsumerProtocolSubscription, version, data, 2)
    owned = tuple(TopicPartition(t.topic, p) for t in subscription.owned_partitions for p in t.partitions)
    return Subscription(tuple(subscription.topics), owned, subscription.generation_id, subscription.rack_id)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    assigned = [assignments.TopicPartition(topic=t, partitions=p) for t, p in _grouped(partitions)]
    message = assignments.ConsumerProtocolAssignment(assigned_partitions=assigned)
    message.user_data = None
    return _VERSION.pack(ASSIGNMENT_VERSION) + bytes(codec.write(message, ASSIGNMENT_VERSION))


def decode_assignment(data: Buffer) -> Sequence[TopicPartition]:
    if len(data) < 2:
        return ()
    version = min(_VERSION.unpack_from(data)[0], ASSIGNMENT_VERSION)
    assignment, _ = codec.read(assignments.ConsumerProtocolAssignment, version, data, 2)
    return [TopicPartition(t.topic, p) for t in assignment.assigned_partitions for p in t.partitions]


def _grouped(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return list(topics.items())
