"""What a view gets: the viewer's workspace, the page's parameters, and what is switched on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.console.masking import Masks
from ottla.console.model import Form
from ottla.console.workspace import Workspace


class NotFound(Exception):
    """There is no such page, topic or group."""


class BadRequest(Exception):
    """A parameter makes no sense; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Context:
    workspace: Workspace
    names: Sequence[str]  # the parts of the path that are names
    query: Mapping[str, str]
    viewer: str = ""
    may_change: bool = False
    masks: Masks = field(default_factory=Masks)
    console: Any = None  # the application's own parts: searches, change log, sessions

    def number(self, name: str, default: int, low: int = 0, high: int = 2**63 - 1) -> int:
        text = self.query.get(name, "")
        if not text:
            return default
        try:
            value = int(text)
        except ValueError:
            raise BadRequest(f"{name}={text!r} is not a number") from None
        if not low <= value <= high:
            raise BadRequest(f"{name}={value} is not between {low} and {high}")
        return value

    def forms(self, *forms: Form) -> list[Form]:
        """Forms that change something: none for a console that only reads."""
        return list(forms) if self.may_change else []
