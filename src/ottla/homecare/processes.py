"""The demo's processes: broker, simulator, pipelines. Each can be killed, and says what it does in lines."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_READY = "ready "


class Process:
    """A command of ours in a group of its own, so that a kill takes its children (a JVM, say) with it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        hear: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.name, self.log = name, log
        self._command = [sys.executable, "-m", "ottla.cli.main", *command]
        self._hear = hear
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        if self._hear is not None:
            threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def wait_ready(self) -> str:
        """Of a broker: the address it listens on."""
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_READY):
                return line.removeprefix(_READY).strip()
        raise RuntimeError(f"the {self.name} did not start; {self.log} ends with:\n{self.tail()}")

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def kill(self) -> None:
        """As a power cut would: no word of warning."""
        self._signal(signal.SIGKILL)

    def stop(self, timeout_s: float = 20) -> None:
        self._signal(signal.SIGTERM, timeout_s)

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _signal(self, number: signal.Signals, timeout_s: float = 20) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None and self._hear is not None
        for line in process.stdout:
            if line.startswith("{"):
                with contextlib.suppress(ValueError):
                    self._hear(json.loads(line))
