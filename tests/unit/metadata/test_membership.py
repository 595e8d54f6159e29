"""From who is there to who leads: the order in which a controller takes note."""

from itertools import permutations

import pytest

from ottla.metadata import membership
from ottla.metadata.membership import Registration

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
