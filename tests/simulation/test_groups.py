"""Groups in simulated worlds from seeds; and planted bugs, each of which must be noticed for what it is."""

from functools import partial

import pytest

from tests.simulation.group_mutants import MUTANTS
from tests.simulation.group_world import GroupWorld
from tests.simulation.planted import assert_caught

SEEDS_FOR_A_MUTANT = 200  # most need one or two; the rarest shows in one world of sixty


@pytest.mark.parametrize("protocols", ["classic", "static", "consumer", "both"])
@pytest.mark.parametrize("seed", range(20))
def test_groups_come_right_whatever_happens(protocols, seed):
    GroupWorld(seed, protocols).run()


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_caught_for_what_it_is(name, monkeypatch):
    mutant = MUTANTS[name]
    worlds = (partial(GroupWorld, seed, *mutant.world) for seed in range(SEEDS_FOR_A_MUTANT))
    assert_caught(mutant, monkeypatch, worlds)
