"""The Java client 4.4.0, newer than the Apache Kafka beside which Ottla is tested: it asks for newer versions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ottla.testing import Broker
from tests.oracle import programs

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(programs.why_not_java() is not None, reason=str(programs.why_not_java())),
]


@pytest.mark.parametrize(("protocol", "security"), [("classic", "PLAINTEXT"), ("consumer", "SASL_SSL")])
def test_it_produces_consumes_and_moves_records_in_transactions(
    protocol: str, security: str, tmp_path: Path
) -> None:
    users = {"alice": "secret"} if security == "SASL_SSL" else None
    with Broker(security=security, users=users) as broker:
        client = tmp_path / "client.properties"
        client.write_text("".join(f"{name}={value}\n" for name, value in _settings(broker).items()))
        words = programs.command("Mover", str(client), protocol, "1000", libraries=programs.newest_client())
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert done.stdout.split() == ["1000", "1000", "1000"], done.stdout + done.stderr
        assert len(broker.records(f"output-{protocol}")) == 1000


def _settings(broker: Broker) -> dict[str, str]:
    """Under Java's names."""
    settings = broker.client_settings()
    if "sasl.username" in settings:
        login = f'username="{settings.pop("sasl.username")}" password="{settings.pop("sasl.password")}"'
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        settings["sasl.jaas.config"] = f"{module} required {login};"
        settings |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": settings.pop("ssl.ca.location"),
        }
    return settings
