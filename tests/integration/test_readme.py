"""The README's doors for testers and operators, run as they are printed. Spark's is in tests/spark; tests/deploy runs
these two where nothing is installed but what the README says."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.oracle.ports import free_ports

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def block(language: str, after: str) -> str:
    """The first code block of a language behind these words."""
    found = re.search(rf"```{language}\n(.*?)```", README[README.index(after) :], re.S)
    assert found is not None
    return found[1]


def run_the_tests(folder: Path, python: str) -> None:
    (folder / "test_orders.py").write_text(block("python", "**You write tests.**"))
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def run_the_commands(folder: Path, path: str) -> None:
    """On a port of its own: 9092 may be somebody's."""
    (port,) = free_ports(1)
    lines = block("bash", "**You run it.**").splitlines()
    begin = lines[0].replace("ottla start", f"ottla start --port {port}")
    script = "\n".join(
        [
            "set -e",
            f"export OTTLA_BOOTSTRAP=127.0.0.1:{port}",
            f"{begin.rstrip(' &')} > started 2> log &",
            "trap 'kill %1; wait' EXIT",
            "for i in $(seq 600); do grep -q ready started && break; sleep 0.1; done",
            *lines[1:],
        ]
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello" in done.stdout.splitlines()


def test_who_writes_tests_gets_green_ones(tmp_path):
    run_the_tests(tmp_path, sys.executable)


def test_who_runs_it_sees_hello(tmp_path):
    run_the_commands(tmp_path, PATH)


def test_every_page_is_linked():
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert {name for name in pages if f"docs/{name}" not in README} == set()


def test_how_to_install_comes_first_and_no_jvm_is_said_with_what_needs_one():
    assert README.index("pip install ottla") < README.index("- **") < README.index("## Start in five minutes")
    promise = README[README.index("No JVM") :].partition("\n- ")[0]
    assert "several brokers need ZooKeeper, and so Java" in " ".join(promise.split())
