"""The Java client 4.4.0, newer than the Apache Kafka beside which Ottla is tested: it asks for newer versions."""

from __future__ import annotations

import subprocess

import pytest

from ottla.testing import Broker
from tests.oracle import programs

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(programs.why_not_java() is not None, reason=str(programs.why_not_java())),
]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_it_produces_consumes_and_moves_records_in_transactions(protocol: str) -> None:
    with Broker() as broker:
        words = programs.command(
            "Mover", broker.bootstrap, protocol, "1000", libraries=programs.newest_client()
        )
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        assert done.stdout.split() == ["1000", "1000", "1000"], done.stdout + done.stderr
        assert len(broker.records(f"output-{protocol}")) == 1000
