"""Apache Kafka's own classes as the judge of coordinators' records."""

import subprocess
from pathlib import Path

import pytest

from tests.oracle import cluster


@pytest.fixture(scope="session")
def kafkas_serializer(tmp_path_factory):
    """Lines of "key value" in hex, of a kind of coordinator ("group" or "share"), as Apache Kafka reads and writes
    them. Compiled once."""
    if (reason := cluster.why_not()) is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("java")
    classpath = subprocess.run(
        [cluster.SCRIPT, "classpath"], capture_output=True, text=True, check=True
    ).stdout.strip()
    source = Path(__file__).with_name("RoundTrip.java")
    subprocess.run(["javac", "-cp", classpath, "-d", folder, source], check=True, timeout=120)

    def run(kind: str, lines: list[str]) -> list[str]:
        done = subprocess.run(
            ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{classpath}:{folder}", "RoundTrip", kind],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run
