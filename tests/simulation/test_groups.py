"""Groups in simulated worlds from seeds; and planted bugs, each of which must be noticed."""

import pytest

from tests.simulation.group_world import Simulation


@pytest.mark.parametrize("protocols", ["classic", "consumer", "both"])
@pytest.mark.parametrize("seed", range(12))
def test_groups_come_right_whatever_happens(protocols, seed):
    Simulation(seed, protocols).run()
