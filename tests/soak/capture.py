"""What the soaks of change capture have in common, whatever the database: the writer, the kills, and the audit.

Each row has a version that grows by one with each change, so a lost, a double or a disordered event shows.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ottla.client import Consumer
from tests.soak.connect_worker import Worker

TABLES = ("patient", "visit")
ROWS = 4000  # at the start: what the snapshot reads
STUCK_S = 600
_KEYS = 6000
Change = tuple[str, str, str]  # table, key, kind
Say = Callable[[str], None]


@dataclass(slots=True)
class Report:
    changes: int = 0
    transactions: int = 0
    schema_changes: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    events: int = 0
    snapshot_rows: int = 0
    lost_or_double: int = 0
    different_rows: int = 0
    sink_seconds_behind: float = 0.0
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return (
            not (self.lost_or_double or self.different_rows or self.failures)
            and self.events > self.changes // 2
        )


class Plan(NamedTuple):
    changes: int
    kills: int
    seed: int

    @property
    def pause_s(self) -> float:
        """Between transactions: a short run would else be over before its kills."""
        return 0.1 if self.changes < 100_000 else 0.0


class Writer(ABC):
    """Changes rows, and knows the version that each key has come to; a delete is a version too."""

    errors: tuple[type[Exception], ...] = ()  # of the driver

    def __init__(self, server: Any, chance: random.Random, report: Report, pause_s: float) -> None:
        self._server, self._chance, self._report, self._pause_s = server, chance, report, pause_s
        self.versions: dict[tuple[str, str], int] = {}
        self.present: set[tuple[str, str]] = set()
        self._transaction = 0
        self._columns = 0

    @abstractmethod
    def create(self) -> None:
        """The tables, and `ledger`."""

    @abstractmethod
    def try_to_write(self, transaction: int, changes: list[Change]) -> None:
        """In one transaction; nothing if the ledger says that it has happened, and only the answer was lost."""

    def prepare(self, rows: int = ROWS) -> None:
        self.create()
        for begin in range(0, rows, 500):
            self._commit(
                [(table, f"K{i:06}", "insert") for table in TABLES for i in range(begin, begin + 500)]
            )

    def change(self, count: int) -> None:
        """About `count` changes, in transactions of many sizes."""
        while count > 0:
            size = min(count, self._chance.choice((1, 3, 10, 40, 200, 800)))
            if self._pause_s:
                time.sleep(self._chance.random() * self._pause_s)
            chosen: dict[tuple[str, str], str] = {}
            for _ in range(size):
                table, key = self._chance.choice(TABLES), f"K{self._chance.randrange(_KEYS):06}"
                is_there = (table, key) in self.present
                kind = "insert" if not is_there else "delete" if self._chance.random() < 0.15 else "update"
                chosen[table, key] = kind
            self._commit([(table, key, kind) for (table, key), kind in chosen.items()])
            count -= len(chosen)
            if self._chance.random() < 0.01:
                self._alter()

    def statements(self, changes: list[Change]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for table, key, kind in changes:
            version = self.versions.get((table, key), 0) + 1
            body = f"{key} {version}" * (300 if version % 7 == 0 else 1)
            match kind:
                case "insert":
                    yield (
                        f"INSERT INTO {table} (id, version, body) VALUES (%s, %s, %s)",
                        (key, version, body),
                    )
                case "update":
                    yield f"UPDATE {table} SET version = %s, body = %s WHERE id = %s", (version, body, key)
                case "delete":
                    yield f"DELETE FROM {table} WHERE id = %s", (key,)

    def _commit(self, changes: list[Change]) -> None:
        """Once, although the server may die at any moment."""
        self._transaction += 1
        deadline = time.monotonic() + STUCK_S
        while time.monotonic() < deadline:
            try:
                self.try_to_write(self._transaction, changes)
                break
            except self.errors:
                time.sleep(0.1)
        else:
            raise AssertionError("the database does not come back")
        for table, key, kind in changes:
            self.versions[table, key] = self.versions.get((table, key), 0) + 1
            (self.present.discard if kind == "delete" else self.present.add)((table, key))
        self._report.changes += len(changes)
        self._report.transactions += 1

    def _alter(self) -> None:
        table = self._chance.choice(TABLES)
        self._columns += 1
        with contextlib.suppress(*self.errors):
            self._server.execute(
                f"ALTER TABLE {table} ADD COLUMN extra_{self._columns} integer DEFAULT {self._columns}",
                database="clinic",
            )
            self._report.schema_changes += 1


class Audit:
    """Reads every event, and compares each with the one before of its key."""

    def __init__(self, report: Report, prefix: str) -> None:
        self._report, self._prefix = report, prefix
        self._versions: dict[tuple[str, str], int] = {}
        self._present: set[tuple[str, str]] = set()

    def read(self, bootstrap: str, truth: Writer) -> None:
        """To the last version of every key, or until nothing more comes."""
        consumer = Consumer(
            bootstrap_servers=bootstrap, group_id=f"audit-{random.randrange(10**9)}", auto_offset_reset="earliest",
            isolation_level="read_committed",
        )  # fmt: skip
        quiet_since = time.monotonic()
        with consumer:
            consumer.subscribe([f"{self._prefix}.{table}" for table in TABLES])
            while True:
                records = consumer.poll(1.0)
                for record in records:
                    if record.value is not None:
                        self._event(record.topic.rpartition(".")[2], json.loads(record.value)["payload"])
                if records:
                    quiet_since = time.monotonic()
                elif time.monotonic() - quiet_since > (60 if self._behind(truth) else 5):
                    break
        for place in self._behind(truth):
            self._wrong(
                f"{place} came to version {self._versions.get(place)}, not to {truth.versions.get(place)}"
            )
        if self._present != truth.present:
            self._wrong(f"{len(self._present ^ truth.present)} rows are there, or not, wrongly")

    def _behind(self, truth: Writer) -> list[tuple[str, str]]:
        """Keys without their last change. A row that was deleted before the snapshot came to it has no event."""
        return [
            place
            for place in truth.versions.keys() | self._versions.keys()
            if truth.versions.get(place) != self._versions.get(place)
            and (place in self._versions or place in truth.present)
        ]

    def _event(self, table: str, event: dict[str, Any]) -> None:
        op, before, after = event["op"], event["before"], event["after"]
        place = table, (after or before)["id"]
        last = self._versions.get(place, 0)
        self._report.events += 1
        if op == "r":
            self._report.snapshot_rows += 1
            if place in self._present or place in self._versions:
                self._wrong(f"{place}: a row of the snapshot behind another event")
            self._versions[place] = after["version"]
        else:
            is_first_delete = op == "d" and place not in self._versions
            version = after["version"] if after else last + 1
            if (version != last + 1 and place in self._versions) or is_first_delete:
                self._wrong(f"{place}: {op} to version {version} behind {last}")
            if place not in self._versions and op != "c":
                self._wrong(f"{place}: the first event is {op} to version {version}")
            if op == "d" and table == "visit" and before["version"] != last:
                self._wrong(f"{place}: deleted with version {before['version']}, not {last}")
            if (op == "c") == (place in self._present):
                self._wrong(f"{place}: {op} of a row that is {'' if place in self._present else 'not '}there")
            self._versions[place] = version
        (self._present.discard if op == "d" else self._present.add)(place)

    def _wrong(self, what: str) -> None:
        self._report.lost_or_double += 1
        if len(self._report.failures) < 20:
            self._report.failures.append(what)


class Killable(Protocol):
    def kill(self) -> None: ...
    def start(self) -> None: ...


class Parts(NamedTuple):
    """What is killed."""

    database: Killable
    broker: Any
    worker: Worker


def run_parts(
    parts: Parts,
    writer: Writer,
    report: Report,
    plan: Plan,
    until_begun: Callable[[], None],
    compare: Callable[[], None],
    audit: Audit,
    say: Say,
) -> None:
    """Changes and kills at once; then everything is read and compared."""
    worker = parts.worker
    worker.start()
    stopped = threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            until_begun()
            writer.change(plan.changes)
        except BaseException as error:
            failed.append(error)
        finally:
            stopped.set()

    writing = threading.Thread(target=write)
    writing.start()
    try:
        _kill_all_the_while(plan, report, parts, stopped, say)
        writing.join()
        if failed:
            raise failed[0]
        worker.revive()
        say(f"{report.changes} changes written")
        audit.read(parts.broker.bootstrap, writer)
        say(f"{report.events} events read, {report.lost_or_double} wrong")
        compare()
    finally:
        stopped.set()
        writing.join()
        if not report.is_clean:
            report.failures.append(f"connectors: {worker.states()}")
            report.failures.append(worker.log.read_text(errors="replace")[-3000:])
        worker.kill()


def _kill_all_the_while(plan: Plan, report: Report, parts: Parts, stopped: threading.Event, say: Say) -> None:
    """Spread over the changes; the first while the snapshot is read."""
    chance = random.Random(plan.seed + 1)
    for i in range(plan.kills):
        while not stopped.is_set() and report.changes - 2 * ROWS < plan.changes * i / plan.kills:
            parts.worker.revive()
            stopped.wait(0.1)
        stopped.wait(chance.random() * 2)
        name = ("database", "broker", "worker")[(i + 2) % 3]
        part: Killable = getattr(parts, name)
        part.kill()
        stopped.wait(chance.random())
        part.start()
        report.kills[name] = report.kills.get(name, 0) + 1
        say(f"killed the {name}, {report.changes} changes")
