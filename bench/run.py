"""Run benchmarks against Apache Kafka and Ottla in turn and compare the medians.

    python -m bench.run [NAME ...] [--quick] [--rounds N] [--peers ottla] [--write] [--list]

Others' load moves the figures of a shared machine by a third and more: only the ratio within one run counts,
the peers alternate, and a median of at least three rounds is taken. `--write` puts the lines into
docs/benchmarks.md, those that were measured in three rounds without load of others (see conditions.py).
"""

from __future__ import annotations

import argparse
import fnmatch
import statistics
import sys
import time
import traceback

from bench import (
    acls,
    aiokafka_load,
    broker,
    conditions,
    coordinators,
    document,
    homecare,
    shares,
    testing,
    tls,
)
from bench.conditions import may_publish
from bench.measure import Benchmark, Measured, Metric, Peer, Scale
from tests.oracle import cluster

BENCHMARKS = (
    broker.BENCHMARKS
    + aiokafka_load.BENCHMARKS
    + tls.BENCHMARKS
    + acls.BENCHMARKS
    + coordinators.BENCHMARKS
    + shares.BENCHMARKS
    + testing.BENCHMARKS
    + homecare.BENCHMARKS
)
_HEAD = ("measure", "unit", "Apache Kafka", "Ottla", "ratio", "target")
_INTRO = """Apache Kafka {version} and Ottla, one broker each, Ottla compiled as pip compiles it. The
ratio is Ottla divided by Apache Kafka."""
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
    parser.add_argument(
        "--write",
        action="store_true",
        help="put the lines into docs/benchmarks.md (not those of a quick run)",
    )
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [each for each in BENCHMARKS if _is_chosen(each.name, options.names)]
    if options.list:
        print("\n".join(each.name for each in chosen))
        return 0
    if "kafka" in options.peers and (reason := cluster.why_not()) is not None:
        print(f"without Apache Kafka: {reason}", file=sys.stderr)
        options.peers.remove("kafka")
    conditions.prepare()
    figures, failures = _run_all(chosen, options)
    print(document.table(_HEAD, [_row(metric, measured) for metric, measured in figures.items()]))
    if options.write and not options.quick:
        rows = [
            _row(metric, by_peer) for metric, by_peer in figures.items() if may_publish(metric.name, by_peer)
        ]
        document.write("broker", _INTRO.format(version=document.kafka_version()), _HEAD, rows)
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
                    # A peer without a round that counts is told, not left out of the line.
                    by_peer = figures.setdefault(
                        metric, {peer: [] for peer in peers if peer in benchmark.peers}
                    )
                    by_peer.setdefault(name, []).append(value)
    return figures, failures


def _run_one(benchmark: Benchmark, name: str, scale: Scale) -> Measured | None:
    peer, begun = Peer(name), time.monotonic()
    try:
        with conditions.watched() as others:
            measured = benchmark.run(peer, scale)
    except Exception:
        print(f"{benchmark.name} on {name} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        return None
    finally:
        peer.clean()
    shown = "; ".join(f"{metric.name} {_number(value)} {metric.unit}" for metric, value in measured.items())
    print(f"[{time.monotonic() - begun:5.1f} s] {name}: {shown}", file=sys.stderr, flush=True)
    return measured if others.are_quiet or scale.factor < 1 else {}


def _row(metric: Metric, measured: dict[str, list[float]]) -> tuple[str, ...]:
    medians = {name: statistics.median(values) for name, values in measured.items() if values}
    shown = [_number(medians[name]) if name in medians else "-" for name in ("kafka", "ottla")]
    ratio = f"{medians['ottla'] / medians['kafka']:.2f}" if len(medians) == 2 and medians["kafka"] else "-"
    return (metric.name, metric.unit, *shown, ratio, metric.target)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def _is_chosen(name: str, patterns: list[str]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


if __name__ == "__main__":
    sys.exit(main())
