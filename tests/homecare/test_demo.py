"""The whole thing, once as it is and once with kills: the verdict is the test."""

from __future__ import annotations

import os
import queue
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.console.consoles import Client

# Smaller than `make demo`, but with everything in it.
_SHORT = ["--devices", "300", "--seconds", "25", "--timeout-ms", "6000", "--lateness-ms", "3000"]


class _Watcher:
    """Looks at the home care board every second, as soon as the demo has told its address."""

    def __init__(self) -> None:
        self.highest = dict.fromkeys(("online", "offline", "billed", "rate", "jobs"), 0.0)
        self.looks, self.trouble = 0, ""
        self._address: queue.Queue[str | None] = queue.Queue()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> _Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._address.put(None)
        self._thread.join()

    def __repr__(self) -> str:
        return f"{self.highest}, {self.looks} looks, the last trouble: {self.trouble}"

    def on_line(self, line: str) -> None:
        if "see it at " in line:
            self._address.put(line.rpartition(" ")[2].strip())

    def _watch(self) -> None:
        address = self._address.get()
        if address is None:
            return
        base, _, path = address.partition("/homecare")
        client = Client(base)
        client.get(f"/homecare{path}")
        while not self._over.wait(1):
            try:
                page = client.json("/homecare")
            except (OSError, AssertionError) as error:  # the demo ends
                self.trouble = str(error)[:1000]
                continue
            self.looks += 1
            for figure in page["figures"]:
                if figure["key"] in self.highest:
                    self.highest[figure["key"]] = max(self.highest[figure["key"]], figure["value"] or 0)
            jobs = [len(block["rows"]) for block in page["blocks"] if block.get("key") == "jobs"]
            self.highest["jobs"] = max([self.highest["jobs"], *jobs])


def _demo(folder: Path, *options: str, told: Callable[[str], None] = lambda line: None) -> str:
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
    demo = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    ending = threading.Timer(560, demo.kill)
    ending.start()
    said: list[str] = []
    assert demo.stdout is not None
    for line in demo.stdout:
        said.append(line)
        told(line)
    code = demo.wait()
    ending.cancel()
    logs = "\n".join(f"{log.name}:\n{_tail(log)}" for log in folder.glob("*.log"))
    assert code == 0, f"{''.join(said)}\n{logs}"
    return "".join(said)


def _tail(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("\tat ")]
    return "\n".join(line[:300] for line in lines[-40:])


@pytest.mark.slow
def test_the_demo_ends_with_the_right_verdict_and_its_board_shows_it_on_the_way(tmp_path: Path) -> None:
    with _Watcher() as watcher:
        said = _demo(tmp_path, told=watcher.on_line)
    assert "verdict: all right" in said
    assert watcher.highest["jobs"] == 3, watcher
    assert watcher.highest["online"] > 0 and watcher.highest["billed"] > 0 and watcher.highest["rate"] > 0, (
        watcher
    )
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
