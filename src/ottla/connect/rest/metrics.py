"""`/metrics` of a worker: states of connectors and tasks, and what sources measure on the other side."""

import logging
import threading
from collections.abc import Mapping
from time import monotonic

from ottla.connect.errors import ConnectError
from ottla.connect.worker.herder import Herder
from ottla.connect.worker.refusals import Refusal
from ottla.errors import OttlaError

_logger = logging.getLogger(__name__)
_KEPT_S = 5.0  # the other side is asked this often at most
_HELP = {
    "ottla_connect_connector_state": "1 for the state that a connector is in",
    "ottla_connect_tasks": "Tasks of a connector, by state",
    "ottla_connect_measured": "Whether a source could be asked for its measures",
    "ottla_connect_slot_present": "Whether the replication slot is there",
    "ottla_connect_slot_lost": "Whether the server has given the replication slot up: changes are lost",
    "ottla_connect_slot_retained_bytes": "Log that the server keeps for the replication slot",
    "ottla_connect_slot_behind_bytes": "Log that was not read yet",
    "ottla_connect_slot_safe_bytes": "Log that may be written until the server gives the slot up",
}
Sample = tuple[str, Mapping[str, str], float]


class Metrics:
    def __init__(self, herder: Herder) -> None:
        self._herder = herder
        self._lock = threading.Lock()
        self._measured: tuple[float, list[Sample]] = 0.0, []

    def page(self) -> str:
        samples = [*self._states(), *self._measures()]
        lines = []
        for name in dict.fromkeys(name for name, _, _ in samples):
            lines += [f"# HELP {name} {_HELP.get(name, 'Measured by a source')}", f"# TYPE {name} gauge"]
            for other, labels, value in samples:
                if other == name:
                    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
                    lines.append(
                        f"{name}{{{shown}}} {value:g}" if value < 1e6 else f"{name}{{{shown}}} {value:.0f}"
                    )
        return "\n".join(lines) + "\n"

    def _states(self) -> list[Sample]:
        samples: list[Sample] = []
        for name in self._herder.connectors():
            try:
                status = self._herder.status(name)
            except Refusal:
                continue  # deleted a moment ago, or not started yet
            kind = {"connector": name, "type": status["type"]}
            samples.append(
                ("ottla_connect_connector_state", {**kind, "state": status["connector"]["state"]}, 1)
            )
            states = [task["state"] for task in status["tasks"]]
            for state in sorted(set(states)):
                samples.append(("ottla_connect_tasks", {**kind, "state": state}, states.count(state)))
        return samples

    def _measures(self) -> list[Sample]:
        with self._lock:
            asked_at, samples = self._measured
            if not samples or monotonic() - asked_at > _KEPT_S:
                samples = [sample for name in self._herder.connectors() for sample in self._of(name)]
                self._measured = monotonic(), samples
            return samples

    def _of(self, name: str) -> list[Sample]:
        label = {"connector": name}
        try:
            spec = self._herder.spec(name)
            if spec.kind != "source":
                return []
            source = spec.source()
            try:
                measures = source.measures()
            finally:
                source.close()
        except (ConnectError, OttlaError, Refusal) as error:
            _logger.info("connector %s cannot be measured: %s", name, error)
            return [("ottla_connect_measured", label, 0)]
        if not measures:
            return []
        measured = [(f"ottla_connect_{what}", label, value) for what, value in measures.items()]
        return [("ottla_connect_measured", label, 1), *measured]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
