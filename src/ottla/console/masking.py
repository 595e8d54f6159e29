"""Rules that hide parts of records: `TOPIC:value.FIELD`, `TOPIC:key`, `TOPIC:header.NAME`; * is any part of a name."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ottla.console import json_text

HIDDEN = "•••"


@dataclass(frozen=True, slots=True)
class Rule:
    topic: str
    part: str  # key, value, header
    path: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Rule":
        topic, colon, rest = text.rpartition(":")
        part, *path = rest.split(".")
        if not colon or not topic or part not in ("key", "value", "header") or not all(path):
            raise ValueError(
                f"{text!r} is not a mask: write TOPIC:key, TOPIC:value, TOPIC:value.FIELD or TOPIC:header.NAME"
            )
        return cls(topic, part, tuple(path))


class Masks:
    """All rules. What is hidden stays hidden in lists, searches, downloads and live records alike."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)

    @classmethod
    def parse(cls, texts: Iterable[str]) -> "Masks":
        return cls(Rule.parse(text) for text in texts)

    def of(self, topic: str) -> "Masks":
        return Masks(rule for rule in self.rules if fnmatchcase(topic, rule.topic))

    def __bool__(self) -> bool:
        return bool(self.rules)

    def hides_all(self, part: str) -> bool:
        return any(rule.part == part and not rule.path for rule in self.rules)

    def hides_header(self, name: str) -> bool:
        return any(
            rule.part == "header" and (not rule.path or fnmatchcase(name, ".".join(rule.path)))
            for rule in self.rules
        )

    def masked(self, part: str, data: bytes | None) -> tuple[bytes | None, bool]:
        """The bytes to show instead, and whether anything was hidden. What has fields to hide and is not JSON
        is hidden whole: it cannot be told where the fields are."""
        if data is None:
            return None, False
        if self.hides_all(part):
            return HIDDEN.encode(), True
        paths = [rule.path for rule in self.rules if rule.part == part and rule.path]
        if not paths:
            return data, False
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return HIDDEN.encode(), True
        hidden = False
        for path in paths:
            value, did = _hide(value, path)
            hidden = hidden or did
        return (json_text.dumps(value).encode(), True) if hidden else (data, False)


def _hide(value: Any, path: tuple[str, ...]) -> tuple[Any, bool]:
    """Lists are walked through: a field of every element is meant."""
    if not path:
        return HIDDEN, True
    if isinstance(value, list):
        pairs = [_hide(item, path) for item in value]
        return [masked for masked, _ in pairs], any(did for _, did in pairs)
    if not isinstance(value, dict):
        return value, False
    hidden = False
    for name in value:
        if fnmatchcase(name, path[0]):
            value[name], did = _hide(value[name], path[1:])
            hidden = hidden or did
    return value, hidden
