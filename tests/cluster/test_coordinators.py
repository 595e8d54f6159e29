"""Groups and transactions on several brokers: coordinators move, markers cross brokers."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla import errors
from ottla.testing.asking import ask, on_loop
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.cluster.load import QUIET, create, read_all
from tests.cluster.local import LocalCluster
from tests.oracle.transactions import wait_for_markers


@pytest.fixture
def cluster():
    with LocalCluster(3) as cluster:
        yield cluster


def transactional(cluster, name):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name, **QUIET})
    producer.init_transactions(60)
    return producer


def group_consumer(cluster, group="g"):
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 200,
            **QUIET,
        }
    )


def coordinator_of(cluster, key, topic="__transaction_state"):
    def found():
        broker = cluster.any()
        shards = broker.transactions.coordinator if topic == "__transaction_state" else broker.groups
        return broker.image.partition(topic, shards.index_of(key)).leader

    return cluster.call(found)


def test_transactions_span_partitions_of_all_brokers(cluster):
    create(cluster.bootstrap, partitions=6)
    producer = transactional(cluster, "one")
    for number in range(20):
        producer.begin_transaction()
        for index in range(6):
            producer.produce("t", str(number).encode(), partition=index)
        if number % 2:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    wait_for_markers(cluster.bootstrap, "t", 6)
    found = read_all(cluster.bootstrap, "t", 6)
    for index in range(6):
        assert [value for _, value in found[index]] == list(range(1, 20, 2))


def test_a_decided_transaction_is_finished_by_the_next_coordinator(cluster):
    create(cluster.bootstrap, partitions=3)
    producer = transactional(cluster, "two")
    producer.begin_transaction()
    for index in range(3):
        producer.produce("t", b"1", partition=index)
    producer.flush(60)
    cluster.kill(coordinator_of(cluster, "two"))
    producer.commit_transaction(60)
    wait_for_markers(cluster.bootstrap, "t", 3)
    found = read_all(cluster.bootstrap, "t", 3)
    assert all([value for _, value in found[index]] == [1] for index in range(3))


def test_a_group_goes_on_with_its_offsets_when_its_coordinator_is_lost(cluster):
    create(cluster.bootstrap, partitions=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **QUIET})
    for number in range(10):
        producer.produce("t", str(number).encode())
    producer.flush(60)
    consumer = group_consumer(cluster)
    consumer.subscribe(["t"])
    for _ in range(5):
        assert_read(consumer)
    consumer.commit(offsets=[TopicPartition("t", 0, 5)], asynchronous=False)
    cluster.kill(coordinator_of(cluster, "g", "__consumer_offsets"))
    for _ in range(5):
        assert_read(consumer)
    consumer.commit(offsets=[TopicPartition("t", 0, 8)], asynchronous=False)
    assert consumer.committed([TopicPartition("t", 0)], 60)[0].offset == 8
    consumer.close()
    other = group_consumer(cluster)
    assert other.committed([TopicPartition("t", 0)], 60)[0].offset == 8
    other.close()


def assert_read(consumer):
    for _ in range(600):
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            return
    raise AssertionError("nothing to read")


def test_producer_ids_are_never_given_twice_by_two_brokers(cluster):
    def given():
        return [each.broker.image.next_producer_id for each in cluster.nodes.values()]

    create(cluster.bootstrap)
    for broker_id in cluster.nodes:
        producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{cluster.ports[broker_id]}",
                "enable.idempotence": True,
                **QUIET,
            }
        )
        producer.produce("t", b"1")
        assert producer.flush(60) == 0
    ids = [
        entry.producer_id
        for index in range(3)
        for entry in cluster.partition(cluster.leader("t", index), "t", index).log.producers.entries.values()
    ]
    assert len(ids) == len(set(ids)) == 3
    assert max(cluster.call(given)) >= 1000


GROUP, TRANSACTION = 0, 1


def find_coordinator(cluster, broker_id, key_type):
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a"])
    response = cluster.run(on_loop(ask(cluster.nodes[broker_id].broker, request)))
    return response.coordinators[0]


@pytest.mark.parametrize(
    ("key_type", "topic"), [(GROUP, "__consumer_offsets"), (TRANSACTION, "__transaction_state")]
)
def test_internal_topics_wait_for_all_the_brokers_of_their_replication_factor(key_type, topic, caplog):
    with LocalCluster(2) as cluster:
        for broker_id in (1, 2, 1, 2):  # one of them is the controller, the other asks it
            found = find_coordinator(cluster, broker_id, key_type)
            assert found.error_code == errors.CoordinatorNotAvailable.code
            assert "only 2 broker(s) are registered" in found.error_message
        assert cluster.call(lambda: topic not in cluster.any().image.topics)
        said = [each for each in caplog.messages if topic in each]
        assert len(said) == 2, "each broker says why once, not for every request"
        cluster.start(3)
        cluster.until(lambda: cluster.any().image.may_lead(3))
        assert find_coordinator(cluster, 1, key_type).error_code == 0
        cluster.until_in_sync(topic)


def test_a_request_for_many_coordinators_asks_once_for_the_missing_topic():
    with LocalCluster(2) as cluster:
        broker = cluster.nodes[1].broker
        asked = []
        create = broker.metadata.create_topics_quietly
        broker.metadata.create_topics_quietly = lambda names: asked.append(names) or create(names)
        request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[str(n) for n in range(1000)])
        response = cluster.run(on_loop(ask(broker, request)))
        codes = {each.error_code for each in response.coordinators}
        assert (codes, len(response.coordinators)) == ({errors.CoordinatorNotAvailable.code}, 1000)
        assert asked == [["__consumer_offsets"]]


def test_internal_topics_created_while_brokers_are_away_have_their_replicas_when_these_are_back(cluster):
    cluster.kill(2)
    cluster.kill(3)
    cluster.until(lambda: not any(cluster.any().image.may_lead(each) for each in (2, 3)))
    assert find_coordinator(cluster, 1, GROUP).error_code == 0
    cluster.start(2)
    cluster.start(3)
    cluster.until_in_sync("__consumer_offsets")
