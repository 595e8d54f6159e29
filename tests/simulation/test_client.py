"""Our own client in whole worlds from seeds: kills, lost power, full disks and bad weather; and planted bugs, each of
which must be noticed for what it is."""

import asyncio
import os
from functools import partial

import pytest

from ottla.testing.world.ledger import Broken
from ottla.testing.world.real import ClientWorld
from tests.simulation.client_mutants import MUTANTS
from tests.simulation.planted import assert_caught

SEEDS = int(os.environ.get("OTTLA_SEEDS", "100"))
CHUNK = 10
SEEDS_FOR_A_MUTANT = 20  # most need one


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_what_our_client_is_told_is_true(first: int) -> None:
    for seed in range(first, min(first + CHUNK, SEEDS)):
        ClientWorld(seed).run()


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_caught_for_what_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_caught(
        MUTANTS[name], monkeypatch, (partial(ClientWorld, seed) for seed in range(SEEDS_FOR_A_MUTANT))
    )


def test_a_broken_world_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS["what_is_sent_counts_as_acknowledged"].plant(monkeypatch)
    with pytest.raises(Broken, match=r"seed 0, event \d+, replay with: make sim SEED=0 WORLD=client\n"):
        ClientWorld(0).run()


def test_a_broken_world_leaves_no_task_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector would resume it later, in the middle of another test."""
    MUTANTS["what_is_sent_counts_as_acknowledged"].plant(monkeypatch)
    world = ClientWorld(0)
    with pytest.raises(Broken):
        world.run()
    assert not asyncio.all_tasks(world.loop)  # type: ignore[arg-type]
