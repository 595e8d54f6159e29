"""The first minutes of a new user, timed: a fresh environment, `pip install` of the wheel, the README's own snippet.

    python tools/new_user.py [--wheel FILE] [tester] [operator] [spark] [pipx] [uvx]

Without --wheel, the wheel is built first and not counted. Packages come from pip's cache where they are in it: a second
run shows what a warm cache gives. `python -m tests.deploy.clean_machine` runs it where nothing but Python is installed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.S | re.M)


class Way:
    """One user's way, step by step."""

    def __init__(self, wheel: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ottla-new-user-"))
        self.wheel, self.steps = wheel, dict[str, float]()
        self.bin = self.folder / "venv" / "bin"

    def step(self, name: str, *command: str, **more: str) -> None:
        begun = time.monotonic()
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", **more}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=900
        )
        self.steps[name] = time.monotonic() - begun
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")

    def environment(self) -> None:
        self.step("venv", sys.executable, "-m", "venv", "venv")

    def install(self, *packages: str) -> None:
        self.step("pip install", str(self.bin / "pip"), "install", "-q", *packages)


def tester(way: Way) -> None:
    way.environment()
    way.install(str(way.wheel), "pytest", "confluent-kafka")
    (way.folder / "test_orders.py").write_text(block("python", 0))
    way.step("pytest test_orders.py", str(way.bin / "pytest"), "-q")


def operator(way: Way) -> None:
    way.environment()
    way.install(str(way.wheel))
    way.step("the commands of the README", "bash", "-c", served(block("bash", 0)))


def spark(way: Way) -> None:
    way.environment()
    way.install(f"{way.wheel}[spark]")
    (way.folder / "squares.py").write_text(block("python", 1))
    way.step(
        "the snippet of the README", "bash", "-c", served("ottla start --data ./data &\npython squares.py")
    )


def pipx(way: Way) -> None:
    way.environment()
    way.install("pipx")
    run = [str(way.bin / "pipx"), "run", "--spec", str(way.wheel), "ottla", "--version"]
    way.step("pipx run ottla", *run, PIPX_HOME=str(way.folder / "pipx"))


def uvx(way: Way) -> None:
    way.environment()
    way.install("uv")
    run = [str(way.bin / "uvx"), "--from", str(way.wheel), "ottla", "--version"]
    way.step("uvx ottla", *run, UV_CACHE_DIR=str(way.folder / "uv"))


USERS: dict[str, Callable[[Way], None]] = {
    "tester": tester, "operator": operator, "spark": spark, "pipx": pipx, "uvx": uvx,
}  # fmt: skip


def block(language: str, number: int) -> str:
    text = (ROOT / "README.md").read_text()
    return [code for found, code in _FENCE.findall(text) if found == language][number]


def served(commands: str) -> str:
    """As a person would type it: the next command once the broker says that it is ready."""
    wait = "ottla start --data ./data > log 2>&1 &\nuntil grep -q ready log; do sleep 0.02; done"
    return f"set -e\ntrap 'kill $(jobs -p)' EXIT\n{commands.replace('ottla start --data ./data &', wait)}"


def build(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("users", nargs="*", default=list(USERS), metavar="USER", help=", ".join(USERS))
    parser.add_argument("--wheel", type=Path, help="the wheel to install; else it is built")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ottla-wheel-"))
    wheel = options.wheel or build(folder)
    print("| user | steps | in all |\n|---|---|---|")
    for user in options.users:
        way = Way(wheel)
        try:
            USERS[user](way)
        finally:
            shutil.rmtree(way.folder, ignore_errors=True)
        steps = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in way.steps.items())
        print(f"| {user} | {steps} | {sum(way.steps.values()):.0f} s |", flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
