"""Mirrored topics from seeds; and planted bugs, each of which must be noticed for what it is."""

import os
from functools import partial

import pytest

from tests.simulation.mirror_mutants import MUTANTS
from tests.simulation.mirror_world import MirrorWorld
from tests.simulation.planted import assert_caught

SEEDS = int(os.environ.get("OTTLA_SEEDS", "200"))
CHUNK = 20
SEEDS_FOR_A_MUTANT = 60


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_a_mirror_is_its_source_whatever_happens(first):
    for seed in range(first, min(first + CHUNK, SEEDS)):
        MirrorWorld(seed).run()


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_planted_bug_is_caught_for_what_it_is(name, monkeypatch):
    assert_caught(
        MUTANTS[name], monkeypatch, (partial(MirrorWorld, seed) for seed in range(SEEDS_FOR_A_MUTANT))
    )
