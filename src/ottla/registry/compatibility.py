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
            return [*reasons, f"{{oldSchemaVersion: {number}}}", f"{{oldSchema: '{old.canonical}'}}"]
    return []


def field_problems(
    new: Parsed, reserved: frozenset[str], reserved_before: frozenset[str] = frozenset()
) -> list[str]:
    """With `validateFields`: names that are reserved stay so, and no field has one of them."""
    gone = [
        f"The new schema no longer reserves the field {name}, which the earlier schema's metadata reserve."
        for name in sorted(reserved_before - reserved)
    ]
    taken = [
        f"The new schema has the field {name}, which its metadata reserve."
        for name in sorted(reserved & new.top_fields)
    ]
    return gone + taken


def _between(level: str, new: Parsed, old: Parsed) -> list[str]:
    if type(new) is not type(old):
        return ["{errorType:'SCHEMA_TYPE_CHANGED', description:'the earlier schema is of another type'}"]
    reasons: list[str] = []
    try:
        if not level.startswith("FORWARD"):
            reasons += new.cannot_read(old)
        if not level.startswith("BACKWARD"):
            reasons += old.cannot_read(new)
    except RecursionError:
        return ["{errorType:'TOO_DEEP', description:'the schemas nest too deep to be compared'}"]
    return reasons
