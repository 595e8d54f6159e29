"""The whole thing, once as it is and once with kills: the verdict is the test."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

# Smaller than `make demo`, but with everything in it.
_SHORT = ["--devices", "300", "--seconds", "25", "--timeout-ms", "6000", "--lateness-ms", "3000"]


def _demo(folder: Path, *options: str) -> str:
    command = [
        sys.executable,
        "-m",
        "ottla.cli.main",
        "homecare",
        "demo",
        "--keep",
        str(folder),
        *_SHORT,
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=os.environ)
    logs = "\n".join(f"{log.name}:\n{_tail(log)}" for log in folder.glob("*.log"))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{logs}"
    return done.stdout


def _tail(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("\tat ")]
    return "\n".join(line[:300] for line in lines[-40:])


@pytest.mark.slow
def test_the_demo_ends_with_the_right_verdict(tmp_path: Path) -> None:
    said = _demo(tmp_path)
    assert "verdict: all right" in said
    assert said.splitlines()[0].startswith("[  0.0 s]")


@pytest.mark.slow
def test_kills_of_broker_and_driver_change_nothing_about_the_verdict(tmp_path: Path) -> None:
    said = _demo(tmp_path, "--chaos", "--seed", "11")
    assert "kill -9 of the broker" in said and "kill -9 of the driver" in said
    assert "verdict: all right" in said


@pytest.mark.slow
def test_a_demo_over_tls_with_logins_ends_with_the_right_verdict(
    tmp_path: Path,
) -> None:
    said = _demo(tmp_path, "--secure", "--seed", "12")
    assert "all connections are SASL_SSL" in said
    assert "verdict: all right" in said
    settings = (tmp_path / "secure" / "broker-1.properties").read_text().splitlines()
    (listeners,) = (line for line in settings if line.startswith("listeners="))
    assert listeners.startswith("listeners=SASL_SSL://") and "," not in listeners
    assert stat.S_IMODE((tmp_path / "secure").stat().st_mode) == 0o700
