"""Groups in simulated worlds from seeds; and planted bugs, each of which must be noticed."""

import pytest

from tests.simulation.group_mutants import MUTANTS
from tests.simulation.group_world import Simulation

SEEDS_FOR_A_MUTANT = 60  # most need one or two


@pytest.mark.parametrize("protocols", ["classic", "consumer", "both"])
@pytest.mark.parametrize("seed", range(8))
def test_groups_come_right_whatever_happens(protocols, seed):
    Simulation(seed, protocols).run()


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_noticed(name, monkeypatch):
    protocols, plant = MUTANTS[name]
    plant(monkeypatch)
    for seed in range(SEEDS_FOR_A_MUTANT):
        try:
            Simulation(seed, protocols).run()
        except Exception:
            return
    pytest.fail(f"{name} went unnoticed in {SEEDS_FOR_A_MUTANT} worlds")
