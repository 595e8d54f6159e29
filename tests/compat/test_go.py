"""Go's clients (go/*.go): sarama, watermill on top of it, kafka-go. Their members send one request at a time.

They produce, consume in a group, commit, restart and rebalance; on Apache Kafka and on Ottla they tell the same.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Target
from tests.soak import suites

_SOURCES = Path(__file__).with_name("go")
CLIENTS = ("sarama", "watermill", "kafka-go")
STORY = """\
a new group: partition 0 offsets [0 1 2 3 4 5 6 7 8 9]
a new group: partition 1 offsets [0 1 2 3 4 5 6 7 8 9]
a new group: partition 2 offsets [0 1 2 3 4 5 6 7 8 9]
a new group: partition 3 offsets [0 1 2 3 4 5 6 7 8 9]
a new group: committed up to the end
after a restart: partition 0 offsets [10 11]
after a restart: partition 1 offsets [10 11]
after a restart: partition 2 offsets [10 11]
after a restart: partition 3 offsets [10 11]
after a restart: committed up to the end
one member: shares [4]
two members: shares [2 2]
one is left: shares [4]
one is left: committed up to the end
"""


@pytest.fixture(scope="session")
def program() -> Path:
    """Built into a folder named after the sources, so that it is done once and never stale."""
    if shutil.which("go") is None:
        pytest.skip("the Go clients need go, which is not installed")
    sources = sorted(each for each in _SOURCES.iterdir() if each.suffix in (".go", ".mod", ".sum"))
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:16]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla-oracle"
    built = base / f"go-{digest}" / "compat"
    if not built.exists():
        fetched = subprocess.run(["go", "mod", "download"], cwd=_SOURCES, capture_output=True, text=True)
        if fetched.returncode:
            pytest.skip(f"the Go clients cannot be downloaded: {fetched.stderr.strip().splitlines()[-1]}")
        subprocess.run(["go", "build", "-o", built, "."], cwd=_SOURCES, check=True)
    return built


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_go_clients_tell_the_same_on_both_servers(
    program: Path, target: Target, unique: Callable[[str], str]
) -> None:
    running = {
        name: subprocess.Popen(
            [program, name, target.bootstrap, unique("go"), unique("go-group")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in CLIENTS
    }
    told = {name: each.communicate() for name, each in running.items()}
    assert {name: out for name, (out, _) in told.items()} == dict.fromkeys(CLIENTS, STORY), told


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bits", [256, 512])
def test_franz_gos_own_tests_of_scram_pass(bits: int) -> None:
    if shutil.which("go") is None:
        pytest.skip("franz-go needs go, which is not installed")
    try:
        report = suites.franz_gos_scram(bits)
    except (KeyError, ValueError):  # the download has told no folder
        pytest.skip("franz-go cannot be downloaded")
    assert report.is_clean, report
    assert (report.passed, report.skipped) == (2, 0)
