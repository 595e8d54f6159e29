"""The seven levels: which earlier versions a new schema is compared with, and in which direction."""

from collections.abc import Sequence

from ottla.registry.formats import Parsed

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)


def problems(level: str, new: Parsed, earlier: Sequence[tuple[int, Parsed]]) -> list[str]:
    """Why the new schema is not compatible with the earlier versions (numbers and schemas, in order)."""
    if level == "NONE" or not earlier:
        return []
    compared = earlier if level.endswith("_TRANSITIVE") else earlier[-1:]
    for number, old in reversed(compared):
        reasons = _between(level, new, old)
        if reasons:
            told = [f"{{oldSchemaVersion: {number}}}", f"{{oldSchema: '{old.canonical}'}}"]
            return [*reasons, *told, f"{{compatibility: '{level}'}}"]
    return []


def _between(level: str, new: Parsed, old: Parsed) -> list[str]:
    if type(new) is not type(old):
        return ["{errorType:'SCHEMA_TYPE_CHANGED', description:'the earlier schema is of another type'}"]
    reasons: list[str] = []
    if not level.startswith("FORWARD"):
        reasons += new.cannot_read(old)
    if not level.startswith("BACKWARD"):
        reasons += old.cannot_read(new)
    return reasons
