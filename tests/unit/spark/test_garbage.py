"""What the collector need not look at."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import gc, sys
from ottla.spark import garbage
garbage.freeze()
first = gc.get_freeze_count()
garbage.freeze()
assert gc.get_freeze_count() == first > 0, "nothing was imported: nothing to do"
import wave
garbage.freeze()
assert gc.get_freeze_count() > first, "a module came later and was left to the collector"
"""


def test_modules_are_left_alone_and_so_are_those_that_come_later() -> None:
    subprocess.run([sys.executable, "-c", _SCRIPT], check=True)
