"""Every change that was asked for through the console: who, what, and what became of it."""

import json
import logging
import time
from collections import deque
from dataclasses import dataclass

log = logging.getLogger("ottla.console.changes")
KEPT = 500


@dataclass(frozen=True, slots=True)
class Change:
    at_ms: int
    viewer: str
    action: str
    what: str
    outcome: str  # "done", or why not


class ChangeLog:
    """The last changes for the page; all of them in the log, as JSON."""

    def __init__(self) -> None:
        self.changes: deque[Change] = deque(maxlen=KEPT)

    def note(self, viewer: str, action: str, what: str, outcome: str) -> None:
        change = Change(int(time.time() * 1000), viewer, action, what, outcome)
        self.changes.appendleft(change)
        event = {"viewer": viewer, "action": action, "what": what, "outcome": outcome}
        log.warning("%s", json.dumps(event, ensure_ascii=True))
