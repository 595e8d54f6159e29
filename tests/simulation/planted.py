"""Planted bugs: each breaks one rule, and a world in which it is planted must complain of that very rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

from ottla.testing.world.ledger import Broken
from ottla.testing.world.simulation import Simulation

Plant = Callable[[pytest.MonkeyPatch], None]


class Mutant(NamedTuple):
    complaint: str  # a pattern
    plant: Plant
    world: tuple[Any, ...]  # more arguments of the world that shows it


class Mutants(dict[str, Mutant]):
    """By name."""

    def caught_as(self, complaint: str, *world: Any) -> Callable[[Plant], Plant]:
        def register(plant: Plant) -> Plant:
            self[plant.__name__] = Mutant(complaint, plant, world)
            return plant

        return register


def assert_caught(
    mutant: Mutant, patch: pytest.MonkeyPatch, worlds: Iterable[Callable[[], Simulation]]
) -> None:
    """One of the worlds breaks and says why; those that break for another reason do not count."""
    mutant.plant(patch)
    others = set()
    for new_world in worlds:
        try:
            new_world().run()
        except Broken as broken:
            complaint = str(broken).partition("\nseed ")[0]
            if re.search(mutant.complaint, complaint):
                return
            others.add(complaint.partition("\n")[0])
    pytest.fail(f"no world complained of {mutant.complaint!r}; other complaints: {sorted(others)[:3]}")
