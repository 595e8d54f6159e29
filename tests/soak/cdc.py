"""Change capture killed in every way: no change is lost, none comes twice, and each key's changes are in order.

    python -m tests.soak.cdc [--changes 1000000] [--kills 30] [--seed N] [--runner process] [--database mariadb]

A writer changes two tables of PostgreSQL (or MariaDB), in transactions, while their snapshot is still being read;
columns are added. A worker of Connect captures the tables into topics, and upserts the topics into tables of another
database. Database, worker and broker get SIGKILL at random moments. At the end every event is read: each row has a
version that grows by one with each change, so a lost, a double or a disordered event shows; and the copied tables are
compared with the first ones.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from ottla.client import Consumer
from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from tests.connect.databases import MariaDb, Postgres
from tests.oracle.ottla import Ottla
from tests.oracle.process import SCRIPT

TABLES = ("patient", "visit")
_ROWS = 4000  # at the start: what the snapshot reads
_KEYS = 6000
_STUCK_S = 600
_SLOWLY_CHUNKED = "500"  # rows of a chunk: the snapshot takes many steps


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
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return (
            not (self.lost_or_double or self.different_rows or self.failures)
            and self.events > self.changes // 2
        )


class Writer:
    """Changes rows, and knows the version that each key has come to; a delete is a version too."""

    def __init__(self, server: Postgres, chance: random.Random, report: Report, pause_s: float) -> None:
        self._server, self._chance, self._report, self._pause_s = server, chance, report, pause_s
        self.versions: dict[tuple[str, str], int] = {}
        self.present: set[tuple[str, str]] = set()
        self._transaction = 0
        self._columns = 0

    def prepare(self) -> None:
        with self._server.connect("clinic") as connection:
            connection.execute("CREATE TABLE ledger (number bigint PRIMARY KEY)")
            for table in TABLES:
                connection.execute(
                    f"CREATE TABLE {table} (id text PRIMARY KEY, version bigint NOT NULL, body text)"
                )
            connection.execute("ALTER TABLE visit REPLICA IDENTITY FULL")
        for begin in range(0, _ROWS, 500):
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

    def _commit(self, changes: list[tuple[str, str, str]]) -> None:
        """Once, although the server may die at any moment: the ledger tells whether a commit has happened."""
        self._transaction += 1
        deadline = time.monotonic() + _STUCK_S
        while time.monotonic() < deadline:
            try:
                with self._server.connect("clinic") as connection:
                    done = connection.execute(
                        "SELECT 1 FROM ledger WHERE number = %s", (self._transaction,)
                    ).fetchone()
                    if not done:
                        with connection.transaction(), connection.pipeline():
                            self._write(connection, changes)
                break
            except psycopg.Error:
                time.sleep(0.1)
        else:
            raise AssertionError("the database does not come back")
        for table, key, kind in changes:
            self.versions[table, key] = self.versions.get((table, key), 0) + 1
            (self.present.discard if kind == "delete" else self.present.add)((table, key))
        self._report.changes += len(changes)
        self._report.transactions += 1

    def _write(self, connection: psycopg.Connection[Any], changes: list[tuple[str, str, str]]) -> None:
        connection.execute("INSERT INTO ledger VALUES (%s)", (self._transaction,))
        for table, key, kind in changes:
            version = self.versions.get((table, key), 0) + 1
            body = f"{key} {version}" * (300 if version % 7 == 0 else 1)
            match kind:
                case "insert":
                    connection.execute(
                        f"INSERT INTO {table} (id, version, body) VALUES (%s, %s, %s)", (key, version, body)
                    )
                case "update":
                    connection.execute(
                        f"UPDATE {table} SET version = %s, body = %s WHERE id = %s", (version, body, key)
                    )
                case "delete":
                    connection.execute(f"DELETE FROM {table} WHERE id = %s", (key,))

    def _alter(self) -> None:
        table = self._chance.choice(TABLES)
        self._columns += 1
        with contextlib.suppress(psycopg.Error), self._server.connect("clinic") as connection:
            connection.execute(
                f"ALTER TABLE {table} ADD COLUMN extra_{self._columns} integer DEFAULT {self._columns}"
            )
            self._report.schema_changes += 1


class Worker:
    """`ottla connect` as a process, with the capture and the sink."""

    def __init__(
        self, folder: Path, broker: Ottla, connectors: dict[str, dict[str, str]], runner: str
    ) -> None:
        self._command = [sys.executable, str(SCRIPT), "connect", str(folder / "worker.properties")]
        properties = {
            "bootstrap.servers": broker.bootstrap,
            "listeners": "http://127.0.0.1:0",
            "ottla.runner": runner,
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
        }
        text = "".join(f"{name}={value}\n" for name, value in properties.items())
        (folder / "worker.properties").write_text(text)
        for name, config in connectors.items():
            path = folder / f"{name}.json"
            path.write_text(json.dumps({"name": name, "config": config}))
            self._command.append(str(path))
        self.log = folder / "worker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=output, start_new_session=True
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def revive(self) -> None:
        """A worker that could not start without a broker is started again."""
        if self._process is None or self._process.poll() is not None:
            self.start()


def _connectors(server: Postgres) -> dict[str, dict[str, str]]:
    capture = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "postgres",
        "database.dbname": "clinic",
        "topic.prefix": "clinic",
        "slot.name": "soak",
        "publication.name": "soak",
        "table.include.list": ",".join(f"public.{table}" for table in TABLES),
        "snapshot.fetch.size": _SLOWLY_CHUNKED,
        "errors.retry.timeout": "-1",
        "errors.retry.delay.max.ms": "1000",
    }
    sink = {
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "tasks.max": "2",
        "topics": ",".join(f"clinic.public.{table}" for table in TABLES),
        "connection.url": f"jdbc:postgresql://127.0.0.1:{server.port}/copy",
        "connection.user": "postgres",
        "table.name.format": "${topic}_copy",
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "delete.enabled": "true",
        "auto.create": "true",
        "auto.evolve": "true",
        "errors.retry.timeout": "-1",
        "errors.retry.delay.max.ms": "1000",
    }
    return {"capture": capture, "copy": sink}


class Audit:
    """Reads every event, and compares each with the one before of its key."""

    def __init__(self, report: Report, prefix: str = "clinic.public") -> None:
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
            while time.monotonic() - quiet_since < (5 if not self._behind(truth) else 60):
                records = consumer.poll(1.0)
                for record in records:
                    if record.value is not None:
                        self._event(record.topic.rpartition(".")[2], json.loads(record.value)["payload"])
                if records:
                    quiet_since = time.monotonic()
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


def compare(server: Postgres, report: Report, patience_s: float) -> None:
    """The copied tables become equal to the captured ones; waits as long as the sink goes on."""
    written, deadline = -1, 0.0
    while True:
        different = sum(_different(server, table) for table in TABLES)
        now_written = _written(server)
        if now_written != written:
            written, deadline = now_written, time.monotonic() + patience_s
        if not different or time.monotonic() > deadline:
            report.different_rows = different
            return
        time.sleep(1)


def _written(server: Postgres) -> int:
    """How many records the sink has behind it."""
    try:
        return int(
            server.execute("SELECT sum(position) FROM ottla_connect_positions", database="copy")[0][0] or 0
        )
    except psycopg.Error:
        return 0


def _different(server: Postgres, table: str) -> int:
    statement = "SELECT id, version, md5(body) FROM {}"
    try:
        source = set(server.execute(statement.format(table), database="clinic"))
        copy = set(server.execute(statement.format(f'clinic."public.{table}_copy"'), database="copy"))
    except psycopg.Error:
        return 1
    return len(source ^ copy)


def run(
    changes: int, kills: int, seed: int, say: Callable[[str], None] = lambda _: None, runner: str = "process"
) -> Report:
    chance, report = random.Random(seed), Report()
    with Postgres() as server, Ottla() as broker, tempfile.TemporaryDirectory() as folder:
        server.new_database("clinic")
        server.new_database("copy")
        server.execute("CREATE SCHEMA clinic", database="copy")
        writer = Writer(server, chance, report, pause_s=0.1 if changes < 100_000 else 0.0)
        writer.prepare()
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic(f"clinic.public.{table}", 3, 1) for table in TABLES])
        worker = Worker(Path(folder), broker, _connectors(server), runner)
        run_parts(
            (server, broker, worker),
            writer,
            report,
            Plan(changes, kills, seed),
            lambda: _until_slot(server),
            lambda: compare(server, report, 120),
            Audit(report),
            say,
        )
    return report


class Plan(NamedTuple):
    changes: int
    kills: int
    seed: int


def run_parts(
    parts: tuple[Postgres | MariaDb, Ottla, Worker],
    writer: Any,
    report: Report,
    plan: Plan,
    until_begun: Callable[[], None],
    compared: Callable[[], None],
    audit: Audit,
    say: Callable[[str], None],
) -> None:
    """Changes and kills at once; then everything is read and compared."""
    _, broker, worker = parts
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
        _kill_all_the_while(
            plan.kills, plan.changes, report, parts, stopped, random.Random(plan.seed + 1), say
        )
        writing.join()
        if failed:
            raise failed[0]
        worker.revive()
        say(f"{report.changes} changes written")
        audit.read(broker.bootstrap, writer)
        say(f"{report.events} events read, {report.lost_or_double} wrong")
        compared()
    finally:
        stopped.set()
        writing.join()
        worker.kill()
        if not report.is_clean:
            report.failures.append(worker.log.read_text(errors="replace")[-3000:])


def _until_slot(server: Postgres) -> None:
    """The capture has begun: what is written now is written beside its snapshot."""
    deadline = time.monotonic() + _STUCK_S
    while time.monotonic() < deadline:
        with contextlib.suppress(psycopg.Error):
            if server.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = 'soak'"):
                return
        time.sleep(0.02)
    raise AssertionError("the capture does not begin")


def _kill_all_the_while(
    kills: int,
    changes: int,
    report: Report,
    parts: tuple[Postgres | MariaDb, Ottla, Worker],
    stopped: threading.Event,
    chance: random.Random,
    say: Callable[[str], None],
) -> None:
    """Spread over the changes; the first while the snapshot is read."""
    server, broker, worker = parts
    for i in range(kills):
        while not stopped.is_set() and report.changes - 2 * _ROWS < changes * i / kills:
            worker.revive()
            stopped.wait(0.1)
        stopped.wait(chance.random() * 2)
        name, part = (("database", server), ("broker", broker), ("worker", worker))[(i + 2) % 3]
        part.kill()
        stopped.wait(chance.random())
        part.start()
        report.kills[name] = report.kills.get(name, 0) + 1
        say(f"killed the {name}, {report.changes} changes")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runner", choices=("process", "spark"), default="process")
    parser.add_argument("--database", choices=("postgres", "mariadb"), default="postgres")
    options = parser.parse_args()
    act = run
    if options.database == "mariadb":
        from tests.soak.cdc_mariadb import run as act
    report = act(
        options.changes, options.kills, options.seed, lambda line: print(line, flush=True), options.runner
    )
    print(report)
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
