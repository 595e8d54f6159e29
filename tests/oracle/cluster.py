"""Apache Kafka for a test: `with Oracle() as kafka: kafka.bootstrap; kafka.run("kafka-topics", ...)`.

A thin face on the `kafka` script beside it, which knows how to start, break and query the real thing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.oracle.ports import free_block

SCRIPT = Path(__file__).with_name("kafka")
# The tools live for a second: compiling them well would cost more than it gains.
_TOOL_JVM = "-Xmx256M -XX:TieredStopAtLevel=1"


class ToolFailed(AssertionError):
    """A Java tool exited with an error; the text is what it printed."""


def why_not() -> str | None:
    """The reason why Apache Kafka cannot run here, or None."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None and not (program == "java" and os.environ.get("JAVA_HOME")):
            return f"Apache Kafka needs {program}, which is not installed"
    return None


def run_tool(
    tool: str, *args: str, stdin: str | None = None, timeout_s: float = 300, check: bool = True
) -> str:
    """Run one of Apache Kafka's command-line tools to its end and give what it printed."""
    environment = {"KAFKA_HEAP_OPTS": _TOOL_JVM, **os.environ}
    done = subprocess.run(
        [SCRIPT, "run", tool, *args],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=environment,
    )
    if check and done.returncode:
        raise ToolFailed(f"{tool} {' '.join(args)}\n{done.stdout}{done.stderr}")
    return done.stdout if check else done.stdout + done.stderr


def start_tool(tool: str, *args: str, **popen: Any) -> subprocess.Popen[str]:
    """Start a tool that goes on (a console consumer, say); its process is the JVM itself."""
    environment = {"KAFKA_HEAP_OPTS": _TOOL_JVM, **os.environ}
    return subprocess.Popen([SCRIPT, "run", tool, *args], text=True, env=environment, **popen)


class Oracle:
    """A running Apache Kafka cluster on loopback; a context manager."""

    name = "kafka"

    def __init__(
        self,
        port: int = 0,
        brokers: int = 1,
        *,
        data: Path | None = None,
        settings: Mapping[str, object] | None = None,
        heap: str = "1G",
        listeners: str = "plaintext",
        controllers: int | None = None,
    ) -> None:
        self._own_data = data is None
        self.data = data or Path(tempfile.mkdtemp(prefix="ottla-oracle-"))
        # What the script uses: clients' ports, those of a secured preset's plain text, controllers'.
        used = [part + broker for part in (0, 50, 100) for broker in range(brokers)]
        self._block = None if port else free_block(used)
        self.port = self._block.base if self._block else port
        self.brokers = brokers
        self.bootstrap = ",".join(f"127.0.0.1:{self.port + i}" for i in range(brokers))
        self._options = ["--heap", heap, "--listeners", listeners]
        if controllers is not None:  # the first so many brokers; else as many as there may be
            self._options += ["--controllers", str(controllers)]
        for name, value in (settings or {}).items():
            self._options += ["--set", f"{name}={value}"]

    def __enter__(self) -> Oracle:
        try:
            self.start()
        except BaseException:
            self.close()  # or a broker that became ready too late would keep its port, and its folder
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start on a new folder the first time, afterwards again on the old one."""
        again = ["--keep"] if (self.data / "state.json").exists() else []
        self._script(
            "start", "--port", str(self.port), "--brokers", str(self.brokers), *again, *self._options
        )

    def prepare(self) -> None:
        """Format the folder without starting, for those who time the start."""
        brokers = ["--brokers", str(self.brokers)]
        self._script("start", "--port", str(self.port), *brokers, "--format-only", *self._options)

    def stop(self) -> None:
        self._script("stop")

    def kill(self, broker: int = 1) -> None:
        """SIGKILL, and wait until it is gone."""
        self._script("kill", str(broker))

    def restart(self, broker: int = 1) -> None:
        self._script("restart", str(broker))

    def close(self) -> None:
        """End the brokers and, if the folder is our own, remove it."""
        for broker in range(1, self.brokers + 1):
            self._script("kill", str(broker), check=False)
        if self._own_data:
            shutil.rmtree(self.data, ignore_errors=True)
        if self._block is not None:
            self._block.close()

    def pid(self, broker: int = 1) -> int:
        state = json.loads((self.data / "state.json").read_text())
        return int(state["nodes"][broker - 1]["pid"])

    def log_folder(self, broker: int = 1) -> Path:
        return self.data / f"broker-{broker}"

    def log_tail(self, lines: int = 30) -> str:
        """The ends of the brokers' logs."""
        tails = []
        for log in sorted(self.data.glob("broker-*.log")):
            last = log.read_text(errors="replace").splitlines()[-lines:]
            tails.append("\n".join([f"{log.name} ends with:", *last]))
        return "\n".join(tails)

    def run(self, tool: str, *args: str, stdin: str | None = None, check: bool = True) -> str:
        """A Java tool against this cluster."""
        return run_tool(tool, "--bootstrap-server", self.bootstrap, *args, stdin=stdin, check=check)

    def _script(self, *args: str, check: bool = True) -> None:
        done = subprocess.run([SCRIPT, *args, "--data", self.data], capture_output=True, text=True)
        if check and done.returncode:
            said = done.stderr.strip() or done.stdout.strip()
            raise RuntimeError(f"kafka {args[0]}: {said}\n{self.log_tail()}")


def signal_oracle(oracle: Oracle, number: signal.Signals, broker: int = 1) -> None:
    """Any other signal to a broker (SIGSTOP and SIGCONT, for pauses)."""
    os.kill(oracle.pid(broker), number)
