"""The cluster under seeds: kills, losses of power, pauses, cuts from the ensemble and from each other, messages that
come when everything has changed."""

from functools import partial

import pytest

from tests.simulation.cluster_mutants import MUTANTS
from tests.simulation.cluster_world import ClusterWorld
from tests.simulation.planted import assert_caught

SEEDS = range(200)
GROUPS = 10


@pytest.mark.parametrize("group", range(GROUPS))
def test_nothing_shown_or_acknowledged_is_ever_lost(group):
    for seed in SEEDS[group::GROUPS]:
        ClusterWorld(seed).run()


def test_the_same_seed_is_the_same_world():
    worlds = [ClusterWorld(7), ClusterWorld(7)]
    for world in worlds:
        world.run()
    assert worlds[0].trace == worlds[1].trace
    assert worlds[0].acknowledged == worlds[1].acknowledged
    assert len(worlds[0].acknowledged) > 10


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_caught_for_what_it_is(name, monkeypatch):
    """Most need one or two seeds."""
    assert_caught(MUTANTS[name], monkeypatch, (partial(ClusterWorld, seed) for seed in SEEDS))
