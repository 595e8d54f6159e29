"""Images built and containers run without a Docker daemon or a registry: mmdebstrap, buildah, podman with runc.

Containers share the host's network: other networks need rights that a build machine rarely gives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "build" / "containers"
PROGRAMS = ("mmdebstrap", "buildah", "podman", "runc")
BASE, IMAGE = "localhost/ottla-base", "localhost/ottla"
EXTRAS = "security"
_LIMITS = ("--ulimit", "nofile=20000:20000", "--ulimit", "nproc=4096:4096")


def why_not() -> str | None:
    """The reason why no container runs here, or None."""
    missing = [each for each in PROGRAMS if shutil.which(each) is None]
    if missing:
        return f"containers need {', '.join(missing)} (make tools)"
    if os.geteuid() != 0:
        return "containers without a daemon are built and run here as root only"
    return None


def command(*arguments: str | Path, seconds: float = 300, cwd: Path | None = None) -> str:
    """What a program prints; AssertionError with its complaint if it fails."""
    done = subprocess.run(
        [str(each) for each in arguments], cwd=cwd, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


class Containers:
    """A storage of its own below `folder`, with the image in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._storage = (
            "--root",
            str(folder / "storage"),
            "--runroot",
            str(folder / "run"),
            "--storage-driver",
            "overlay",
        )
        self._names: list[str] = []

    def podman(self, *arguments: str, seconds: float = 120) -> str:
        return command("podman", *self._storage, "--cgroup-manager", "cgroupfs", *arguments, seconds=seconds)

    def import_base(self) -> None:
        self.podman("import", str(_base()), BASE)

    def why_none_runs(self) -> str | None:
        """Some machines build images and let nobody run them."""
        try:
            self.podman("run", "--rm", "--runtime", "runc", "--network", "host", *_LIMITS, BASE, "true")
        except AssertionError as error:
            return f"podman cannot run a container here: {str(error)[-300:]}"
        return None

    def build(self, context: Path, image: str = IMAGE, target: str = "broker", extras: str = EXTRAS) -> None:
        """An image of deploy/Dockerfile, from wheels in `context`: no index of Python packages is asked."""
        build = ("bud", "--format", "docker", "--isolation", "chroot", "--layers=false", "--pull-never")
        dockerfile = ("-f", ROOT / "deploy" / "Dockerfile", "--target", target, "-t", image)
        values = (f"BASE={BASE}", f"EXTRAS={extras}", "PIP_NO_INDEX=1")
        arguments = [part for value in values for part in ("--build-arg", value)]
        command("buildah", *self._storage, *build, *dockerfile, *arguments, context, seconds=900)

    def size_bytes(self, image: str) -> int:
        return int(self.podman("image", "inspect", image, "--format", "{{.Size}}"))

    def run(
        self,
        name: str,
        *arguments: str,
        image: str = IMAGE,
        environment: Mapping[str, str] | None = None,
        options: Iterable[str] = (),
    ) -> None:
        variables = [part for key, value in (environment or {}).items() for part in ("-e", f"{key}={value}")]
        self._names.append(name)
        self.podman(
            *("run", "-d", "--name", name, "--runtime", "runc", "--network", "host", "--read-only"),
            *_LIMITS,
            *variables,
            *options,
            image,
            *arguments,
        )

    def once(
        self, *arguments: str, image: str = BASE, options: Iterable[str] = (), seconds: float = 1500
    ) -> str:
        """What a command prints in a container that ends with it."""
        begin = ("run", "--rm", "--runtime", "runc", "--network", "host", *_LIMITS)
        return self.podman(*begin, *options, image, *arguments, seconds=seconds)

    def execute(self, name: str, *arguments: str) -> str:
        return self.podman("exec", name, *arguments)

    def logs(self, name: str) -> str:
        done = subprocess.run(
            ["podman", *self._storage, "logs", name], capture_output=True, text=True, timeout=60
        )
        return done.stdout + done.stderr

    def wait_for(self, name: str, words: str, seconds: float = 90) -> float:
        """Until the container has printed these words; the seconds that took."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if words in self.logs(name):
                return time.monotonic() - began
            time.sleep(0.05)
        raise AssertionError(f"{name} did not print {words!r}: {self.logs(name)[-3000:]}")

    def stop(self, name: str) -> int:
        """As `docker stop`; the exit code."""
        self.podman("stop", "--time", "30", name)
        return int(self.podman("inspect", name, "--format", "{{.State.ExitCode}}"))

    def remove(self, name: str) -> None:
        self.podman("rm", "--force", "--volumes", "--time", "0", name)
        self._names.remove(name)

    def has(self, name: str) -> bool:
        return name in self._names

    def close(self) -> None:
        for name in list(self._names):
            self.remove(name)


def _base() -> Path:
    """A small Debian with Python, kept for the next run."""
    tar = CACHE / "base.tar"
    if not tar.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        unfinished = CACHE / f"base-{os.getpid()}.tar"
        packages = "python3,python3-venv,ca-certificates"
        command("mmdebstrap", "--variant=minbase", f"--include={packages}", "bookworm", unfinished)
        unfinished.rename(tar)
    return tar


def make_context(folder: Path, wheel: Path, extras: str = EXTRAS) -> Path:
    """What `COPY . .` sees: the wheel and what it depends on."""
    dist = folder / "dist"
    dist.mkdir(parents=True)
    shutil.copy(wheel, dist)
    command(
        sys.executable, "-m", "pip", "wheel", "-q", "--wheel-dir", dist, f"{wheel}[{extras}]", seconds=600
    )
    return folder
