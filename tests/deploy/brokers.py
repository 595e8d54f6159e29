"""Brokers as processes, as an operator starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

OTTLA = str(Path(sys.executable).parent / "ottla")


class Process:
    def __init__(self, data: Path, *options: str, python: str | None = None) -> None:
        self.data = data
        command = [OTTLA] if python is None else [python, "-m", "ottla"]
        self._output = data.with_name(f"{data.name}.out").open("w+")
        self._process = subprocess.Popen(
            [*command, "start", "--port", "0", "--data", str(data), *options],
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        self.bootstrap = self._ready()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> int:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(60)
        self._output.close()
        return code

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._process.wait(60)

    def printed(self) -> str:
        return Path(self._output.name).read_text()

    def _ready(self) -> str:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and self._process.poll() is None:
            for line in self.printed().splitlines():
                if line.startswith("ready "):
                    return line.removeprefix("ready ")
            time.sleep(0.02)
        raise AssertionError(f"no broker: {self.printed()}")


def ottla(*arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([OTTLA, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done
