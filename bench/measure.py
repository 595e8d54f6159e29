"""What a benchmark needs: the peers, their processor time and memory from the kernel, percentiles."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla

Server = Oracle | Ottla
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the table; `better` says which way is good, `target` what the ratio should reach."""

    name: str
    unit: str
    better: str = "higher"
    target: str = ""


@dataclass(slots=True)
class Scale:
    """How much of everything: 1.0 is the published run."""

    factor: float = 1.0

    def __call__(self, amount: int, least: int = 1) -> int:
        return max(least, int(amount * self.factor))


Measured = dict[Metric, float]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """`run` starts what it needs from `peer`, measures once, and gives its figures."""

    name: str
    run: Callable[[Peer, Scale], Measured]
    rounds: int = 3
    peers: tuple[str, ...] = ("kafka", "ottla")


@dataclass(slots=True)
class Peer:
    """Makes servers of one kind, each on a new folder."""

    name: str
    folders: list[Path] = field(default_factory=list)

    def make(self, settings: Mapping[str, object] | None = None) -> Server:
        folder = Path(tempfile.mkdtemp(prefix=f"ottla-bench-{self.name}-"))
        self.folders.append(folder)
        if self.name == "kafka":
            return Oracle(data=folder / "data", settings=settings)
        return Ottla(data=folder / "data", settings=settings)

    @contextlib.contextmanager
    def running(self, settings: Mapping[str, object] | None = None) -> Iterator[Server]:
        server = self.make(settings)
        with server:
            yield server
        self.clean()

    def clean(self) -> None:
        for each in self.folders:
            shutil.rmtree(each, ignore_errors=True)
        self.folders.clear()


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, user and system, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def make_topic(bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 1, config=dict(configs or {}))])[topic].result(120)


@contextlib.contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Seconds since it began; stands still once the block has ended."""
    begun, ended = time.perf_counter(), 0.0
    yield lambda: (ended or time.perf_counter()) - begun
    ended = time.perf_counter()
