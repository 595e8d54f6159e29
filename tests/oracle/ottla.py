"""Ottla as a process of its own, with the same face as `cluster.Oracle`."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.oracle.cluster import run_tool
from tests.oracle.ports import free_ports
from tests.oracle.process import log_tail, start_broker


class Ottla:
    """`ottla start` on loopback; a context manager. Port 0 is one that stays ours while the broker is down."""

    name = "ottla"
    brokers = 1

    def __init__(
        self,
        port: int = 0,
        *,
        data: Path | None = None,
        settings: Mapping[str, object] | None = None,
        options: Sequence[str] = (),
        python: Sequence[str] = (),
    ) -> None:
        self._own_data = data is None
        self.data = data or Path(tempfile.mkdtemp(prefix="ottla-data-"))
        self.data.mkdir(parents=True, exist_ok=True)
        self.port = port or free_ports(1)[0]
        self._settings = dict(settings or {})
        self._options = list(options)
        self._python = list(python)  # for a profiler, say
        self._process: subprocess.Popen[bytes] | None = None
        self.log = self.data.with_name(self.data.name + ".log")

    def __enter__(self) -> Ottla:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Nothing to do before the first start."""

    def start(self, timeout_s: float = 90) -> None:
        options = ["--host", "127.0.0.1", "--port", str(self.port), *self._options]
        if "--memory" not in self._options:
            options += ["--data", str(self.data)]
        for name, value in self._settings.items():
            options += ["--set", f"{name}={value}"]
        self._process, _ = start_broker(options, self.log, python=self._python, timeout_s=timeout_s)

    def stop(self, timeout_s: float = 60) -> int:
        """SIGTERM, as an operator would; gives the exit code."""
        process = self._running()
        process.terminate()
        return self._gone(process, timeout_s)

    def kill(self, broker: int = 1) -> None:
        process = self._running()
        process.kill()
        self._gone(process, 30)

    def restart(self, broker: int = 1) -> None:
        self.start()

    def signal(self, number: signal.Signals) -> None:
        self._running().send_signal(number)

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        if self._own_data:
            shutil.rmtree(self.data, ignore_errors=True)
            self.log.unlink(missing_ok=True)

    def pid(self, broker: int = 1) -> int:
        return self._running().pid

    def log_folder(self, broker: int = 1) -> Path:
        return self.data

    def log_tail(self, lines: int = 30) -> str:
        return log_tail(self.log, lines)

    def run(self, tool: str, *args: str, stdin: str | None = None, check: bool = True) -> str:
        """One of Apache Kafka's Java tools against this broker."""
        return run_tool(tool, "--bootstrap-server", self.bootstrap, *args, stdin=stdin, check=check)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process

    def _gone(self, process: subprocess.Popen[bytes], timeout_s: float) -> int:
        code = process.wait(timeout_s)
        if process.stdout is not None:
            process.stdout.close()
        self._process = None
        return code
