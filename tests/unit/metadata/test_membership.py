"""From who is there to who leads: the order in which a controller takes note."""

from itertools import permutations

import pytest

from ottla.metadata import membership
from ottla.metadata.membership import Registration
from ottla.metadata.records import BrokerStopping, PartitionChanged

from .cluster import ENDPOINTS, Cluster, topic


def take_note(cluster, members):
    while (step := membership.next_step(members, cluster.image, cluster.config)) is not None:
        cluster.carry_out(step)


@pytest.mark.parametrize("restarted", list(permutations((1, 2, 3), 2)))
def test_who_has_everything_stays_eligible_when_the_others_restarted_uncleanly(restarted):
    """A controller that finds all three changed at once: one is away, two may have lost what they had."""
    cluster = Cluster(1, 2, 3, config={"min.insync.replicas": "2"})
    cluster.create(topic(assignments=[(0, (1, 2, 3))]))
    (away,) = {1, 2, 3} - {*restarted}
    members = {
        each: Registration(each, cluster.incarnation(), ENDPOINTS, clean=False, ready=False)
        for each in restarted
    }
    take_note(cluster, members)
    state = cluster.image.partition("t", 0)
    assert (state.isr, state.elr, state.leader) == ((), (away,), -1)
    cluster.restart(away, clean=True)
    cluster.unfence(away)
    assert cluster.image.partition("t", 0).leader == away


def test_a_broker_that_stops_first_hands_over_what_it_leads_and_then_leaves_the_other_isrs():
    """Clients wait for the first entry alone."""
    cluster = Cluster(1, 2, 3, config={"min.insync.replicas": "2"})
    replicas = [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2)]
    cluster.create(topic(assignments=list(enumerate(replicas))))
    members = {
        broker_id: Registration(
            broker_id, known.incarnation, ENDPOINTS, clean=True, ready=True, stopping=broker_id == 1
        )
        for broker_id, known in cluster.image.brokers.items()
    }
    first = membership.next_step(members, cluster.image, cluster.config)
    assert [type(record) for record in first.records] == [PartitionChanged] * 2
    cluster.carry_out(first)
    partitions = list(cluster.image.partitions())
    assert [partition.leader for partition in partitions] == [2, 2, 3, 3]
    assert [1 in partition.isr for partition in partitions] == [False, True, True, False]
    assert not cluster.image.brokers[1].stopping
    second = membership.next_step(members, cluster.image, cluster.config)
    assert [type(record) for record in second.records] == [PartitionChanged] * 2 + [BrokerStopping]
    cluster.carry_out(second)
    assert not any(1 in partition.isr for partition in cluster.image.partitions())
    assert membership.next_step(members, cluster.image, cluster.config) is None
