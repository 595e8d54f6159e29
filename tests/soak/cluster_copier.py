"""python -m tests.soak.cluster_copier: exactly once across the loss of brokers, counted at the end.

Not among the tests: now and then the copier is silent for half a minute after its group coordinator is lost. In
the stalls looked at, no broker had a request of it to answer; why is not known yet.
"""

import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.cluster.load import QUIET, create, read_all
from tests.cluster.local import LocalCluster

COUNT = 600


def main():
    with LocalCluster(3) as cluster:
        create(cluster.bootstrap, "in", partitions=2)
        create(cluster.bootstrap, "out", partitions=2)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, **QUIET})
        for number in range(COUNT):
            producer.produce("in", str(number).encode(), partition=number % 2)
        assert producer.flush(20) == 0
        copier = Copier(cluster.bootstrap)
        copier.start()
        for victim in (1, 2, 3):
            copier.wait_for(100)
            cluster.kill(victim)
            time.sleep(1)
            cluster.start(victim)
            for topic in ("in", "out", "__transaction_state", "__consumer_offsets"):
                cluster.until_in_sync(topic)
        copier.join(60)
        assert copier.copied >= COUNT
        found = read_all(cluster.bootstrap, "out", 2)
        assert sorted(value for each in found.values() for _, value in each) == list(range(COUNT))


class Copier(threading.Thread):
    """Reads, writes and commits in transactions; whatever fails is aborted and done again."""

    def __init__(self, bootstrap):
        super().__init__(daemon=True)
        self.copied = 0
        self._servers = bootstrap

    def wait_for(self, more, timeout=40.0):
        goal, deadline = min(self.copied + more, COUNT), time.monotonic() + timeout
        while self.copied < goal:
            assert time.monotonic() < deadline, f"{self.copied} copied, {goal} wanted"
            time.sleep(0.01)

    def run(self):
        while self.copied < COUNT:
            producer = Producer(
                {"bootstrap.servers": self._servers, "transactional.id": "copier", "linger.ms": 1, **QUIET}
            )
            producer.init_transactions(60)
            consumer = Consumer(
                {
                    "bootstrap.servers": self._servers,
                    "group.id": "copiers",
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "auto.offset.reset": "earliest",
                    **QUIET,
                }
            )
            wanted = [TopicPartition("in", index) for index in range(2)]
            try:
                at = consumer.committed(wanted, 30)
                consumer.assign([TopicPartition(p.topic, p.partition, max(p.offset, 0)) for p in at])
                self.copied = sum(max(p.offset, 0) for p in at)
                self._copy(producer, consumer, wanted)
            except KafkaException:
                pass  # a new life: the next init_transactions ends what this one left behind
            finally:
                consumer.close()

    def _copy(self, producer, consumer, wanted):
        while self.copied < COUNT:
            messages = [each for each in consumer.consume(10, 0.1) if each.error() is None]
            if not messages:
                continue
            producer.begin_transaction()
            for each in messages:
                producer.produce("out", each.value(), partition=each.partition())
            # librdkafka may wait for a coordinator that is gone and ask nobody: better to begin anew soon.
            producer.send_offsets_to_transaction(
                consumer.position(wanted), consumer.consumer_group_metadata(), 4
            )
            producer.commit_transaction(30)
            self.copied += len(messages)
            time.sleep(0.02)


if __name__ == "__main__":
    main()
