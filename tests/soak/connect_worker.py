"""`ottla connect` as a process that a soak may kill."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.oracle.ports import free_ports
from tests.oracle.process import SCRIPT

_ROOT = Path(__file__).parents[2]


class Worker:
    """Standalone, with its connectors. Its log is `worker.log` in the folder.

    With a `bug` it is `tests.soak.dying_worker`, which can be killed between the two commits of a sink's step.
    """

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        connectors: Mapping[str, Mapping[str, str]],
        runner: str,
        bug: str | None = None,
    ) -> None:
        program = [str(SCRIPT)] if bug is None else ["-m", "tests.soak.dying_worker", str(folder), bug]
        self._command = [sys.executable, *program, "connect", str(folder / "worker.properties")]
        self._order = folder / "die"
        self._url = f"http://127.0.0.1:{free_ports(1)[0]}"
        self._names = tuple(connectors)
        properties = {
            "bootstrap.servers": bootstrap,
            "listeners": self._url,
            "ottla.runner": runner,
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
        }
        text = "".join(f"{name}={value}\n" for name, value in properties.items())
        (folder / "worker.properties").write_text(text)
        for name, config in connectors.items():
            path = folder / f"{name}.json"
            path.write_text(json.dumps({"name": name, "config": config}))
            self._command.append(str(path))
        self.log = folder / "worker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=output, start_new_session=True, cwd=_ROOT
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def kill_between(self, sink: str, timeout_s: float) -> bool:
        """When the sink's next step has committed there, and not yet to its group. False: no such step has come."""
        assert self._process is not None
        written = self._order.with_suffix(".new")
        written.write_text(sink)
        written.rename(self._order)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        is_met = not self._order.exists()
        self._order.unlink(missing_ok=True)
        self.kill()
        return is_met

    def revive(self) -> None:
        """A worker that could not start without a broker is started again."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    def states(self) -> dict[str, str]:
        """Of each connector's first task; for a failed one with the last line of the reason."""
        return {name: self._state(name) for name in self._names}

    def _state(self, name: str) -> str:
        try:
            with urllib.request.urlopen(f"{self._url}/connectors/{name}/status", timeout=5) as answer:
                status: dict[str, Any] = json.load(answer)
        except OSError as error:
            return f"unknown: {error}"
        if not status["tasks"]:
            return str(status["connector"]["state"])
        task = status["tasks"][0]
        return " ".join([task["state"], *task.get("trace", "").strip().splitlines()[-1:]])
