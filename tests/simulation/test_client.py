"""Our own client in whole worlds from seeds: kills, lost power, full disks and bad weather."""

import os

import pytest

from ottla.testing.world.real import ClientWorld

SEEDS = int(os.environ.get("OTTLA_SEEDS", "50"))
CHUNK = 5


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_what_our_client_is_told_is_true(first: int) -> None:
    for seed in range(first, min(first + CHUNK, SEEDS)):
        ClientWorld(seed).run()
