"""The three pipelines as `stream` runs them: which topics, what tasks do, what the driver does."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.homecare import billing, nurse, technician, topics
from ottla.homecare.reading import read
from ottla.homecare.rules import Rules
from ottla.homecare.tasks import ByTopic, Work

Tables = dict[str, pa.Table]
Writes = list[tuple[str, pa.RecordBatch]]


class Job(Protocol):
    """Made anew whenever its query starts: the state comes from the topics."""

    name: str
    reads: tuple[str, ...]
    columns: str  # of the records; what is not asked for is not carried through Spark
    state_topic: str
    ticks: bool  # whether time must move when nothing comes

    def work(self) -> Work: ...  # for the tasks: travels to them, so it holds plain values only
    def load(self, saved: dict[str, bytes], bootstrap: str) -> None: ...
    def step(self, found: Tables, watermark_ms: int) -> Writes: ...
    def changes(self) -> list[tuple[str, bytes]]: ...
    def figures(self) -> dict[str, Any]: ...


def _runs(by_topic: ByTopic, timeout_ms: int) -> Tables:
    return {"runs": technician.runs(by_topic.get(topics.HEARTBEAT, []), timeout_ms)}


def _windows(by_topic: ByTopic, window_ms: int) -> Tables:
    return {
        "windows": nurse.windows(by_topic.get(topics.VITALS, []), window_ms),
        "duties": nurse.duties(by_topic.get(topics.ROSTER, [])),
    }


def _services(by_topic: ByTopic) -> Tables:
    return {"services": billing.services(by_topic.get(topics.BILLING, []))}


@dataclass(slots=True)
class TechnicianJob:
    rules: Rules
    name: str = "technician"
    reads: tuple[str, ...] = (topics.HEARTBEAT,)
    columns: str = "key,topic,partition,offset,timestamp"
    state_topic: str = topics.TECHNICIAN_STATE
    ticks: bool = True
    _view: technician.Technician = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        self._view = technician.Technician(self.rules.timeout_ms)

    def work(self) -> Work:
        return partial(_runs, timeout_ms=self.rules.timeout_ms)

    def load(self, saved: dict[str, bytes], bootstrap: str) -> None:
        self._view.load(saved)

    def step(self, found: Tables, watermark_ms: int) -> Writes:
        nothing = technician.runs([], self.rules.timeout_ms)
        events = self._view.step(found.get("runs", nothing), watermark_ms)
        self._written += len(events)
        return [technician.records(events)]

    def changes(self) -> list[tuple[str, bytes]]:
        return self._view.changes()

    def figures(self) -> dict[str, Any]:
        return {"devices": len(self._view.devices), "offline": self._view.offline, "written": self._written}


@dataclass(slots=True)
class NurseJob:
    rules: Rules
    name: str = "nurse"
    reads: tuple[str, ...] = (topics.VITALS, topics.ROSTER)
    columns: str = "key,value,topic,partition,offset,timestamp"
    state_topic: str = topics.NURSE_STATE
    ticks: bool = True
    _view: nurse.Nurse = field(init=False)
    _written: int = 0

    def __post_init__(self) -> None:
        self._view = nurse.Nurse(self.rules)

    def work(self) -> Work:
        return partial(_windows, window_ms=self.rules.window_ms)

    def load(self, saved: dict[str, bytes], bootstrap: str) -> None:
        self._view.load(saved)

    def step(self, found: Tables, watermark_ms: int) -> Writes:
        # The roster first: what is known by now holds for what is judged now.
        if "duties" in found:
            self._view.on_roster(found["duties"])
        nothing = nurse.windows([], self.rules.window_ms)
        alerts = self._view.step(found.get("windows", nothing), watermark_ms)
        self._written += len(alerts)
        return [nurse.records(alerts)]

    def changes(self) -> list[tuple[str, bytes]]:
        return self._view.changes()

    def figures(self) -> dict[str, Any]:
        view = self._view
        return {"alerting": view.alerting, "too_late": view.too_late, "written": self._written}


@dataclass(slots=True)
class BillingJob:
    rules: Rules
    name: str = "billing"
    reads: tuple[str, ...] = (topics.BILLING,)
    columns: str = "key,value,topic,partition,offset,timestamp"
    state_topic: str = topics.BILLING_STATE
    ticks: bool = False  # money does not depend on the time of day
    _view: billing.Billing = field(default_factory=billing.Billing)
    _written: int = 0

    def work(self) -> Work:
        return _services

    def load(self, saved: dict[str, bytes], bootstrap: str) -> None:
        self._view.load(saved)
        for rows in read(bootstrap, topics.TOTAL):
            self._view.load_totals(billing.parse_totals(rows))

    def step(self, found: Tables, watermark_ms: int) -> Writes:
        totals = self._view.step(found.get("services", billing.services([])))
        self._written += totals.num_rows
        return [billing.records(totals)]

    def changes(self) -> list[tuple[str, bytes]]:
        return self._view.changes()

    def figures(self) -> dict[str, Any]:
        return {"cents": self._view.cents, "repeated": self._view.repeated, "written": self._written}


JOBS: dict[str, type[TechnicianJob] | type[NurseJob] | type[BillingJob]] = {
    "technician": TechnicianJob,
    "nurse": NurseJob,
    "billing": BillingJob,
}
