"""Moving replicas and leaders, reading from the nearest replica, a broker more."""

import asyncio
import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ottla.cli.main import main
from ottla.client import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.connections import Connection
from ottla.client.settings import Settings
from ottla.client.values import TopicPartition as At
from ottla.errors import NotLeaderOrFollower
from ottla.server import membership
from ottla.wire.batch import build
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record
from tests.cluster.load import QUIET, Load, create
from tests.cluster.local import LocalCluster
from tests.oracle.cluster import run_tool, why_not


def move(cluster, targets, topic="t"):
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.reassign({At(topic, index): replicas for index, replicas in targets.items()})


def test_a_fourth_broker_takes_partitions_under_load():
    with LocalCluster(3) as cluster:
        create(cluster.bootstrap)
        with Load(cluster.bootstrap) as load:
            load.wait_for(300)
            cluster.start(4)
            move(cluster, {0: (4, 1, 2), 1: (4, 2, 3), 2: (1, 3, 4)})

            def is_done():
                states = cluster.any().image.topics["t"].partitions
                return [s.replicas for s in states] == [(4, 1, 2), (4, 2, 3), (1, 3, 4)]

            cluster.until(is_done)
            load.wait_for(300)
            cluster.until_in_sync()
        load.check()
        cluster.replicas_agree()
        gone = [each for each in (1, 2, 3) if ("t", 0) in cluster.nodes[each].broker.replicas.partitions]
        assert gone == [1, 2], "what was moved away is not there any more"


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_move_takes_its_time(side):
    """300 kB at 100 kB a second, of which the first second's are there at once."""
    throttled = {f"{side}.replication.throttled.replicas": "*"}
    rate = {f"{side}.replication.throttled.rate": 100_000}
    with LocalCluster(3, replica_fetch_max_bytes=20_000, **rate) as cluster:
        create(cluster.bootstrap, partitions=1, replicas=2, **throttled)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 1, **QUIET})
        for _ in range(30):
            producer.produce("t", bytes(10_000))
        assert producer.flush(60) == 0
        state = cluster.state()
        (new,) = {1, 2, 3} - {*state.replicas}
        began = time.monotonic()
        move(cluster, {0: (state.leader, new)})
        cluster.until(lambda: cluster.any().image.partition("t", 0).replicas == (state.leader, new), 60)
        assert time.monotonic() - began > 1.8
        cluster.replicas_agree()


def test_a_consumer_reads_from_the_replica_in_its_rack():
    racks = {1: "a", 2: "b", 3: "c"}
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with LocalCluster(3, racks=racks, replica_selector_class=selector) as cluster:
        create(cluster.bootstrap, partitions=1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, **QUIET})
        for number in range(100):
            producer.produce("t", str(number).encode())
        producer.flush(60)
        leader = cluster.leader()
        other = next(each for each in racks if each != leader)
        before = fetches(cluster, other)
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "g",
                "client.rack": racks[other],
                "auto.offset.reset": "earliest",
                **QUIET,
            }
        )
        consumer.assign([TopicPartition("t", 0, 0)])
        found = []
        for _ in range(600):
            found += [each for each in consumer.consume(100, 0.1) if each.error() is None]
            if len(found) == 100:
                break
        consumer.close()
        assert len(found) == 100
        assert fetches(cluster, other) > before, "nobody came to read here"


def fetches(cluster, broker_id):
    """Fetches of consumers: those of followers have a version of their own."""
    requests = cluster.nodes[broker_id].broker.metrics.requests
    return sum(count for (key, version), count in requests.items() if key == 1 and version != 17)


@pytest.mark.parametrize("which", ["leader", "all"])
def test_latest_is_not_told_before_it_is_known(which):
    with LocalCluster(3) as cluster:
        create(cluster.bootstrap, partitions=1)
        with Load(cluster.bootstrap, partitions=1) as load:
            load.wait_for(100)
            if which == "leader":
                cluster.kill(cluster.leader())
            else:
                for each in (1, 2, 3):
                    cluster.stop(each)
                for each in (1, 2, 3):
                    cluster.start(each)
        last = max(offset for offset, _ in load.acknowledged[0] if offset is not None)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", **QUIET})
        assert told_end(consumer, TopicPartition("t", 0)) > last
        consumer.close()


