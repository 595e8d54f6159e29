"""From one image to another: what a reader has to apply that fell behind what was trimmed."""

from collections.abc import Iterator

from ottla.metadata import security
from ottla.metadata.image import Image, Topic, changed, created
from ottla.metadata.records import (
    BrokerRegistered,
    BrokerStopping,
    BrokerUnfenced,
    BrokerUnregistered,
    ClusterCreated,
    ConfigSet,
    ControllerChanged,
    FeatureSet,
    ProducerIdsAllocated,
    Record,
    TopicCreated,
    TopicDeleted,
)


def differences(before: Image, after: Image) -> Iterator[Record]:
    """Records that make `before` equal to `after`, so that watchers of the image are given every change."""
    if before.cluster_id != after.cluster_id:
        yield ClusterCreated(after.cluster_id)
    yield ControllerChanged(after.controller_id, after.controller_epoch)
    for name in before.features.keys() | after.features.keys():
        if before.features.get(name) != after.features.get(name):
            yield FeatureSet(name, after.features.get(name, 0))
    yield from _brokers(before, after)
    yield from _topics(before, after)
    yield from _settings(before, after)
    yield from security.differences(before.security, after.security)
    yield ProducerIdsAllocated(-1, after.next_producer_id)


def _brokers(before: Image, after: Image) -> Iterator[Record]:
    for broker_id in before.brokers.keys() - after.brokers.keys():
        yield BrokerUnregistered(broker_id)
    for broker_id, broker in after.brokers.items():
        if before.brokers.get(broker_id) == broker:
            continue
        yield BrokerRegistered(
            broker_id, broker.epoch, broker.incarnation, broker.endpoints, broker.rack, broker.directories
        )
        if not broker.fenced:
            yield BrokerUnfenced(broker_id)
        if broker.stopping:
            yield BrokerStopping(broker_id)


def _topics(before: Image, after: Image) -> Iterator[Record]:
    for topic_id in before.topics_by_id.keys() - after.topics_by_id.keys():
        yield TopicDeleted(topic_id)
    for topic_id, topic in after.topics_by_id.items():
        old = before.topics_by_id.get(topic_id)
        if old is None:
            yield TopicCreated(topic.name, topic_id)
            old = Topic(topic.name, topic_id)
        have = len(old.partitions)
        for partition in topic.partitions:
            if partition.index >= have:
                yield created(partition)
            elif old.partitions[partition.index] != partition:
                yield changed(partition)


def _settings(before: Image, after: Image) -> Iterator[Record]:
    gone = {topic.name for topic in before.topics.values() if topic.topic_id not in after.topics_by_id}
    for kind, name in before.configured() | after.configured():
        old = {} if kind == 2 and name in gone else before.settings(kind, name)
        new = after.settings(kind, name)
        for key in old.keys() - new.keys():
            yield ConfigSet(kind, name, key, None)
        for key, value in new.items():
            if old.get(key) != value:
                yield ConfigSet(kind, name, key, value)
