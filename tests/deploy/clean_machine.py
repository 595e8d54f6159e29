"""A new user's first minutes on a machine with Debian and Python and nothing else, timed: in a container.

    python -m tests.deploy.clean_machine [tester] [operator] [spark]

It has no Java, compiler or Docker. `tools/new_user.py` does the steps; pip's settings and cache are this machine's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.deploy.containers import ROOT, Containers, command, why_not

USERS = ("tester", "operator", "spark")


def main() -> int:
    if (reason := why_not()) is not None:
        print(reason, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="ottla-clean-", dir="/var/tmp") as name:
        folder = Path(name)
        machine = Containers(folder)
        machine.import_base()
        command(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder / "dist", ROOT)
        (wheel,) = (folder / "dist").glob("*.whl")
        for user in sys.argv[1:] or USERS:
            script = ["python3", "/src/tools/new_user.py", "--wheel", f"/dist/{wheel.name}", user]
            mounts = [
                (ROOT / "tools", "/src/tools"),
                (ROOT / "README.md", "/src/README.md"),
                (wheel.parent, "/dist"),
            ]
            print(machine.once(*script, options=[*_mounts(mounts), *_pip()]), end="", flush=True)
    return 0


def _mounts(pairs: list[tuple[Path, str]]) -> list[str]:
    return [part for source, target in pairs for part in ("-v", f"{source}:{target}:ro")]


def _pip() -> list[str]:
    """Where packages come from: settings of pip, the files that they name, and its cache."""
    options = []
    for name, value in os.environ.items():
        if name.startswith("PIP_"):
            options += ["-e", f"{name}={value}"]
    paths = {
        Path(value) for name, value in os.environ.items() if name.startswith("PIP_") and value.startswith("/")
    }
    paths |= {Path("/etc/pip.conf"), Path("/etc/ssl/certs")}
    options += _mounts([(path, str(path)) for path in sorted(paths) if path.exists()])
    cache = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True
    ).stdout.strip()
    return [*options, "-v", f"{cache}:/cache", "-e", "PIP_CACHE_DIR=/cache"]


if __name__ == "__main__":
    sys.exit(main())
