"""A broker of a cluster that comes back without one of its log folders: it never leads with an empty log."""

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from ottla.server.node import memory_disk
from tests.cluster.load import create
from tests.cluster.local import LocalCluster
from tests.integration.nodes import connected

SENT = [b"one", b"two", b"three"]


def cluster_of_two(least):
    cluster = LocalCluster(2, default_replication_factor=2, min_insync_replicas=least)
    cluster.disks[1] = [memory_disk(), memory_disk()]
    return cluster


def lose_a_folder(cluster):
    """Broker 1, which is stopped, has only the folder without the partition; the disks as they were."""
    both = cluster.disks[1]
    cluster.disks[1] = [disk for disk in both if "t-0" not in disk.list("")]
    assert len(cluster.disks[1]) == 1
    return both


def start_until_unfenced(cluster, broker_id):
    """Who leads what was decided together with the end of the fence."""
    cluster.start(broker_id)
    cluster.until(lambda: cluster.any().image.may_lead(broker_id))


async def send(node):
    async with connected(node) as client:
        for value in SENT:
            assert (await client.produce("t", value)).error_code == 0


async def read(node):
    async with connected(node) as client:
        return await client.read_all("t")


@pytest.mark.parametrize("least", [1, 2])
def test_an_eligible_replica_that_lost_its_folder_waits_for_one_that_has_the_records(least):
    with cluster_of_two(least) as cluster:
        create(cluster.bootstrap, partitions=1, replicas=2)
        cluster.until_in_sync(count=2)
        cluster.run(send(cluster.nodes[cluster.leader()]))
        cluster.stop(1)
        cluster.stop(2)
        lose_a_folder(cluster)
        start_until_unfenced(cluster, 1)
        assert cluster.leader() == -1
        start_until_unfenced(cluster, 2)
        cluster.until_in_sync(count=2)
        assert cluster.run(read(cluster.nodes[2])) == SENT
        cluster.replicas_agree()


def test_the_last_replica_in_sync_is_offline_until_its_folder_is_back():
    with cluster_of_two(1) as cluster:
        create(cluster.bootstrap, partitions=1, replicas=2)
        cluster.until_in_sync(count=2)
        cluster.stop(2)
        cluster.run(send(cluster.nodes[1]))
        cluster.stop(1)
        both = lose_a_folder(cluster)
        start_until_unfenced(cluster, 1)
        start_until_unfenced(cluster, 2)
        assert cluster.leader() != 2 and cluster.partition(1).is_offline
        cluster.stop(2)
        cluster.stop(1)
        cluster.disks[1] = both
        start_until_unfenced(cluster, 1)
        assert cluster.run(read(cluster.nodes[1])) == SENT
        start_until_unfenced(cluster, 2)
        cluster.until_in_sync(count=2)
        cluster.replicas_agree()


def test_the_records_of_a_lost_folder_can_be_given_up_for_those_of_a_replica_behind():
    with cluster_of_two(1) as cluster:
        admin = create(cluster.bootstrap, partitions=1, replicas=2)
        cluster.until_in_sync(count=2)
        cluster.stop(2)
        cluster.run(send(cluster.nodes[1]))
        cluster.stop(1)
        lose_a_folder(cluster)
        start_until_unfenced(cluster, 1)
        start_until_unfenced(cluster, 2)
        cluster.stop(1)
        unclean = ConfigEntry(
            "unclean.leader.election.enable", "true", incremental_operation=AlterConfigOpType.SET
        )
        (done,) = admin.incremental_alter_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, "t", incremental_configs=[unclean])]
        ).values()
        done.result(60)
        cluster.until(lambda: cluster.any().image.partition("t", 0).leader == 2)
        start_until_unfenced(cluster, 1)
        cluster.until_in_sync(count=2)
        cluster.run(send(cluster.nodes[2]))
        cluster.replicas_agree()
