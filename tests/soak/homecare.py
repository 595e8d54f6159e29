"""Home care at length: the demo again and again, with kills, also on other brokers and on a Spark cluster; and half an
hour in which memory must not grow.

python -m tests.soak.homecare [--runs 10] [--minutes 30]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla
from tests.spark.standalone import standalone

_COMMAND = [sys.executable, "-m", "ottla.cli.main", "homecare"]
_SAMPLE_S = 10.0
_GROWTH_MAX = 1.25  # of the last third over the second: the first is warm-up


@dataclass(slots=True)
class Report:
    runs: int = 0
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    minutes: float = 0.0
    peak_mb: dict[str, int] = field(default_factory=dict)
    growth: dict[str, float] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        return self.right == self.runs and all(each <= _GROWTH_MAX for each in self.growth.values())


def demos(runs: int, seed: int, say: Callable[[str], None], options: tuple[str, ...] = ()) -> Report:
    """Every second one with kills."""
    report = Report()
    for i in range(runs):
        chaos = ["--chaos"] if i % 2 else []
        name = f"{i + 1} of {runs}{' with chaos' if chaos else ''}"
        _judge(report, name, seed + i, [*chaos, *options], say)
    return report


def elsewhere(seed: int, say: Callable[[str], None]) -> Report:
    """The same demo with Apache Kafka for a broker, with Spark on a cluster, with three brokers, these also with TLS
    and logins on all their links, and on a mirrored side."""
    report = Report()
    with Oracle(heap="512M") as kafka:
        _judge(report, "on Apache Kafka", seed, ["--bootstrap", kafka.bootstrap, "--chaos"], say)
    with (
        tempfile.TemporaryDirectory(prefix="ottla-soak-spark-") as folder,
        standalone(Path(folder), "2g") as master,
    ):
        _judge(report, "on a Spark cluster of two workers", seed, ["--master", master, "--chaos"], say)
    _judge(report, "with three brokers", seed, ["--brokers", "3", "--chaos"], say)
    _judge(report, "with three secured brokers", seed, ["--brokers", "3", "--secure", "--chaos"], say)
    _judge(report, "on the mirrored side", seed, ["--mirrored", "--chaos"], say)
    return report


def memory(minutes: float, seed: int, say: Callable[[str], None], devices: int = 2_000) -> Report:
    """Pipelines and broker under a steady stream; resident memory of each group of processes over time."""
    report = Report(minutes=minutes)
    folder = Path(tempfile.mkdtemp(prefix="ottla-soak-homecare-"))
    with Ottla(data=folder / "data") as broker, (folder / "log").open("w") as log:
        common = ["--bootstrap", broker.bootstrap]
        pipelines = subprocess.Popen(
            [*_COMMAND, "pipelines", *common, "--checkpoints", str(folder / "checkpoints")],
            stdout=log,
            stderr=log,
        )
        seconds = str(minutes * 60)
        simulator = subprocess.Popen(
            [
                *_COMMAND,
                "simulate",
                *common,
                "--seconds",
                seconds,
                "--devices",
                str(devices),
                "--seed",
                str(seed),
            ],
            stdout=log,
            stderr=log,
        )
        groups = {"broker": broker.pid(), "pipelines": pipelines.pid, "simulator": simulator.pid}
        samples: dict[str, list[int]] = {name: [] for name in groups}
        while simulator.poll() is None and pipelines.poll() is None:
            for name, pid in groups.items():
                samples[name].append(_tree_mb(pid))
            say(json.dumps({name: values[-1] for name, values in samples.items()}))
            time.sleep(_SAMPLE_S)
        for process in (simulator, pipelines):
            process.terminate()
            process.wait(60)
    for name, values in samples.items():
        third = max(1, len(values) // 3)
        middle, last = sorted(values[third : 2 * third]), sorted(values[2 * third :])
        report.peak_mb[name] = max(values, default=0)
        if middle and last:
            report.growth[name] = round(last[len(last) // 2] / max(1, middle[len(middle) // 2]), 2)
    return report


def _judge(report: Report, name: str, seed: int, options: Sequence[str], say: Callable[[str], None]) -> None:
    begun = time.monotonic()
    command = [*_COMMAND, "demo", "--seed", str(seed), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    report.runs += 1
    report.right += done.returncode == 0
    if done.returncode:
        report.wrong.append(f"{name}, seed {seed}: {done.stdout[-2000:]}{done.stderr[-500:]}")
    say(f"demo {name}: exit {done.returncode} after {time.monotonic() - begun:.0f} s")


def _tree_mb(root: int) -> int:
    """Proportional memory of a process and all below it: what they share counts once."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        waiting += parents.get(pid, [])
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return total // 1024


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    options = parser.parse_args()
    reports = [
        demos(options.runs, options.seed, print),
        elsewhere(options.seed, print),
        memory(options.minutes, options.seed, print),
    ]
    for report in reports:
        print(json.dumps({name: getattr(report, name) for name in Report.__slots__}))
    return 0 if all(report.is_clean for report in reports) else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
