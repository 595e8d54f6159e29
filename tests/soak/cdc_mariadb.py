"""The soak of change capture with MariaDB: `python -m tests.soak.cdc --database mariadb`."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import pymysql

from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from tests.connect.databases import MariaDb
from tests.oracle.ottla import Ottla
from tests.soak import capture
from tests.soak.capture import ROWS, TABLES, Audit, Change, Parts, Plan, Report, Say, run_parts
from tests.soak.cdc import PATIENCE_S, RETRY, SINK, SLOWLY_CHUNKED
from tests.soak.connect_worker import Worker
from tests.soak.copied_tables import Copies, compare


class Writer(capture.Writer):
    errors = (pymysql.Error,)

    def create(self) -> None:
        self._server.execute("CREATE TABLE ledger (number bigint PRIMARY KEY)", database="clinic")
        for table in TABLES:
            self._server.execute(
                f"CREATE TABLE {table} (id varchar(20) PRIMARY KEY, version bigint NOT NULL, body text)",
                database="clinic",
            )

    def try_to_write(self, transaction: int, changes: list[Change]) -> None:
        with self._server.connect("clinic") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM ledger WHERE number = %s", (transaction,))
            if cursor.fetchone():
                return
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO ledger VALUES (%s)", (transaction,))
            for statement, values in self.statements(changes):
                cursor.execute(statement, values)
            cursor.execute("COMMIT")


def _connectors(server: MariaDb) -> dict[str, dict[str, str]]:
    source = {
        "connector.class": "mariadb",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "topic.prefix": "clinic",
        "table.include.list": ",".join(f"clinic.{table}" for table in TABLES),
        "snapshot.fetch.size": SLOWLY_CHUNKED,
        **RETRY,
    }
    sink = {
        "topics": ",".join(f"clinic.clinic.{table}" for table in TABLES),
        "transforms": "name",
        "transforms.name.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.name.regex": ".*\\.(.*)",
        "transforms.name.replacement": "$1",
        "connection.url": f"jdbc:mariadb://127.0.0.1:{server.port}/copy",
        "connection.user": "root",
        **SINK,
        **RETRY,
    }
    return {"capture": source, "copy": sink}


def run(changes: int, kills: int, seed: int, say: Say = lambda _: None, runner: str = "process") -> Report:
    plan, report = Plan(changes, kills, seed), Report()
    with MariaDb() as server, Ottla() as broker, tempfile.TemporaryDirectory() as folder:
        server.new_database("clinic")
        server.new_database("copy")
        writer = Writer(server, random.Random(seed), report, plan.pause_s)
        writer.prepare(ROWS if changes >= 10_000 else 1000)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic(f"clinic.clinic.{table}", 3, 1) for table in TABLES])
        worker = Worker(Path(folder), broker.bootstrap, _connectors(server), runner)
        run_parts(
            Parts(server, broker, worker),
            writer,
            report,
            plan,
            lambda: time.sleep(1),  # some rows change before the capture begins, most beside it
            lambda: compare(
                Copies(server, pymysql.Error, "{}"), report, broker.bootstrap, worker.states, PATIENCE_S, say
            ),
            Audit(report, "clinic.clinic"),
            say,
        )
    return report
