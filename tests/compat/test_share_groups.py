"""Share groups with clients and tools that are not ours: confluent-kafka's ShareConsumer, Java's tools."""

from __future__ import annotations

import json
import threading
import time

import pytest
from confluent_kafka import Producer

from ottla.testing import Broker, Cluster
from tests.oracle.cluster import run_tool

confluent_kafka = pytest.importorskip("confluent_kafka")
if not hasattr(confluent_kafka, "ShareConsumer"):
    pytest.skip("confluent-kafka has no ShareConsumer before 2.16", allow_module_level=True)
GROUP, TOPIC = "queue", "work"
PATIENCE_S = 60


@pytest.fixture
def broker(tmp_path):
    with Broker(data=tmp_path / "data") as broker:
        broker.create_topic(TOPIC, 2)
        begin_at_the_start(broker)
        yield broker


def begin_at_the_start(broker, **more):
    from ottla import Admin

    settings = {"share.auto.offset.reset": "earliest", **more}
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_configs("group", GROUP, set_=settings)


def send(broker, count, first=0, key=None):
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(first, first + count):
        producer.produce(TOPIC, str(number).encode(), key=key or str(number).encode())
    assert not producer.flush(PATIENCE_S)


class Worker:
    """A member that takes what it is given."""

    def __init__(self, broker, mode="implicit"):
        self.consumer = confluent_kafka.ShareConsumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": GROUP,
                "share.acknowledgement.mode": mode,
                "log_level": 0,
            }
        )
        self.consumer.subscribe([TOPIC])

    def take(self, count, patience_s=PATIENCE_S):
        """At least so many records, if they come in time."""
        taken, deadline = [], time.monotonic() + patience_s
        while len(taken) < count and time.monotonic() < deadline:
            taken += [message for message in self.consumer.poll(0.2) if message.error() is None]
        return taken

    def close(self):
        self.consumer.close()


def values(messages):
    return sorted(int(message.value()) for message in messages)


def test_every_record_is_delivered_once_and_not_again_after_a_restart(broker):
    send(broker, 50)
    worker = Worker(broker)
    assert values(worker.take(50)) == list(range(50))
    worker.consumer.commit_sync()
    worker.close()
    broker.restart()
    send(broker, 5, first=50)
    again = Worker(broker)
    assert values(again.take(5)) == list(range(50, 55))
    assert again.take(1, patience_s=1) == []
    again.close()


def test_two_members_share_a_partition(broker):
    send(broker, 200)
    workers = [Worker(broker), Worker(broker)]
    taken: list[int] = []
    lock, done = threading.Lock(), threading.Event()

    def work(worker):
        deadline = time.monotonic() + PATIENCE_S
        while not done.is_set() and time.monotonic() < deadline:
            messages = worker.take(1, patience_s=0.5)
            with lock:
                taken.extend(int(message.value()) for message in messages)
                if len(set(taken)) == 200:
                    done.set()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for worker in workers:
        worker.close()
    assert sorted(taken) == list(range(200))


def test_a_released_record_comes_again_and_is_given_up_at_the_limit(broker):
    begin_at_the_start(broker, **{"share.delivery.count.limit": "2"})
    send(broker, 1)
    worker = Worker(broker, mode="explicit")
    release = confluent_kafka.AcknowledgeType.RELEASE
    for _ in range(2):
        (message,) = worker.take(1)
        worker.consumer.acknowledge(message, release)
    assert worker.take(1, patience_s=1) == []
    worker.close()


def test_what_a_member_holds_goes_to_another_when_it_leaves(broker):
    send(
        broker, 3, key=b"one partition"
    )  # so that they come with one poll: an explicit member must not poll twice
    first = Worker(broker, mode="explicit")
    assert len(first.take(3)) == 3
    first.close()
    second = Worker(broker)
    assert values(second.take(3)) == [0, 1, 2]
    second.close()


def test_an_accepted_record_does_not_come_back_when_its_leader_is_killed():
    """Three brokers: the state of a share-partition is at another broker than its leader, mostly."""
    with Cluster(brokers=3) as cluster:
        cluster.create_topic(TOPIC, 3)
        begin_at_the_start(cluster)
        send(cluster, 60)
        worker = Worker(cluster)
        assert values(worker.take(60)) == list(range(60))
        worker.consumer.commit_sync()
        killed = cluster.leader(TOPIC, 1).broker_id
        cluster.kill(killed)
        send(cluster, 30, first=60)
        again = set(values(worker.take(30)))
        assert again >= set(range(60, 90)) and not again & set(range(60))
        worker.close()


# Before a reset Kafka shows a dash where nobody has fetched yet; Ottla writes where a group begins at once.
TOOLS = (
    "--list",
    "--describe --group {group} --state",
    "--describe --group {group} --members",
    "--describe --group {group}-nobody",
    "--reset-offsets --group {group} --topic {topic} --to-earliest --dry-run",
    "--reset-offsets --group {group} --topic {topic} --to-earliest --execute",
    "--describe --group {group} --offsets",
    "--delete-offsets --group {group} --topic {topic}",
    "--delete --group {group}",
    "--delete --group {group}",
)


@pytest.mark.slow
@pytest.mark.oracle
def test_javas_share_consumer_takes_and_acknowledges_every_record_once(broker):
    """KafkaShareConsumer, in the program with which Apache Kafka's own system tests check it."""
    send(broker, 50)
    words = f"--topic {TOPIC} --group-id {GROUP} --max-messages 50 --acknowledgement-mode sync --verbose"
    where = ("--bootstrap-server", broker.bootstrap)
    printed = run_tool("kafka-verifiable-share-consumer", *where, *words.split())
    told = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert values_of([event for event in told if event["name"] == "record_data"]) == list(range(50))
    acknowledged = [event for event in told if event["name"] == "offsets_acknowledged"]
    assert all(event["success"] for event in acknowledged)
    assert sum(event["count"] for event in acknowledged) == 50
    worker = Worker(broker)
    send(broker, 1, first=50)
    assert values(worker.take(1)) == [50]  # and nothing of what Java's consumer has accepted
    worker.close()


def values_of(events):
    return sorted(int(event["value"]) for event in events)


@pytest.mark.slow
@pytest.mark.oracle
def test_kafka_share_groups_prints_the_same_on_both_servers(both, unique):
    topic, group, printed = unique("shared"), unique("sharers"), {}
    for name, server in both.items():
        where = ("--bootstrap-server", server.bootstrap)
        change = "--alter --entity-type groups --add-config share.auto.offset.reset=earliest --entity-name"
        run_tool("kafka-configs", *where, *change.split(), group)
        run_tool("kafka-topics", *where, *f"--create --topic {topic} --partitions 2".split())
        producer = Producer({"bootstrap.servers": server.bootstrap, "log_level": 0})
        for number in range(10):
            producer.produce(topic, str(number).encode(), key=b"one partition")
        assert not producer.flush(PATIENCE_S)
        words = f"--topic {topic} --group {group} --max-messages 10 --timeout-ms 100000"
        lines = [run_tool("kafka-console-share-consumer", *where, *words.split())]
        for words in TOOLS:
            told = words.format(group=group, topic=topic).split()
            lines.append(run_tool("kafka-share-groups", *where, *told, check=False))
        printed[name] = [line.replace(server.bootstrap, "HOST:PORT") for line in lines]
        # Other tests share the servers: only our own groups count.
        printed[name][1] = "\n".join(line for line in printed[name][1].splitlines() if line == group)
    assert printed["ottla"] == printed["kafka"]
    assert printed["ottla"][0].split() == [str(number) for number in range(10)]
