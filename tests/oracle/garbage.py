"""How many objects a program lets gather before Python's collector stops it."""

from __future__ import annotations

import os
from pathlib import Path


def thresholds_at_exit(folder: Path) -> tuple[dict[str, str], Path]:
    """An environment for a Python program, and the file to which the program writes its first threshold at exit."""
    noted = folder / "threshold"
    (folder / "sitecustomize.py").write_text(
        "import atexit, gc, pathlib\n"
        f"atexit.register(lambda: pathlib.Path({str(noted)!r}).write_text(str(gc.get_threshold()[0])))\n"
    )
    return {**os.environ, "PYTHONPATH": str(folder)}, noted