def told_end(consumer, partition):
    """The client asks again a few times only while the answer is that the leader does not know yet."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return consumer.get_watermark_offsets(partition, 60)[1]
        except KafkaException as error:
            if error.args[0].code() != KafkaError.OFFSET_NOT_AVAILABLE or time.monotonic() > deadline:
                raise


def test_deleted_records_are_gone_at_every_replica_when_it_is_answered():
    with LocalCluster(3) as cluster:
        admin = create(cluster.bootstrap, partitions=1)
        with Load(cluster.bootstrap, partitions=1) as load:
            load.wait_for(100)
        deleted = admin.delete_records([TopicPartition("t", 0, 60)], request_timeout=60)
        (result,) = [each.result(60) for each in deleted.values()]
        assert result.low_watermark == 60
        assert [cluster.partition(each).log.log_start_offset for each in (1, 2, 3)] == [60, 60, 60]


def test_a_replica_that_is_away_is_not_waited_for_when_records_are_deleted():
    with LocalCluster(3) as cluster:
        admin = create(cluster.bootstrap, partitions=1)
        with Load(cluster.bootstrap, partitions=1) as load:
            load.wait_for(100)
        away = next(each for each in (1, 2, 3) if each != cluster.leader())
        cluster.kill(away)
        deleted = admin.delete_records([TopicPartition("t", 0, 60)], request_timeout=60)
        (result,) = [each.result(60) for each in deleted.values()]
        assert result.low_watermark == 60
        cluster.start(away)
        cluster.until(lambda: cluster.partition(away).log.log_start_offset == 60)


def kafka_topics(cluster, capsys, *options):
    assert main(["kafka-topics", "--bootstrap-server", cluster.bootstrap, *options]) == 0
    return capsys.readouterr().out.splitlines()


def lose_both_followers(cluster):
    """The one that was lost last is eligible: the ISR was too small when it left."""
    create(cluster.bootstrap, partitions=1)
    first, last = [replica for replica in cluster.state().replicas if replica != cluster.leader()]
    cluster.kill(first)
    cluster.until(lambda: len(cluster.any().image.partition("t", 0).isr) == 2)
    cluster.kill(last)
    cluster.until(lambda: cluster.any().image.partition("t", 0).elr == (last,))
    return last


def test_kafka_topics_prints_who_may_still_lead(capsys):
    with LocalCluster(3) as cluster:
        last = lose_both_followers(cluster)
        line = kafka_topics(cluster, capsys, "--describe", "--topic", "t")[1]
        assert line.endswith(f"\tIsr: {cluster.leader()}\tElr: {last}\tLastKnownElr: ")


@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
def test_kafkas_own_kafka_topics_prints_who_may_still_lead(capsys):
    with LocalCluster(3) as cluster:
        lose_both_followers(cluster)
        ours = kafka_topics(cluster, capsys, "--describe", "--topic", "t")[1]
        server = f"127.0.0.1:{cluster.ports[cluster.leader()]}"
        shown = run_tool("kafka-topics", "--bootstrap-server", server, "--describe", "--topic", "t")
        assert shown.splitlines()[1].split() == ours.split()


def test_a_partition_without_a_leader_gets_one_when_unclean_election_is_allowed():
    with LocalCluster(3, min_insync_replicas=1) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topics([NewTopic("t", assignments=[[2, 3]])])
        cluster.kill(3)
        cluster.until(lambda: cluster.any().image.partition("t", 0).isr == (2,))
        cluster.kill(2)
        cluster.until(lambda: cluster.any().image.partition("t", 0).leader == -1)
        cluster.start(3)
        cluster.until(lambda: cluster.any().image.may_lead(3))
        assert cluster.leader() == -1, "it may lack records"
        with Admin(bootstrap_servers=f"127.0.0.1:{cluster.ports[1]}") as admin:
            admin.alter_configs("topic", "t", set_={"unclean.leader.election.enable": "true"})
        cluster.until(lambda: cluster.any().image.partition("t", 0).leader == 3)


def test_a_broker_that_stops_names_the_next_leader_before_it_closes_connections(monkeypatch):
    """A client whose connection is closed waits before it asks again."""
    monkeypatch.setattr(membership, "HINT_S", 3.0)
    with LocalCluster(3) as cluster:
        create(cluster.bootstrap)
        victim = cluster.leader()
        told = cluster.run(_produced_while_it_stops(cluster, victim))
        cluster.nodes.pop(victim)
        assert told.responses[0].partition_responses[0].error_code == NotLeaderOrFollower.code
        leader = told.responses[0].partition_responses[0].current_leader.leader_id
        assert leader == cluster.leader() != victim
        assert [(node.node_id, node.port) for node in told.node_endpoints] == [
            (leader, cluster.ports[leader])
        ]


async def _produced_while_it_stops(cluster, victim):
    node = cluster.nodes[victim]
    connection = await Connection.open("127.0.0.1", cluster.ports[victim], Settings())
    stopping = asyncio.create_task(node.stop())
    while node.broker.image.partition("t", 0).leader == victim:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.1)  # longer than it looks for its own lead to end
    data = PartitionProduceData(index=0, records=build([Record(0, 0, None, b"v")]))
    topic = TopicProduceData(name="t", partition_data=[data])
    told = await connection.send(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic]), 12)
    await stopping
    return told
