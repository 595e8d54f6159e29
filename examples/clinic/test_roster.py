"""The clinic's table feeds home care's roster: rows that are there, changes, deletes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs the extra postgres")
pytest.importorskip("starlette", reason="needs the extra connect")

from ottla.client import Consumer
from ottla.client.settings import read_properties
from ottla.connect.running.threads import ThreadRunner
from ottla.connect.worker.settings import WorkerSettings
from ottla.connect.worker.standalone import Standalone
from ottla.testing import Broker
from tests.connect.databases import Postgres, why_no_postgres

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(why_no_postgres() is not None, reason=str(why_no_postgres()))


def test_the_roster_follows_the_clinics_table() -> None:
    with Postgres() as server, Broker() as broker:
        server.new_database("clinic")
        server.execute((HERE / "clinic.sql").read_text(), database="clinic")  # type: ignore[arg-type]
        server.execute(
            "INSERT INTO roster VALUES ('patient-1', 'Eva', 'W1', 0), ('patient-2', 'Jo', 'W2', 0)",
            database="clinic",
        )
        config = read_properties((HERE / "roster.properties").read_text())
        config |= {"database.hostname": "127.0.0.1", "database.port": str(server.port)}
        settings = {"bootstrap.servers": broker.bootstrap, "listeners": "http://127.0.0.1:0"}
        worker = Standalone(WorkerSettings.parse(settings, distributed=False), ThreadRunner())
        try:
            worker.start({config["name"]: config})
            assert roster(broker, 2) == {
                "patient-1": {"patient": "patient-1", "nurse": "Eva", "ward": "W1", "from": 0},
                "patient-2": {"patient": "patient-2", "nurse": "Jo", "ward": "W2", "from": 0},
            }
            server.execute("UPDATE roster SET nurse = 'Ida' WHERE patient = 'patient-1'", database="clinic")
            server.execute("DELETE FROM roster WHERE patient = 'patient-2'", database="clinic")
            changed = roster(broker, 5)
            assert {patient: duty["nurse"] for patient, duty in changed.items()} == {"patient-1": "Ida"}
        finally:
            worker.close()


def roster(broker: Broker, records_least: int) -> dict[str, dict[str, object]]:
    """The topic as a table, once it has so many records."""
    table: dict[str, dict[str, object]] = {}
    count, deadline = 0, time.monotonic() + 60
    consumer = Consumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed",
        group_id=f"ward-{time.monotonic_ns()}",
    )  # fmt: skip
    with consumer:
        consumer.subscribe(["nurse-roster"])
        while count < records_least and time.monotonic() < deadline:
            for record in consumer.poll(0.5):
                count += 1
                patient = record.key.decode()
                if record.value is None:
                    table.pop(patient, None)
                else:
                    table[patient] = json.loads(record.value)
    assert count >= records_least, f"{count} records of the roster"
    return table
