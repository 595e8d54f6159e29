"""Groups in simulated worlds from seeds; and planted bugs, each of which must be noticed for what it is."""

import re

import pytest

from tests.simulation.group_mutants import MUTANTS
from tests.simulation.group_world import Simulation

SEEDS_FOR_A_MUTANT = 200  # most need one or two; the rarest shows in one world of sixty


@pytest.mark.parametrize("protocols", ["classic", "consumer", "both"])
@pytest.mark.parametrize("seed", range(20))
def test_groups_come_right_whatever_happens(protocols, seed):
    Simulation(seed, protocols).run()


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_caught_for_what_it_is(name, monkeypatch):
    protocols, pattern, plant = MUTANTS[name]
    plant(monkeypatch)
    complaints = set()
    for seed in range(SEEDS_FOR_A_MUTANT):
        try:
            Simulation(seed, protocols).run()
        except AssertionError as broken:
            complaint = str(broken).partition("\n")[0]
            if re.search(pattern, complaint):
                return
            complaints.add(complaint)
    pytest.fail(f"{name} went unnoticed; other complaints: {sorted(complaints)[:3]}")
