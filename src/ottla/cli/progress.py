"""How far long work has come: a bar, a rate, the time left. On standard error, and only where somebody looks."""

import shutil
import sys
import time
from collections.abc import Callable

from ottla.cli.screen.frames import duration, short

BAR = 20
EVERY_S = 0.1


class Progress:
    """`at` may be called for every record: the line is written ten times a second at most."""

    def __init__(
        self,
        label: str,
        unit: str = "",
        *,
        is_shown: bool | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label, self._unit, self._now = label, unit, now
        self._is_shown = sys.stderr.isatty() if is_shown is None else is_shown
        self._began_s = now()
        self._next_s = 0.0
        self._is_on_screen = False
        self._added = 0

    def add(self, count: int, total: int | None = None) -> None:
        """So much more is done."""
        self._added += count
        self.at(self._added, total)

    def at(self, count: float, total: float | None = None, note: str = "") -> None:
        if not self._is_shown:
            return
        now_s = self._now()
        if now_s < self._next_s and count != total:
            return
        self._next_s = now_s + EVERY_S
        text = line(self._label, count, total, now_s - self._began_s, self._unit, note)
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{text[:width]}\033[K", end="", file=sys.stderr, flush=True)
        self._is_on_screen = True

    def done(self) -> None:
        """What comes next begins on a clean line."""
        if self._is_on_screen:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._is_on_screen = False


def line(
    label: str, count: float, total: float | None, elapsed_s: float, unit: str = "", note: str = ""
) -> str:
    base = 1024 if unit == "B" else 1000
    parts = [f"{label}:"]
    if total:
        share = min(max(count / total, 0.0), 1.0)
        filled = round(share * BAR)
        parts.append(f"[{'#' * filled}{'.' * (BAR - filled)}] {share:4.0%}")
        parts.append(f"{short(count, base)}{unit} of {short(total, base)}{unit}")
    else:
        parts.append(f"{short(count, base)}{unit}")
    if note:
        parts.append(note)
    if elapsed_s > 0 and count > 0:
        rate = count / elapsed_s
        parts.append(f"{short(rate, base)}{unit}/s")
        if total and count < total:
            parts.append(f"{duration((total - count) / rate)} left")
    return "  ".join(parts)
