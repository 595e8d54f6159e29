"""Under which conditions a figure may be published: a quiet machine, enough rounds, compiled as installed.

Other processes' load moves figures by a third and more. It is measured while a benchmark runs, as processor time that
the benchmark's own processes did not use; a round with more of it than `LOAD_MAX` does not count.
"""

from __future__ import annotations

import compileall
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import ottla
from ottla.wire import kernel
from tests.soak.processes import descendants

LOAD_MAX = 0.25  # cores
ROUNDS_MIN = 3
_MARK = "OTTLA_BENCH"  # in the environment of all processes of a benchmark, whatever their parent is
_LOOK_S = 0.25
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_IDLE_FIELDS = (3, 4)  # of the line `cpu` in /proc/stat: idle and iowait
_PROC = Path("/proc")


def prepare() -> None:
    """As pip does when it installs: a checkout may have no bytecode, and a start would compile the source each time."""
    if not kernel.COMPILED:
        raise SystemExit(
            "bench: the C kernel is missing; run `pip install -e . --no-deps` where there is a compiler"
        )
    compileall.compile_dir(Path(ottla.__file__).parent, quiet=2)


@dataclass(slots=True)
class Others:
    """`cores` is how many processor cores other processes kept busy on average."""

    cores: float = 0.0

    @property
    def are_quiet(self) -> bool:
        return self.cores <= LOAD_MAX


@contextmanager
def watched() -> Iterator[Others]:
    """Looks at the load of others while the block runs; known when it has ended."""
    others, own = Others(), OwnProcesses()
    began_s, busy_s = time.monotonic(), _busy_s()
    with own:
        yield others
    others.cores = load_of_others(_busy_s() - busy_s, own.used_s(), time.monotonic() - began_s)
    if not others.are_quiet:
        print(
            f"    others kept {others.cores:.2f} cores busy (at most {LOAD_MAX}): this round does not count",
            file=sys.stderr,
            flush=True,
        )


def load_of_others(busy_s: float, own_s: float, took_s: float) -> float:
    """In cores. The kernel's clocks differ by a tick or two: never below zero."""
    return max(0.0, (busy_s - own_s) / took_s)


def why_not_published(rounds: int) -> str | None:
    """Why a figure of so many quiet rounds is left out of the page; None if it is not."""
    return None if rounds >= ROUNDS_MIN else f"{rounds} quiet rounds, and {ROUNDS_MIN} are needed"


def may_publish(name: str, by_peer: dict[str, list[float]]) -> bool:
    """Of every peer there are enough quiet rounds; says so if not."""
    reason = why_not_published(min(map(len, by_peer.values())))
    if reason is not None:
        print(f"{name} is not published: {reason}", file=sys.stderr)
    return reason is None


def may_write(others: Others, rounds: int) -> bool:
    """For a run whose rounds are not watched one by one: all of it counts, or nothing."""
    reason = why_not_published(rounds if others.are_quiet else 0)
    if reason is not None:
        print(f"nothing is published: {reason}", file=sys.stderr)
    return reason is None


class OwnProcesses:
    """Adds up the processor time of this process and of all that were started while it watches.

    Brokers may be no descendants any more (a script starts them and ends), so they are known by their environment.
    They are looked at again and again: one that has ended does not tell any more."""

    def __init__(self) -> None:
        self._children_before_s = _children_s()
        self._before_s = {os.getpid(): _cpu_s(os.getpid())}
        self._last_s = dict(self._before_s)
        self._others: set[int] = set()
        # Seen once: between fork and exec a process still shows its parent's environment.
        self._unmarked: set[int] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> OwnProcesses:
        self._others.update(_pids() - self._last_s.keys())
        os.environ[_MARK] = str(os.getpid())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        os.environ.pop(_MARK, None)

    def used_s(self) -> float:
        """A child may have come and gone between two looks; the kernel has counted it if it was waited for."""
        own_pid = os.getpid()
        own_s = self._last_s[own_pid] - self._before_s[own_pid]
        seen_s = sum(used_s for pid, used_s in self._last_s.items() if pid != own_pid)
        return own_s + max(seen_s, _children_s() - self._children_before_s)

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self.look()
        self.look()

    def look(self) -> None:
        for pid in _pids() - self._others:
            if pid in self._last_s or _is_marked(pid):
                self._last_s[pid] = max(self._last_s.get(pid, 0.0), _cpu_s(pid))
            elif pid in self._unmarked:
                self._others.add(pid)
            else:
                self._unmarked.add(pid)


def _pids() -> set[int]:
    return {int(path.name) for path in _PROC.iterdir() if path.name.isdigit()}


def _is_marked(pid: int) -> bool:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"{_MARK}={os.getpid()}".encode() in environment


def _cpu_s(pid: int) -> float:
    """User and system time; 0 if the process is gone. The name before the fields may have blanks."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def tree_cpu_s(pid: int) -> float:
    """Processor time of a process and all below it (Spark's JVM is a session of its own), and of those that they have
    started and that have ended."""
    total = 0
    for each in [pid, *descendants(pid)]:
        try:
            fields = (_PROC / str(each) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total * _TICK_S


def _busy_s() -> float:
    """Processor time of the whole machine that was not idle."""
    ticks = [int(field) for field in (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - sum(ticks[at] for at in _IDLE_FIELDS)) * _TICK_S
