"""Other people's clients, unmodified, against our registry: franz-go's `pkg/sr` (go/main.go)."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

_GO = Path(__file__).with_name("go")
TOLD = """\
registered true 1
second 2 [1 2]
incompatible 409
check false true
references 1 true
still referred to 42206
by id true true
subjects by id [user] 1
by guid true user .
looked up 2
missing 40401
level <nil> <nil> FULL_TRANSITIVE
reset <nil>
mode <nil> READONLY
read only 42205 <nil>
context :.staging:user true [. .staging]
types PROTOBUF JSON
deleted <nil> <nil>
versions [1 2] [1 2]
left [:.staging:user j p]
"""


@pytest.fixture(scope="module")
def franz_go():
    """Built into a folder named after the sources, so that it is done once and never stale."""
    if shutil.which("go") is None:
        pytest.skip("franz-go needs go, which is not installed")
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sorted(_GO.iterdir()))).hexdigest()[:16]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla-oracle"
    built = base / f"go-{digest}" / "registry"
    if not built.exists():
        fetched = subprocess.run(["go", "mod", "download"], cwd=_GO, capture_output=True, text=True)
        if fetched.returncode:
            pytest.skip(f"franz-go cannot be downloaded: {fetched.stderr.strip().splitlines()[-1]}")
        subprocess.run(["go", "build", "-o", built, "."], cwd=_GO, check=True)
    return built


@pytest.mark.timeout(300)
def test_franz_go_registers_refers_compares_and_deletes(franz_go, broker):
    told = subprocess.run([franz_go, broker.registry], capture_output=True, text=True, timeout=60)
    assert told.stdout == TOLD, told.stderr
