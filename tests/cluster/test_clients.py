"""Other clients and Kafka's own tools against three brokers, one of them lost on the way."""

import asyncio
import json

import pytest

from tests.cluster.load import create
from tests.cluster.local import LocalCluster
from tests.oracle.cluster import run_tool, why_not

# kafka-python leaves sockets of brokers that are gone to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def cluster():
    with LocalCluster(3) as cluster:
        create(cluster.bootstrap)
        yield cluster


def test_kafka_python_goes_on_with_another_leader(cluster):
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","), acks="all", retries=20)
    for number in range(30):
        if number == 15:
            producer.flush(60)
            cluster.kill(cluster.leader())
        producer.send("t", str(number).encode(), partition=number % 3)
    producer.flush(60)
    producer.close()
    consumer = KafkaConsumer(
        "t",
        bootstrap_servers=cluster.bootstrap.split(","),
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    found = []
    for record in consumer:
        found.append(int(record.value))
        if len(found) == 30:
            break
    consumer.close()
    assert sorted(found) == list(range(30))


def test_aiokafka_goes_on_with_another_leader(cluster):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def work():
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=True, retry_backoff_ms=50
        )
        await producer.start()
        for number in range(30):
            if number == 15:
                await asyncio.to_thread(lambda: cluster.kill(cluster.leader()))
            await producer.send_and_wait("t", str(number).encode(), partition=number % 3)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            "t", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", group_id=None
        )
        await consumer.start()
        found = []
        async with asyncio.timeout(60):
            async for record in consumer:
                found.append(int(record.value))
                if len(found) == 30:
                    break
        await consumer.stop()
        return found

    assert sorted(asyncio.run(work())) == list(range(30))


@pytest.mark.oracle
@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
def test_kafkas_own_tools_move_and_elect(cluster, tmp_path):
    def tool(name, *arguments):
        return run_tool(name, "--bootstrap-server", cluster.bootstrap, *arguments)

    before = cluster.state().replicas
    target = [*before[1:], before[0]]
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": target}]})
    )
    arguments = ("--reassignment-json-file", str(plan))
    assert "Successfully started" in tool("kafka-reassign-partitions", *arguments, "--execute")
    cluster.until(lambda: cluster.any().image.partition("t", 0).replicas == tuple(target))
    assert "is completed" in tool("kafka-reassign-partitions", *arguments, "--verify")
    told = tool("kafka-leader-election", "--election-type", "preferred", "--topic", "t", "--partition", "0")
    assert "Successfully completed leader election" in told
    assert cluster.leader() == target[0]
    described = tool("kafka-topics", "--describe", "--topic", "t")
    assert f"Leader: {target[0]}" in described and "ReplicationFactor: 3" in described
    folders = json.loads(tool("kafka-log-dirs", "--describe", "--topic-list", "t").splitlines()[-1])
    assert sorted(each["broker"] for each in folders["brokers"]) == [1, 2, 3]
