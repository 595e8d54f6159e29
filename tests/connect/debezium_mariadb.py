"""Debezium with a MariaDB on Java's Connect, and what it writes for the changes of `clinic_mariadb.py`.

    python -m tests.connect.debezium_mariadb     writes fixtures/debezium-mariadb.json again

Debezium's own connector for MariaDB is not in Maven Central: this is the last version of the one for MySQL that has an
adapter for MariaDB.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.connect import clinic_mariadb as clinic
from tests.connect.databases import MariaDb, why_no_mariadb
from tests.connect.debezium import java_connect, plugin, read_until_last, start_connector, write_fixture
from tests.oracle import cluster
from tests.oracle.ottla import Ottla

FIXTURE = Path(__file__).with_name("fixtures") / "debezium-mariadb.json"
VERSION = "2.6.2.Final"
DRIVER = "org.mariadb.jdbc:mariadb-java-client:3.3.3"
_WAIT_S = 180
_OF_THE_RUN = frozenset({"ts_ms", "ts_us", "ts_ns", "file", "pos", "gtid", "thread", "server_id", "version"})
CONNECTORS: dict[str, dict[str, str]] = {
    "usual": {},
    "other": {
        "decimal.handling.mode": "double",
        "time.precision.mode": "connect",
        "binary.handling.mode": "hex",
        "bigint.unsigned.handling.mode": "precise",
        "tombstones.on.delete": "false",
        "provide.transaction.metadata": "true",
    },
}


def why_not() -> str | None:
    """The reason why Debezium cannot run here, or None."""
    return cluster.why_not() or why_no_mariadb()


def settings(name: str, server: MariaDb, database: str) -> dict[str, str]:
    """The same for Debezium and for ours."""
    return {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "root",
        "database.password": "",
        "database.server.id": str(1000 + list(CONNECTORS).index(name)),
        "topic.prefix": name,
        "table.include.list": ",".join(f"{database}.{table}" for table in clinic.TABLES),
        "skipped.operations": "none",
        "include.schema.changes": "false",
        "database.ssl.mode": "disabled",
        **CONNECTORS[name],
    }


def prepare(server: MariaDb, database: str) -> None:
    server.new_database(database)
    for statement in (*clinic.CREATE, *clinic.ROWS):
        server.execute(statement, database=database)


def change(server: MariaDb, database: str) -> None:
    with server.connect(database) as connection, connection.cursor() as cursor:
        for statements in clinic.CHANGES:
            cursor.execute("BEGIN")
            for statement in statements:
                cursor.execute(statement)
            cursor.execute("COMMIT")


def record() -> dict[str, list[dict[str, Any]]]:
    with MariaDb() as server, Ottla() as broker, tempfile.TemporaryDirectory() as folder:
        prepare(server, clinic.SCHEMA)
        with java_connect(broker.bootstrap, Path(folder), plugin("mysql", VERSION, [DRIVER])) as address:
            for name in CONNECTORS:
                more = {
                    "connector.adapter": "mariadb",
                    "database.protocol": "jdbc:mariadb",
                    "database.jdbc.driver": "org.mariadb.jdbc.Driver",
                    "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
                    "schema.history.internal.file.filename": str(Path(folder) / f"{name}.history"),
                }
                start_connector(address, name, {**settings(name, server, clinic.SCHEMA), **more})
            _until_streaming(server, Path(folder) / "connect.log")
            change(server, clinic.SCHEMA)
            return {
                name: read_until_last(broker.bootstrap, name, config, clinic.TABLES)
                for name, config in CONNECTORS.items()
            }


def _until_streaming(server: MariaDb, log: Path) -> None:
    """The log is read only behind the snapshot."""
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        readers = server.execute("SELECT 1 FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'")
        if len(readers) == len(CONNECTORS):
            return
        time.sleep(0.2)
    raise AssertionError(f"Debezium does not stream:\n{log.read_text()[-4000:]}")


# Debezium's rows of a snapshot come through the driver for Java: a BLOB is null, a float has six digits, zeros at the
# end of a fraction are left out. Years below 100 are moved into our time.
_OF_THE_DRIVER = ("long_bytes", "single", "fine_stamp")


def comparable(event: dict[str, Any]) -> dict[str, Any]:
    """Without what differs from run to run, or is listed as a difference in docs/connect-mariadb.md."""
    kept = dict(event)
    if event["topic"].endswith(".moved"):
        # A key that is changed by MODIFY without NOT NULL is optional for Debezium; the server says it is not.
        told = json.dumps([event["key"], event["value"]]).replace(
            '"int64", "optional": true, "field": "id"', '"int64", "optional": false, "field": "id"'
        )
        event = {**event, **dict(zip(("key", "value"), json.loads(told), strict=True))}
        kept = dict(event)
    if event["value"]:
        kept["value"] = event["value"] = {
            **event["value"],
            "schema": _of_any_version(event["value"]["schema"]),
        }
    kept["headers"] = [
        header for header in event["headers"] if not header[0].startswith("__debezium.context.")
    ]
    payload = event["value"] and dict(event["value"]["payload"])
    if payload and "status" in payload:  # BEGIN and END of a transaction
        kept["key"] = {**event["key"], "payload": None}
        payload = {**payload, "id": None, "ts_ms": None}
    elif payload:
        payload["source"] = _without_times(payload["source"])
        payload = _without_times(payload)
        if payload["op"] == "t":
            payload["transaction"] = None  # Debezium counts it, in a transaction that has no END
        if payload["transaction"]:
            payload["transaction"] = {**payload["transaction"], "id": None}
        for side in ("before", "after"):
            if payload[side]:
                payload[side] = {**payload[side], "since": None}  # current_timestamp
            if payload[side] and payload["op"] == "r":
                payload[side] |= dict.fromkeys(_OF_THE_DRIVER)
            if payload[side] and payload[side].get("id") in (3, 13):
                payload[side]["day"] = None
    if payload:
        kept["value"] = {**event["value"], "payload": payload}
    return kept


def without_open(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Debezium writes the BEGIN of a statement that changes a table, and no END."""
    ended = {
        event["value"]["payload"]["id"]
        for event in events
        if event["value"] and event["value"]["payload"].get("status") == "END"
    }
    kept, ends = [], Counter[str]()
    for event in events:
        payload = event["value"] and event["value"]["payload"]
        if not payload or "status" not in payload or payload["id"] in ended:
            kept.append({**event, "offset": ends[event["topic"]]})
            ends[event["topic"]] += 1
    return kept


def _of_any_version(schema: dict[str, Any]) -> dict[str, Any]:
    """The envelope of this version has its fields in another order, and fewer words for places in a snapshot."""
    fields = []
    for field in schema["fields"]:
        inner = field
        if field["field"] == "source":
            blocks = [
                {**each, "parameters": None} if each["field"] == "snapshot" else each
                for each in field["fields"]
            ]
            inner = {**field, "fields": blocks, "version": None}
        fields.append(inner)
    return {**schema, "fields": sorted(fields, key=lambda field: str(field["field"]))}


def _without_times(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value is not None if name in _OF_THE_RUN else value for name, value in block.items()}


if __name__ == "__main__":
    write_fixture(record(), FIXTURE)
