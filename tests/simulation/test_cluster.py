"""The cluster under seeds: kills, losses of power, pauses, cuts from the ensemble and from each other."""

import pytest

from tests.simulation.cluster_mutants import MUTANTS
from tests.simulation.cluster_world import World

SEEDS = range(200)
GROUPS = 10


@pytest.mark.parametrize("group", range(GROUPS))
def test_nothing_shown_or_acknowledged_is_ever_lost(group):
    for seed in SEEDS[group::GROUPS]:
        World(seed).run()


def test_the_same_seed_is_the_same_world():
    worlds = [World(7), World(7)]
    for world in worlds:
        world.run()
    assert worlds[0].trace == worlds[1].trace
    assert worlds[0].acknowledged == worlds[1].acknowledged
    assert len(worlds[0].acknowledged) > 10


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_is_caught(mutant, monkeypatch):
    mutant(monkeypatch)
    for seed in range(60):
        try:
            World(seed).run()
        except Exception:
            return
    pytest.fail("nobody noticed")
