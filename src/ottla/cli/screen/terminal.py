"""The terminal while a full screen is shown: keys as they are pressed, and everything as it was afterwards."""

import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

ALTERNATE, NORMAL = "\033[?1049h\033[?25l", "\033[?25h\033[?1049l"
HOME, TO_END_OF_LINE, TO_END = "\033[H", "\033[K", "\033[J"
KEYS = {"\033[A": "up", "\033[B": "down", "\033[C": "right", "\033[D": "left", "\033OA": "up", "\033OB": "down",
        "\t": "tab", "\x03": "q", "\033[5~": "page-up", "\033[6~": "page-down"}  # fmt: skip


class Terminal:
    def __init__(self, file_number: int) -> None:
        self._file_number = file_number
        self._typed = ""

    def size(self) -> tuple[int, int]:
        size = shutil.get_terminal_size()
        return size.columns, size.lines

    def show(self, lines: list[str]) -> None:
        """Over what was there: without clearing first nothing flickers."""
        sys.stdout.write(HOME + "\n".join(line + TO_END_OF_LINE for line in lines) + TO_END)
        sys.stdout.flush()

    def key(self, timeout_s: float) -> str | None:
        """The next key, or None if none is pressed in time. The terminal that is gone is `q`."""
        if not self._typed:
            ready, _, _ = select.select([self._file_number], [], [], max(timeout_s, 0))
            if not ready:
                return None
            self._typed = os.read(self._file_number, 64).decode(errors="replace") or "q"
        code = next((code for code in KEYS if self._typed.startswith(code)), self._typed[0])
        self._typed = self._typed[len(code) :]
        return KEYS.get(code, code)


@contextmanager
def full_screen() -> Iterator[Terminal]:
    file_number = sys.stdin.fileno()
    before = termios.tcgetattr(file_number)
    try:
        tty.setcbreak(file_number)
        sys.stdout.write(ALTERNATE)
        yield Terminal(file_number)
    finally:
        sys.stdout.write(NORMAL)
        sys.stdout.flush()
        termios.tcsetattr(file_number, termios.TCSADRAIN, before)
