"""The cluster under seeds: kills, losses of power, pauses, cuts from the ensemble and from each other, messages that
come when everything has changed."""

import re

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


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_caught_for_what_it_is(name, monkeypatch):
    pattern, plant = MUTANTS[name]
    plant(monkeypatch)
    said = set()
    for seed in SEEDS:  # most need one or two
        try:
            World(seed).run()
        except AssertionError as broken:
            first = str(broken).partition("\n")[0]
            if re.search(pattern, first):
                return
            said.add(first)
    pytest.fail(f"{name} went unnoticed; other complaints: {sorted(said)[:3]}")
