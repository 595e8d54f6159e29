"""Run benchmarks against Apache Kafka and Ottla in turn and compare the medians.

    python -m bench.run [NAME ...] [--quick] [--rounds N] [--peers ottla] [--write] [--list]

Others' load moves the figures of a shared machine by a third and more: only the ratio within one run counts,
the peers alternate, and a median of at least three rounds is taken. `--write` puts the table into
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import os
import platform
import statistics
import subprocess
import sys
import time
import traceback
from pathlib import Path

from bench import broker, coordinators, homecare, testing
from bench.measure import Benchmark, Measured, Metric, Peer, Scale
from tests.oracle import cluster

BENCHMARKS = broker.BENCHMARKS + coordinators.BENCHMARKS + testing.BENCHMARKS + homecare.BENCHMARKS
DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
_HEAD = ("measure", "unit", "Apache Kafka", "Ottla", "ratio", "target")
Figures = dict[Metric, dict[str, list[float]]]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="patterns; without one all are run")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of everything, one round: shows that it runs"
    )
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--peers", nargs="+", choices=("kafka", "ottla"), default=["kafka", "ottla"])
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [each for each in BENCHMARKS if _is_chosen(each.name, options.names)]
    if options.list:
        print("\n".join(each.name for each in chosen))
        return 0
    if "kafka" in options.peers and (reason := cluster.why_not()) is not None:
        print(f"without Apache Kafka: {reason}", file=sys.stderr)
        options.peers.remove("kafka")
    figures, failures = _run_all(chosen, options)
    rows = [_row(metric, measured) for metric, measured in figures.items()]
    print(_table(rows, aligned=True))
    if options.write:
        DOCUMENT.write_text(_document(rows, quick=options.quick))
    return 1 if failures else 0


def _run_all(chosen: list[Benchmark], options: argparse.Namespace) -> tuple[Figures, int]:
    figures: Figures = {}
    failures = 0
    scale = Scale(0.1 if options.quick else 1.0)
    for benchmark in chosen:
        rounds = options.rounds or (1 if options.quick else benchmark.rounds)
        for turn in range(rounds):
            # Alternate, and alternate who is first: a machine that gets warmer or busier is fair to both.
            peers = options.peers if turn % 2 == 0 else options.peers[::-1]
            for name in peers:
                measured = _run_one(benchmark, name, scale)
                failures += measured is None
                for metric, value in (measured or {}).items():
                    figures.setdefault(metric, {}).setdefault(name, []).append(value)
    return figures, failures


def _run_one(benchmark: Benchmark, name: str, scale: Scale) -> Measured | None:
    peer, begun = Peer(name), time.monotonic()
    try:
        measured = benchmark.run(peer, scale)
    except Exception:
        print(f"{benchmark.name} on {name} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        return None
    finally:
        peer.clean()
    shown = "; ".join(f"{metric.name} {_number(value)} {metric.unit}" for metric, value in measured.items())
    print(f"[{time.monotonic() - begun:5.1f} s] {name}: {shown}", file=sys.stderr, flush=True)
    return measured


def _row(metric: Metric, measured: dict[str, list[float]]) -> tuple[str, ...]:
    medians = {name: statistics.median(values) for name, values in measured.items()}
    shown = [_number(medians[name]) if name in medians else "-" for name in ("kafka", "ottla")]
    ratio = f"{medians['ottla'] / medians['kafka']:.2f}" if len(medians) == 2 and medians["kafka"] else "-"
    return (metric.name, metric.unit, *shown, ratio, metric.target)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def _table(rows: list[tuple[str, ...]], *, aligned: bool) -> str:
    lines = [_HEAD, tuple("---" for _ in _HEAD), *rows]
    widths = [max(len(line[i]) for line in lines) if aligned else 0 for i in range(len(_HEAD))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def _document(rows: list[tuple[str, ...]], *, quick: bool) -> str:
    note = (
        "\n**A quick run: a tenth of the load, one round. It shows that everything runs, not how fast.**\n"
        if quick
        else ""
    )
    return f"""# Benchmarks

Apache Kafka {_kafka_version()} and Ottla on the same machine in the same run, one broker each with its
defaults, by turns; medians. The ratio is Ottla divided by Apache Kafka: compare it with the target, not the
figures with another machine's. `make bench` repeats it, `bench/` says how each is measured.
{note}
{datetime.date.today().isoformat()}, {_machine()}

{_table(rows, aligned=False)}
"""


def _machine() -> str:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    java = (
        subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.splitlines()[:1]
        if cluster.why_not() is None
        else []
    )
    python = f"Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, {python}, {''.join(java) or 'no Java'}"


def _kafka_version() -> str:
    pom = (cluster.SCRIPT.parent / "pom.xml").read_text()
    return pom.split("<kafka.version>")[1].split("<")[0]


def _is_chosen(name: str, patterns: list[str]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


if __name__ == "__main__":
    sys.exit(main())
