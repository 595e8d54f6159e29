import pytest

from tests.cluster.load import Load, create
from tests.cluster.local import LocalCluster


@pytest.fixture
def cluster():
    with LocalCluster(3) as cluster:
        yield cluster


def test_a_topic_with_three_replicas_survives_the_loss_of_a_leader(cluster):
    create(cluster.bootstrap)
    with Load(cluster.bootstrap) as load:
        load.wait_for(200)
        victim = cluster.leader()
        cluster.kill(victim)
        load.wait_for(500)
        assert cluster.leader() != victim
        cluster.start(victim)
        cluster.until_in_sync()
        load.wait_for(200)
    load.check()
    cluster.replicas_agree()


def test_any_broker_takes_requests_for_the_controller(cluster):
    for broker_id in (1, 2, 3):
        create(f"127.0.0.1:{cluster.ports[broker_id]}", f"t{broker_id}")
        assert f"t{broker_id}" in cluster.nodes[broker_id].broker.image.topics, "it knows what it relayed"


def test_two_of_three_lost_refuses_writes_and_loses_nothing(cluster):
    create(cluster.bootstrap)
    with Load(cluster.bootstrap) as load:
        load.wait_for(300)
        first, second = [each for each in cluster.nodes if each != cluster.leader()][:2]
        cluster.kill(first)
        load.wait_for(100)
        cluster.kill(second)
        assert cluster.call(lambda: len(cluster.any().image.partition("t", 0).isr)) == 1
        cluster.start(first)
        cluster.start(second)
        load.wait_for(300)
        cluster.until_in_sync()
    load.check()
    cluster.replicas_agree()


def test_a_clean_rolling_restart_goes_unnoticed(cluster):
    create(cluster.bootstrap)
    with Load(cluster.bootstrap) as load:
        for broker_id in (1, 2, 3):
            load.wait_for(100)
            cluster.stop(broker_id)
            load.wait_for(100)
            cluster.start(broker_id)
            cluster.until_in_sync()
    load.check()
    cluster.replicas_agree()
