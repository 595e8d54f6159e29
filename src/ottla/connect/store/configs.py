"""What the config topic says: connectors, their tasks, and whether they are to run. Changes only by `apply`."""

import logging
from collections.abc import Iterable
from typing import Any

from ottla.connect.store.formats import dumps, loads

log = logging.getLogger(__name__)
STARTED, PAUSED, STOPPED = "STARTED", "PAUSED", "STOPPED"
Record = tuple[bytes, bytes | None]
_TASKS_MAX = 100_000  # of a connector: each has an entry in memory


class ConfigState:
    """Restart is replay through the same `apply`."""

    def __init__(self) -> None:
        self.connectors: dict[str, dict[str, str | None]] = {}
        self.targets: dict[str, str] = {}
        self.tasks: dict[str, list[dict[str, str | None]]] = {}
        self._deferred: dict[str, dict[int, dict[str, str | None]]] = {}  # until their commit record

    def apply(self, key: bytes, value: bytes | None) -> None:
        """A record that is none of Connect's is logged and passed over, as Java's workers do: it stays in the topic."""
        name = key.decode("utf-8", "replace")
        try:
            self._apply(name, loads(value))
        except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError) as error:
            log.error("record %s of the config topic cannot be read, and is passed over: %s", name, error)

    def _apply(self, key: str, document: Any) -> None:
        kind, _, rest = key.partition("-")
        match kind:
            case "connector":
                self._apply_connector(rest, document)
            case "task":
                name, _, number = rest.rpartition("-")
                if document is not None and number.isdecimal():
                    self._deferred.setdefault(name, {})[int(number)] = _properties(document)
            case "commit":
                self._apply_commit(rest, document)
            case "target" if rest.startswith("state-"):
                self._apply_target(rest.removeprefix("state-"), document)
            case _:
                pass  # session keys, restarts, loggers: of Java's workers among themselves

    def _apply_connector(self, name: str, document: Any) -> None:
        if document is None:
            self.connectors.pop(name, None)
            self.tasks.pop(name, None)
            self._deferred.pop(name, None)
        else:
            self.connectors[name] = _properties(document)

    def _apply_commit(self, name: str, document: Any) -> None:
        if document is None:
            return
        count = int(document["tasks"])
        if not 0 <= count <= _TASKS_MAX:
            raise ValueError(f"it has {count} tasks, and a connector has at most {_TASKS_MAX}")
        waiting = self._deferred.pop(name, {})
        before = self.tasks.get(name, [])
        known = {**dict(enumerate(before)), **waiting}
        self.tasks[name] = [known.get(index, {}) for index in range(count)]

    def _apply_target(self, name: str, document: Any) -> None:
        if document is None:
            self.targets.pop(name, None)
        else:
            self.targets[name] = document.get("state.v2") or document.get("state") or STARTED

    def target(self, name: str) -> str:
        return self.targets.get(name, STARTED)


def _properties(document: Any) -> dict[str, str | None]:
    properties = document["properties"]
    if not isinstance(properties, dict):
        raise TypeError("its properties are no object")
    return properties


# -- the records that change it --------------------------------------------------------------------


def connector_record(name: str, config: dict[str, str | None]) -> Record:
    return f"connector-{name}".encode(), dumps({"properties": config})


def target_record(name: str, state: str) -> Record:
    """Workers before 3.5 know no STOPPED: to them it is PAUSED."""
    return f"target-state-{name}".encode(), dumps(
        {"state": PAUSED if state == STOPPED else state, "state.v2": state}
    )


def task_records(name: str, configs: Iterable[dict[str, str | None]]) -> list[Record]:
    """All tasks, then the commit that makes them count."""
    records: list[Record] = [
        (f"task-{name}-{index}".encode(), dumps({"properties": config}))
        for index, config in enumerate(configs)
    ]
    return [*records, (f"commit-{name}".encode(), dumps({"tasks": len(records)}))]


def removal_records(name: str) -> list[Record]:
    return [(f"connector-{name}".encode(), None), (f"target-state-{name}".encode(), None)]
