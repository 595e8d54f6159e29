"""`--open` shows the console in the browser: here a script that notes which address it is given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing import Broker
from tests.console.consoles import Client, until

BOARD = """
import sys
from pathlib import Path
from ottla.homecare.console import Console
console = Console(["--bootstrap", sys.argv[1]], Path(sys.argv[2]), print)
console.start(open_it=True)
sys.stdin.read()
console.close()
"""


class Opened:
    """The browser's name is in $BROWSER, as Python's `webbrowser` wants it."""

    def __init__(self, folder: Path) -> None:
        self._note, browser = folder / "opened", folder / "browser"
        browser.write_text(f'#!/bin/sh\necho "$1" > {self._note}.part && mv {self._note}.part {self._note}\n')
        browser.chmod(0o755)
        self._variables = {**os.environ, "BROWSER": str(browser)}

    def address_from(self, *command: str) -> str:
        """What the command had opened; it has let a browser in."""
        process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._variables,
        )
        try:

            def is_opened() -> bool:
                assert process.poll() is None
                return self._note.exists()

            until(is_opened, "the browser is opened")
            address = self._note.read_text().strip()
            base, _, path = address.partition("/homecare?" if "/homecare?" in address else "/?")
            client = Client(base)
            assert client.get(f"/?{path}").status in (200, 303)
            assert client.get("/").status == 200
            return address
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.terminate()
            process.wait(60)


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return Opened(tmp_path)


def test_a_broker_opens_its_console_in_the_browser(opened):
    start = ["start", "--memory", "--port", "0", "--console", "0", "--open"]
    assert "/?token=" in opened.address_from("-m", "ottla", *start)


def test_a_console_opens_itself_in_the_browser(opened):
    with Broker() as broker:
        console = ["console", "--bootstrap", broker.bootstrap, "--port", "0", "--open"]
        assert "/?token=" in opened.address_from("-m", "ottla", *console)


def test_the_demo_opens_its_board_in_the_browser(opened, tmp_path):
    with Broker() as broker:
        address = opened.address_from("-c", BOARD, broker.bootstrap, str(tmp_path / "log"))
    assert "/homecare?token=" in address


def test_a_broker_without_a_console_says_that_there_is_nothing_to_open():
    command = [sys.executable, "-m", "ottla", "start", "--memory", "--port", "0", "--open"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "add --console" in done.stderr
