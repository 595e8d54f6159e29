"""Change capture killed in every way: no change is lost, none comes twice, and each key's changes are in order.

    python -m tests.soak.cdc [--changes 1000000] [--kills 30] [--seed N] [--runner process] [--database mariadb]

A writer changes two tables of PostgreSQL (or MariaDB), in transactions, while their snapshot is still being read;
columns are added. A worker of Connect captures the tables into topics, and upserts the topics into tables of another
database. Database, worker and broker get SIGKILL at random moments. At the end every event is read and compared with
the one before of its row, and the copied tables are compared with the captured ones.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from tests.connect.databases import Postgres
from tests.oracle.ottla import Ottla
from tests.soak import capture
from tests.soak.capture import STUCK_S, TABLES, Audit, Change, Parts, Plan, Report, Say, run_parts
from tests.soak.connect_worker import Worker
from tests.soak.copied_tables import Copies, compare

SLOWLY_CHUNKED = "500"  # rows of a chunk: the snapshot takes many steps
PATIENCE_S = 120.0  # for a sink that does nothing
SINK = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
    "tasks.max": "2",
    "insert.mode": "upsert",
    "pk.mode": "record_key",
    "delete.enabled": "true",
    "auto.create": "true",
    "auto.evolve": "true",
}
RETRY = {"errors.retry.timeout": "-1", "errors.retry.delay.max.ms": "1000"}


class Writer(capture.Writer):
    errors = (psycopg.Error,)

    def create(self) -> None:
        with self._server.connect("clinic") as connection:
            connection.execute("CREATE TABLE ledger (number bigint PRIMARY KEY)")
            for table in TABLES:
                connection.execute(
                    f"CREATE TABLE {table} (id text PRIMARY KEY, version bigint NOT NULL, body text)"
                )
            connection.execute("ALTER TABLE visit REPLICA IDENTITY FULL")

    def try_to_write(self, transaction: int, changes: list[Change]) -> None:
        with self._server.connect("clinic") as connection:
            if connection.execute("SELECT 1 FROM ledger WHERE number = %s", (transaction,)).fetchone():
                return
            with connection.transaction(), connection.pipeline():
                connection.execute("INSERT INTO ledger VALUES (%s)", (transaction,))
                for statement, values in self.statements(changes):
                    connection.execute(statement, values)


def _connectors(server: Postgres) -> dict[str, dict[str, str]]:
    source = {
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
        "snapshot.fetch.size": SLOWLY_CHUNKED,
        **RETRY,
    }
    sink = {
        "topics": ",".join(f"clinic.public.{table}" for table in TABLES),
        "connection.url": f"jdbc:postgresql://127.0.0.1:{server.port}/copy",
        "connection.user": "postgres",
        "table.name.format": "${topic}_copy",
        **SINK,
        **RETRY,
    }
    return {"capture": source, "copy": sink}


def run(changes: int, kills: int, seed: int, say: Say = lambda _: None, runner: str = "process") -> Report:
    plan, report = Plan(changes, kills, seed), Report()
    with Postgres() as server, Ottla() as broker, tempfile.TemporaryDirectory() as folder:
        server.new_database("clinic")
        server.new_database("copy")
        server.execute("CREATE SCHEMA clinic", database="copy")
        writer = Writer(server, random.Random(seed), report, plan.pause_s)
        writer.prepare()
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic(f"clinic.public.{table}", 3, 1) for table in TABLES])
        worker = Worker(Path(folder), broker.bootstrap, _connectors(server), runner)
        copies = Copies(server, psycopg.Error, 'clinic."public.{}_copy"')
        run_parts(
            Parts(server, broker, worker),
            writer,
            report,
            plan,
            lambda: _until_slot(server),
            lambda: compare(copies, report, broker.bootstrap, worker.states, PATIENCE_S, say),
            Audit(report, "clinic.public"),
            say,
        )
    return report


def _until_slot(server: Postgres) -> None:
    """The capture has begun: what is written now is written beside its snapshot."""
    deadline = time.monotonic() + STUCK_S
    while time.monotonic() < deadline:
        with contextlib.suppress(psycopg.Error):
            if server.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = 'soak'"):
                return
        time.sleep(0.02)
    raise AssertionError("the capture does not begin")


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
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s: {line}", flush=True)

    report = act(options.changes, options.kills, options.seed, say, options.runner)
    print(report)
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
