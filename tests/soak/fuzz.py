"""Bad input against a live broker: it refuses, stays small, and other clients notice nothing.

    python -m tests.soak.fuzz [--seconds 1200] [--seed N] [--brokers 3] [--only KIND] [--nice 10]

Random bytes, half frames, absurd lengths, damaged requests of every API and version, connections that never
read or write a byte a second, parked long polls, bombs, duplicates by the thousand (see attacks.py); beside them a
healthy client whose every record must be acknowledged in time and come back. Its latency is compared with that of
a quiet time before. The attackers share the machine with the brokers, where real ones bring their own: they run with
a low priority (`--nice`). Prints a JSON summary; exits 1 if a broker died, grew, kept memory, missed its session with
ZooKeeper, or let the healthy client down.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.cluster.load import create
from tests.cluster.processes import ProcessCluster
from tests.oracle.ottla import Ottla
from tests.soak.attack_batches import BOMBS, VICTIM
from tests.soak.attacks import LARGE, Attacker, fill
from tests.soak.healthy import TOPIC as HEALTHY
from tests.soak.healthy import Healthy
from tests.soak.kills import read_all

P99_TIMES_MAX = 5.0
NICE = 10  # of attackers
_GROWTH_MB = 512  # the memory for requests, and as much for answers that nobody reads
_MB_AFTER = 60
_SETTLE_S = 120.0
_SESSION_LOST = "the session with the metadata log is over"


@dataclass(slots=True)
class Report:
    attacks: int = 0
    healthy_records: int = 0
    p99_ms_quiet: float = 0.0
    p99_ms: float = 0.0
    slowest_ack_seconds: float = 0.0
    attackers_cores: float = 0.0
    memory_mb_before: float = 0.0
    memory_mb_peak: float = 0.0
    memory_mb_after: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.wrong


class Target(NamedTuple):
    """Brokers as processes: where they listen, who they are, what they say."""

    bootstraps: list[str]
    pids: list[int]
    logs: list[Path]

    @property
    def bootstrap(self) -> str:
        return ",".join(self.bootstraps)

    def memory_mb(self) -> float:
        return max(memory_mb(pid) for pid in self.pids)

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(pid) for pid in self.pids)


@contextlib.contextmanager
def started(brokers: int) -> Iterator[Target]:
    if brokers == 1:
        with Ottla() as broker:
            yield Target([broker.bootstrap], [broker.pid()], [broker.log])
    else:
        with ProcessCluster(brokers, session_ms=6000, proxied=False) as cluster:
            ports = [f"127.0.0.1:{port}" for port in cluster.ports.values()]
            logs = [cluster.folder / f"broker-{each}.log" for each in cluster.ids]
            yield Target(ports, [process.pid for process in cluster.processes.values()], logs)


def run(
    seconds: float,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
    *,
    brokers: int = 1,
    only: str = "",
    nice: int = NICE,
    p99_times_max: float | None = P99_TIMES_MAX,
    mb_after_max: float = _MB_AFTER,
) -> Report:
    """`p99_times_max` is how much slower the healthy client may become; None where others use the machine.
    `mb_after_max` is how much memory may be left: what the allocator keeps varies with the order of attacks."""
    report, chance = Report(), random.Random(seed)
    with started(brokers) as target:
        prepare(target, brokers)
        report.memory_mb_before = target.memory_mb()
        attackers = [Attacker(each, chance, only) for each in target.bootstraps]
        with Healthy(target.bootstrap) as healthy:
            time.sleep(max(seconds / 20, 3))
            report.p99_ms_quiet = p99(healthy.latencies_ms())
            siege = Siege(attackers, target, healthy, report, time.monotonic() + seconds, say, nice)
            siege.start()
            siege.join()
            times_ms = healthy.stop()
            report.healthy_records, report.wrong = healthy.records, list(healthy.wrong)
        for attacker in attackers:
            attacker.close()
        report.attackers_cores = round(siege.cpu_seconds / seconds, 2)
        report.p99_ms, report.slowest_ack_seconds = p99(times_ms), round(times_ms[-1] / 1000, 3)
        _judge(target, report, p99_times_max, mb_after_max)
        if cut_off := sum(each.cut_off for each in attackers):
            report.wrong.append(f"{cut_off} clients that read slowly were cut off")
    return report


class Siege(threading.Thread):
    """All attackers by turns, until the time is up. A thread has a priority of its own."""

    def __init__(
        self,
        attackers: list[Attacker],
        target: Target,
        healthy: Healthy,
        report: Report,
        deadline: float,
        say: Callable[[str], None],
        nice: int,
    ) -> None:
        super().__init__(name="attackers")
        self._attackers, self._target, self._healthy, self._report = attackers, target, healthy, report
        self._deadline, self._say, self._nice = deadline, say, nice
        self.cpu_seconds = 0.0

    def run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._nice)
        report = self._report
        while time.monotonic() < self._deadline and self._healthy.is_alive():
            self._attackers[report.attacks % len(self._attackers)].attack()
            report.attacks += 1
            if report.attacks % 50 == 0:
                report.memory_mb_peak = max(report.memory_mb_peak, self._target.memory_mb())
                self._say(f"{report.attacks} attacks, {report.memory_mb_peak} MB")
        self.cpu_seconds = time.thread_time()


def prepare(target: Target, brokers: int) -> None:
    for topic, partitions in ((HEALTHY, 1), (VICTIM, BOMBS), (LARGE, 1)):
        create(target.bootstrap, topic, partitions, min(brokers, 3), retention_ms=-1)
    fill(target.bootstraps, LARGE, megabytes=30)


def _judge(target: Target, report: Report, p99_times_max: float | None, mb_after_max: float) -> None:
    values = read_all(target.bootstrap, HEALTHY, 0)
    if values != [str(i).encode() for i in range(report.healthy_records)]:
        report.wrong.append(f"{len(values)} records are there, {report.healthy_records} were acknowledged")
    if report.memory_mb_peak > report.memory_mb_before + _GROWTH_MB:
        report.wrong.append(f"grew from {report.memory_mb_before} to {report.memory_mb_peak} MB")
    report.memory_mb_after = _settled_mb(target, mb_after_max)
    if not 0 < report.memory_mb_after < mb_after_max:
        report.wrong.append(f"{report.memory_mb_after} MB are left after the attacks")
    if p99_times_max is not None and report.p99_ms > p99_times_max * report.p99_ms_quiet:
        report.wrong.append(f"p99 went from {report.p99_ms_quiet} to {report.p99_ms} ms")
    for log in target.logs:
        if _SESSION_LOST in log.read_text(errors="replace"):
            report.wrong.append(f"{log.name}: a session with ZooKeeper was missed")


def _settled_mb(target: Target, wanted_mb: float) -> float:
    """A client that sent more than the broker has read is not known to be gone: its requests are answered first, of
    those with ten thousand elements about two a second."""
    deadline = time.monotonic() + _SETTLE_S
    while (found := target.memory_mb()) >= wanted_mb and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def p99(times_ms: list[float]) -> float:
    return round(times_ms[len(times_ms) * 99 // 100], 2)


def memory_mb(pid: int) -> float:
    """Resident memory, as the kernel counts it; 0 if the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((round(int(line.split()[1]) / 1024, 1) for line in lines if line.startswith("VmRSS")), 0.0)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--brokers", type=int, default=1, help="3 for a cluster over ZooKeeper")
    parser.add_argument("--only", default="", metavar="KIND", help="one kind of attack")
    parser.add_argument("--nice", type=int, default=NICE, help=f"the priority of attackers ({NICE})")
    options = parser.parse_args()
    report = run(
        options.seconds,
        options.seed,
        lambda line: print(line, file=sys.stderr),
        brokers=options.brokers,
        only=options.only,
        nice=options.nice,
    )
    print(
        json.dumps(
            {"seed": options.seed, **{name: getattr(report, name) for name in Report.__slots__}}, indent=1
        )
    )
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
