"""The soak of change capture with MariaDB: `python -m tests.soak.cdc --database mariadb`."""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pymysql

from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from tests.connect.databases import MariaDb
from tests.oracle.ottla import Ottla
from tests.soak import cdc
from tests.soak.cdc import TABLES, Audit, Plan, Report, Worker, run_parts

_ROWS = 4000
_STUCK_S = 600


class Writer(cdc.Writer):
    """As PostgreSQL's, with MariaDB's statements."""

    def __init__(self, server: MariaDb, chance: random.Random, report: Report, pause_s: float) -> None:
        super().__init__(None, chance, report, pause_s)
        self._maria = server

    def prepare(self, count: int = _ROWS) -> None:
        self._maria.execute("CREATE TABLE ledger (number bigint PRIMARY KEY)", database="clinic")
        for table in TABLES:
            self._maria.execute(
                f"CREATE TABLE {table} (id varchar(20) PRIMARY KEY, version bigint NOT NULL, body text)",
                database="clinic",
            )
        for begin in range(0, count, 500):
            self._commit(
                [(table, f"K{i:06}", "insert") for table in TABLES for i in range(begin, begin + 500)]
            )

    def _commit(self, changes: list[tuple[str, str, str]]) -> None:
        self._transaction += 1
        deadline = time.monotonic() + _STUCK_S
        while time.monotonic() < deadline:
            try:
                self._try(changes)
                break
            except pymysql.Error:
                time.sleep(0.1)
        else:
            raise AssertionError("the database does not come back")
        for table, key, kind in changes:
            self.versions[table, key] = self.versions.get((table, key), 0) + 1
            (self.present.discard if kind == "delete" else self.present.add)((table, key))
        self._report.changes += len(changes)
        self._report.transactions += 1

    def _try(self, changes: list[tuple[str, str, str]]) -> None:
        with self._maria.connect("clinic") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM ledger WHERE number = %s", (self._transaction,))
            if cursor.fetchone():
                return  # it was committed, and the answer was lost
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO ledger VALUES (%s)", (self._transaction,))
            for table, key, kind in changes:
                version = self.versions.get((table, key), 0) + 1
                body = f"{key} {version}" * (300 if version % 7 == 0 else 1)
                match kind:
                    case "insert":
                        row = (key, version, body)
                        cursor.execute(f"INSERT INTO {table} (id, version, body) VALUES (%s, %s, %s)", row)
                    case "update":
                        cursor.execute(
                            f"UPDATE {table} SET version = %s, body = %s WHERE id = %s", (version, body, key)
                        )
                    case "delete":
                        cursor.execute(f"DELETE FROM {table} WHERE id = %s", (key,))
            cursor.execute("COMMIT")

    def _alter(self) -> None:
        table = self._chance.choice(TABLES)
        self._columns += 1
        with contextlib.suppress(pymysql.Error):
            self._maria.execute(
                f"ALTER TABLE {table} ADD COLUMN extra_{self._columns} int DEFAULT {self._columns}",
                database="clinic",
            )
            self._report.schema_changes += 1


def connectors(server: MariaDb) -> dict[str, dict[str, str]]:
    patience = {"errors.retry.timeout": "-1", "errors.retry.delay.max.ms": "1000"}
    capture = {
        "connector.class": "mariadb",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "topic.prefix": "clinic",
        "table.include.list": ",".join(f"clinic.{table}" for table in TABLES),
        "snapshot.fetch.size": "500",
        **patience,
    }
    sink = {
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "tasks.max": "2",
        "topics": ",".join(f"clinic.clinic.{table}" for table in TABLES),
        "transforms": "name",
        "transforms.name.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.name.regex": ".*\\.(.*)",
        "transforms.name.replacement": "$1",
        "connection.url": f"jdbc:mariadb://127.0.0.1:{server.port}/copy",
        "connection.user": "root",
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "delete.enabled": "true",
        "auto.create": "true",
        "auto.evolve": "true",
        **patience,
    }
    return {"capture": capture, "copy": sink}


def compare(server: MariaDb, report: Report, patience_s: float) -> None:
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


def _written(server: MariaDb) -> int:
    try:
        return int(
            server.execute("SELECT sum(position) FROM ottla_connect_positions", database="copy")[0][0] or 0
        )
    except pymysql.Error:
        return 0


def _different(server: MariaDb, table: str) -> int:
    statement = f"SELECT id, version, md5(body) FROM {table}"
    try:
        source = set(server.execute(statement, database="clinic"))
        copy = set(server.execute(statement, database="copy"))
    except pymysql.Error:
        return 1
    return len(source ^ copy)


def run(
    changes: int, kills: int, seed: int, say: Callable[[str], None] = lambda _: None, runner: str = "process"
) -> Report:
    report = Report()
    with MariaDb() as server, Ottla() as broker, tempfile.TemporaryDirectory() as folder:
        server.new_database("clinic")
        server.new_database("copy")
        writer = Writer(server, random.Random(seed), report, pause_s=0.1 if changes < 100_000 else 0.0)
        writer.prepare(_ROWS if changes >= 10_000 else 1000)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic(f"clinic.clinic.{table}", 3, 1) for table in TABLES])
        worker = Worker(Path(folder), broker, connectors(server), runner)
        run_parts(
            (server, broker, worker),
            writer,
            report,
            Plan(changes, kills, seed),
            lambda: time.sleep(1),  # some rows change before the capture begins, most beside it
            lambda: compare(server, report, 120),
            Audit(report, "clinic.clinic"),
            say,
        )
    return report
