"""Memory for requests in a cluster: acks=all and the fetches of followers do not wait for each other's."""

import asyncio

from ottla.broker.cluster.peers import SOFTWARE, credential
from ottla.wire import batch
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record
from tests.cluster.load import create
from tests.cluster.local import LocalCluster
from tests.cluster.test_acks import followers_stand_still
from tests.integration.nodes import Client

RECORD_BYTES = 700_000


def a_produce(partition=0, timeout_ms=60_000):
    records = batch.build([Record(-1, 1, None, bytes(RECORD_BYTES))])
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=partition, records=records)])
    return ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[data])


def budget_of(node):
    return node.listeners[0].budget


def test_what_waits_for_followers_holds_no_memory():
    with LocalCluster(3) as cluster:
        create(cluster.bootstrap, partitions=1, retention_ms=-1)
        leader = followers_stand_still(cluster)
        budget, log = budget_of(cluster.nodes[leader]), cluster.partition(leader).log

        async def scenario():
            client = await Client.connect(cluster.nodes[leader].listeners[0].port)
            for _ in range(5):
                client.writer.write(client.frame(a_produce())[2])
            while log.end_offset < 5:
                await asyncio.sleep(0.001)
            held = budget.held_bytes, log.high_watermark
            await client.close()
            return held

        assert cluster.run(scenario()) == (0, 0)


def pumps(cluster, leader):
    """What fetches from this leader, at the other brokers."""
    return [node.broker.followers._pumps[leader] for each, node in cluster.nodes.items() if each != leader]


def pause(pump):
    pump.close()
    pump._call = None
    pump._fetcher.on_failure()  # the next fetch names all partitions


def go_on(pump):
    pump._closed = False
    pump._ask()


def test_acks_all_and_the_fetches_of_followers_do_not_wait_for_each_other():
    """600 partitions make a follower's first fetch larger than the buffer that a connection has of its own."""
    with LocalCluster(3, ottla_requests_max_bytes=4_000_000, ottla_partitions_max=3000) as cluster:
        create(cluster.bootstrap, partitions=600, retention_ms=-1)
        leader = cluster.leader()
        image, budget = cluster.any().image, budget_of(cluster.nodes[leader])
        led = [index for index in range(600) if image.partition("t", index).leader == leader][:30]
        cluster.until(lambda: len(cluster.nodes[leader].broker.replicas.partitions) >= 600)

        async def produce(index):
            client = await Client.connect(cluster.nodes[leader].listeners[0].port)
            try:
                response = await client.call(a_produce(index))
                return response.responses[0].partition_responses[0].error_code
            finally:
                await client.close()

        async def scenario():
            for pump in pumps(cluster, leader):
                pause(pump)
            answers = asyncio.gather(*map(produce, led))
            logs = [cluster.partition(leader, index=index).log for index in led]
            while not budget.waiting and any(log.end_offset == 0 for log in logs):
                await asyncio.sleep(0.001)
            for pump in pumps(cluster, leader):
                go_on(pump)
            return await answers

        assert set(cluster.run(scenario(), timeout=60)) == {0}
        assert cluster.call(lambda: budget_of(cluster.nodes[leader]).held_bytes) == 0


def test_brokers_know_each_other_and_nobody_else():
    with LocalCluster(3) as cluster:
        create(cluster.bootstrap, partitions=6)
        node = cluster.nodes[1]
        cluster.until(lambda: sum(each.client.is_peer for each in node.listeners[0].connections) >= 2)
        incarnation = node.broker.image.brokers[1].incarnation

        async def introduced(version):
            client = await Client.connect(node.listeners[0].port)
            before = set(node.listeners[0].connections)
            await client.call(
                ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version=version), 3
            )
            port = client.writer.get_extra_info("sockname")[1]
            (found,) = (each for each in node.listeners[0].connections | before if each.client.port == port)
            await client.close()
            return found.client.is_peer

        assert cluster.run(introduced(credential(2, incarnation)))
        for wrong in ("2", "2.", credential(2, bytes(16)), credential(2, incarnation)[:-1], "x.y", "1.0"):
            assert not cluster.run(introduced(wrong)), wrong
