"""What the config topic says: connectors, their tasks, and whether they are to run. Changes only by `apply`."""

from collections.abc import Iterable
from typing import Any

from ottla.connect.store.formats import dumps, loads

STARTED, PAUSED, STOPPED = "STARTED", "PAUSED", "STOPPED"
Record = tuple[bytes, bytes | None]


class ConfigState:
    """Restart is replay through the same `apply`."""

    def __init__(self) -> None:
        self.connectors: dict[str, dict[str, str | None]] = {}
        self.targets: dict[str, str] = {}
        self.tasks: dict[str, list[dict[str, str | None]]] = {}
        self._deferred: dict[str, dict[int, dict[str, str | None]]] = {}  # until their commit record

    def apply(self, key: bytes, value: bytes | None) -> None:
        kind, _, rest = key.decode("utf-8", "replace").partition("-")
        told = loads(value)
        match kind:
            case "connector":
                self._apply_connector(rest, told)
            case "task":
                name, _, number = rest.rpartition("-")
                if told is not None and number.isdigit():
                    self._deferred.setdefault(name, {})[int(number)] = told["properties"]
            case "commit":
                self._apply_commit(rest, told)
            case "target" if rest.startswith("state-"):
                self._apply_target(rest.removeprefix("state-"), told)
            case _:
                pass  # session keys, restarts, loggers: of Java's workers among themselves

    def _apply_connector(self, name: str, told: Any) -> None:
        if told is None:
            self.connectors.pop(name, None)
            self.tasks.pop(name, None)
            self._deferred.pop(name, None)
        else:
            self.connectors[name] = told["properties"]

    def _apply_commit(self, name: str, told: Any) -> None:
        if told is None:
            return
        waiting = self._deferred.pop(name, {})
        before = self.tasks.get(name, [])
        count = int(told["tasks"])
        known = {**dict(enumerate(before)), **waiting}
        self.tasks[name] = [known.get(index, {}) for index in range(count)]

    def _apply_target(self, name: str, told: Any) -> None:
        if told is None:
            self.targets.pop(name, None)
        else:
            self.targets[name] = told.get("state.v2") or told.get("state") or STARTED

    def target(self, name: str) -> str:
        return self.targets.get(name, STARTED)


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
