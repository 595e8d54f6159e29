"""`/metrics` of a worker: states, and the health of PostgreSQL's slot."""

from __future__ import annotations

import urllib.request

from tests.connect.test_postgres import Clinic, clinic
from tests.connect.waiting import wait_for

__all__ = ["clinic"]  # a fixture


def test_states_and_slots_are_measured(standalone, clinic: Clinic, lines):
    settings = {"connector.class": "postgres", **clinic.settings()}
    file = {"connector.class": "FileStreamSource", "file": str(lines), "topic": "lines"}
    gone = {**settings, "database.port": "1", "slot.name": "gone"}
    worker = standalone({"patients": settings, "lines": file, "gone": gone})

    def page() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{worker.port}/metrics", timeout=60) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return answer.read().decode()

    for line in (
        'ottla_connect_slot_present{connector="patients"} 1\n',
        'ottla_connect_connector_state{connector="lines",type="source",state="RUNNING"} 1\n',
        'ottla_connect_measured{connector="gone"} 0\n',
    ):
        wait_for(lambda: line in page(), every_s=0.5)  # noqa: B023  called at once
    text = page()
    assert 'ottla_connect_slot_lost{connector="patients"} 0\n' in text
    assert 'ottla_connect_slot_retained_bytes{connector="patients"} ' in text
    assert 'ottla_connect_measured{connector="lines"}' not in text
    clinic.run(
        "CREATE TABLE other (x text)",
        "INSERT INTO other SELECT repeat('x', 900) FROM generate_series(1, 2000)",
    )
    wait_for(lambda: _value(page(), "slot_behind_bytes", "patients") > 1_000_000, every_s=0.5)
    worker.herder.delete("patients")
    wait_for(lambda: 'ottla_connect_slot_present{connector="patients"}' not in page(), every_s=0.5)


def _value(page: str, name: str, connector: str) -> float:
    start = f'ottla_connect_{name}{{connector="{connector}"}} '
    return float(next(line for line in page.splitlines() if line.startswith(start)).removeprefix(start))
