"""Whole worlds from seeds; and planted bugs, each of which must be noticed for what it is."""

import os
import re
import subprocess
import sys

import pytest

from ottla.testing.world.ledger import Broken
from ottla.testing.world.world import World
from tests.simulation.world_mutants import MUTANTS

SEEDS = int(os.environ.get("OTTLA_SEEDS", "200"))
CHUNK = 10
SEEDS_FOR_A_MUTANT = 25  # most need one or two


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_everything_comes_right_whatever_happens(first):
    for seed in range(first, min(first + CHUNK, SEEDS)):
        World(seed).run()


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_noticed(name, monkeypatch):
    pattern, plant = MUTANTS[name]
    plant(monkeypatch)
    said = []
    for seed in range(SEEDS_FOR_A_MUTANT):
        try:
            World(seed).run()
        except Broken as broken:
            first = str(broken).splitlines()[0]
            if re.search(pattern, first):
                return
            said.append(first)
    pytest.fail(f"{name} went unnoticed in {SEEDS_FOR_A_MUTANT} worlds; other complaints: {said[:3]}")


def test_a_broken_world_says_how_to_see_it_again(monkeypatch):
    MUTANTS["open_transactions_are_stable"][1](monkeypatch)
    with pytest.raises(Broken, match=r"seed 3, event \d+, replay with: make sim SEED=3"):
        World(3).run()


def test_a_seed_is_one_world_in_every_process():
    """Whatever order sets have there."""
    runs = [
        subprocess.run(
            [sys.executable, "-m", "ottla.testing.world", "--seed", "5"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
