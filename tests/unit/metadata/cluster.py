"""A cluster on paper for tests of decisions: brokers by number, topics, and `carry_out`."""

from itertools import count

from ottla.config.settings import Config
from ottla.metadata import brokers, topics
from ottla.metadata.image import Image
from ottla.metadata.records import BrokerRegistered, BrokerUnfenced, Endpoint
from ottla.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig


class Cluster:
    def __init__(self, *broker_ids, racks=None, config=None):
        self.image = Image()
        self.config = Config(config)
        self.written = []
        self._ids = count(1)
        for broker_id in broker_ids:
            rack = (racks or {}).get(broker_id)
            self.write(BrokerRegistered(broker_id, broker_id, self.incarnation(), ENDPOINTS, rack))
            self.write(BrokerUnfenced(broker_id))

    def incarnation(self):
        return next(self._ids).to_bytes(16, "big")

    def write(self, *records):
        self.image.apply_entry(self.image.position, records)
        self.written.extend(records)

    def carry_out(self, decision):
        self.write(*decision.records)
        return decision.answer

    def create(self, *topics_wanted):
        new_id = self.incarnation
        return self.carry_out(topics.create_topics(topics_wanted, self.image, self.config, new_id))

    def lose(self, broker_id):
        self.carry_out(brokers.lost(broker_id, self.image, self.config))

    def stop(self, broker_id):
        epoch = self.image.brokers[broker_id].epoch
        return self.carry_out(brokers.stop(broker_id, epoch, self.image, self.config))

    def restart(self, broker_id, *, clean=True, ready=False):
        registered = brokers.register(
            broker_id,
            self.incarnation(),
            ENDPOINTS,
            None,
            self.image,
            self.config,
            clean=clean,
            ready=ready,
        )
        return self.carry_out(registered)

    def unfence(self, broker_id):
        epoch = self.image.brokers[broker_id].epoch
        self.carry_out(brokers.unfence(broker_id, epoch, self.image, self.config))

    def partition(self, topic="t", index=0):
        return self.image.partition(topic, index)


ENDPOINTS = (Endpoint("PLAINTEXT", "localhost", 9092),)


def topic(name="t", partitions=-1, replicas=-1, assignments=(), **configs):
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
            for index, ids in assignments
        ],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )
