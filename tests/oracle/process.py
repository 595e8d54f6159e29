"""The one way in which tests start a broker as a process of its own."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

SCRIPT = Path(sys.executable).with_name("ottla")
_READY = b"ready "


class StartFailed(RuntimeError):
    """The broker ended, or said nothing, before it was ready."""


def start_broker(
    options: Sequence[str], log: Path, *, python: Sequence[str] = (), timeout_s: float = 90
) -> tuple[subprocess.Popen[bytes], str]:
    """`ottla start` with these options, and the address that it says it is ready at; what it logs goes to a file.

    A start takes a second of the processor, for which it may have to wait on a busy machine.
    """
    command = [sys.executable, *python, str(SCRIPT), "start", *options]
    with log.open("ab") as output:
        # A group of its own: Ctrl-C at the terminal ends the test, which then ends the broker.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output, start_new_session=True)
    try:
        return process, _ready_line(process, time.monotonic() + timeout_s).split()[1]
    except BaseException as error:
        process.kill()
        process.communicate()
        if isinstance(error, StartFailed):
            raise StartFailed(f"{error}; its log ends with:\n{log_tail(log)}") from None
        raise


def log_tail(log: Path, lines: int = 30) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _ready_line(process: subprocess.Popen[bytes], deadline: float) -> str:
    """Byte by byte: what follows the line stays in the pipe, for those who read on."""
    assert process.stdout is not None
    line = b""
    while not (line.endswith(b"\n") and line.startswith(_READY)):
        if line.endswith(b"\n"):
            line = b""  # something else it had to say
        readable, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        byte = os.read(process.stdout.fileno(), 1) if readable else b""
        if not byte:
            raise StartFailed("it ended before it was ready" if readable else "no ready line in time")
        line += byte
    return line.decode()
