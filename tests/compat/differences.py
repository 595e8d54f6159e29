"""Where Ottla answers differently from Apache Kafka on purpose, and why. Everything else must be equal."""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """Patterns as in a shell: of the scenario's name, and of the path `/label/field/...` in its answers."""

    scenario: str
    path: str
    reason: str


DIFFERENCES: tuple[Difference, ...] = ()
