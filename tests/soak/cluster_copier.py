"""python -m tests.soak.cluster_copier [ottla] [kafka]: librdkafka's silence after the loss of a group coordinator.

A copier that uses librdkafka may go silent when the coordinator of its group is lost. The broker goes from the
metadata, librdkafka ends its thread, but goes on to wait in send_offsets_to_transaction for just that thread to
connect, past the time-out given (confluentinc/librdkafka issues 5511 and 5456). The same happens with Apache Kafka,
as this script shows; so the copiers of the cluster's long run are our own client and Java's.
"""

import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cluster.load import QUIET, create
from tests.cluster.local import LocalCluster
from tests.oracle.cluster import Oracle

GIVEN_S, SILENT_S = 4, 30


def silence(cluster):
    """How long the client takes to send offsets when the coordinator of its group was lost just before."""
    create(cluster.bootstrap, "in", partitions=1)
    create(cluster.bootstrap, "out", partitions=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "copier", **QUIET})
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "copiers", **QUIET})
    producer.init_transactions(60)
    copy(producer, consumer, 60)  # it knows the coordinator now
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
    lost = admin.describe_consumer_groups(["copiers"])["copiers"].result(30).coordinator.id
    cluster.kill(lost)
    while lost in brokers_known_to(producer):
        time.sleep(0.1)
    began = time.monotonic()
    sending = threading.Thread(target=copy, args=(producer, consumer, GIVEN_S), daemon=True)
    sending.start()
    sending.join(SILENT_S)
    return time.monotonic() - began


def brokers_known_to(producer):
    while True:
        try:
            return producer.list_topics(timeout=10).brokers
        except KafkaException:
            pass  # Apache Kafka takes its time to notice


def copy(producer, consumer, timeout_s):
    producer.begin_transaction()
    producer.produce("out", b"x", partition=0)
    try:
        offsets = [TopicPartition("in", 0, 1)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), timeout_s)
        producer.commit_transaction(timeout_s)
    except KafkaException as error:
        print(f"  refused: {error}")


def three_kafkas():
    return Oracle(
        brokers=3,
        settings={
            "offsets.topic.replication.factor": 3,
            "transaction.state.log.replication.factor": 3,
            "transaction.state.log.min.isr": 2,
        },
    )


SERVERS = {"ottla": lambda: LocalCluster(3), "kafka": three_kafkas}


def main(names):
    for name in names or SERVERS:
        with SERVERS[name]() as cluster:
            taken_s = silence(cluster)
            print(f"{name}: " + (f"silent for {SILENT_S} s" if taken_s >= SILENT_S else f"{taken_s:.1f} s"))


if __name__ == "__main__":
    main(sys.argv[1:])
