"""The demo's console: the home care board in the browser, in a process of its own."""

import subprocess
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

BOARD = "homecare"


def is_installed() -> bool:
    return all(find_spec(name) is not None for name in ("starlette", "uvicorn"))


class Console:
    """Prints its address when it has one, and a new one when a browser has used that. Its failure is not the demo's."""

    def __init__(self, where: Sequence[str], log: Path, say: Callable[[str], None]) -> None:
        self._command = [sys.executable, "-m", "ottla", "console", *where, "--port", "0", "--end-with-stdin"]
        self._log, self._say = log, say
        self._process: subprocess.Popen[str] | None = None

    def start(self, *, open_it: bool) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        threading.Thread(target=self._listen, args=(self._process, open_it), daemon=True).start()

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _listen(self, process: "subprocess.Popen[str]", open_it: bool) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            what, _, address = line.strip().rpartition(" ")
            board = address.replace("/?token=", f"/{BOARD}?token=")
            if what == "console":
                self._say(f"see it at {board}")
                if open_it:
                    webbrowser.open(board)
            elif what == "another browser:":
                self._say(f"for another browser: {board}")
