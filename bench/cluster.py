"""A cluster of three brokers beside one of Apache Kafka: fail-over, throughput, brokers that come and go.

    python -m bench.cluster [--quick] [--rounds N] [--only failover rolling] [--peers ottla] [--write]

Every round starts a new cluster; the peers alternate. Replication factor 3, min.insync.replicas 2, acks=all, the
defaults of both. A silence is the time between two acknowledgements of a partition, as confluent-kafka sees it.
`--write` puts the lines into docs/benchmarks.md that were measured in three rounds without load of others.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import traceback

from bench import conditions, document
from bench.cluster_measures import LOAD_BYTES, LOAD_RATE, MEASURES, Figure, Measure, Measured, Round
from bench.cluster_peers import KafkaCluster, OttlaCluster
from bench.conditions import may_publish
from tests.oracle import cluster

PEERS = {"kafka": KafkaCluster, "ottla": OttlaCluster}
_HEAD = ("measure", "unit", "Apache Kafka", "Ottla", "ratio", "target", "rounds")
_INTRO = """Apache Kafka {version} over KRaft and Ottla over one ZooKeeper server, three brokers and their clients on
one machine; replication factor 3, min.insync.replicas 2, acks=all, default sessions (9 s and 6 s). The ratio is Ottla
divided by Apache Kafka; figures are medians of the rounds, counts their sums.

Seconds of a leader that goes are the longest silence of a partition: from one acknowledgement to the next, as its
confluent-kafka producer sees it (a busy one for the partitions with three replicas, so it includes what librdkafka
needs to find the new leader); with 1,000 partitions 12 are looked at. In the first round the leader is the controller
too. "Led by others" had a replica on it, "not held by it" are partitions with two replicas on the other brokers and
producers of their own. Brokers come and go under {rate:,.0f} records of {size:,} bytes a second."""
Figures = dict[Figure, dict[str, list[float]]]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="one short round of everything: shows that it runs"
    )
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", nargs="*", default=[], choices=[each.name for each in MEASURES])
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--write",
        action="store_true",
        help="put the lines into docs/benchmarks.md (not those of a quick run)",
    )
    options = parser.parse_args()
    if "kafka" in options.peers and (reason := cluster.why_not()) is not None:
        print(f"without Apache Kafka: {reason}", file=sys.stderr)
        options.peers.remove("kafka")
    chosen = [each for each in MEASURES if not options.only or each.name in options.only]
    conditions.prepare()
    figures, failures = _run_all(chosen, options)
    print(document.table(_HEAD, [_row(figure, by_peer) for figure, by_peer in figures.items()]))
    if options.write and not options.quick:
        rows = [
            _row(figure, by_peer) for figure, by_peer in figures.items() if may_publish(figure.name, by_peer)
        ]
        intro = _INTRO.format(version=document.kafka_version(), rate=LOAD_RATE, size=LOAD_BYTES)
        document.write("cluster", intro, _HEAD, rows)
    return 1 if failures else 0


def _run_all(chosen: list[Measure], options: argparse.Namespace) -> tuple[Figures, int]:
    figures: Figures = {}
    failures = 0
    for measure in chosen:
        for number in range(options.rounds or (1 if options.quick else measure.rounds)):
            for peer in options.peers if number % 2 == 0 else options.peers[::-1]:
                measured = _run_one(measure, peer, Round(number, options.quick))
                failures += measured is None
                for figure, value in (measured or {}).items():
                    figures.setdefault(figure, {}).setdefault(peer, []).append(value)
    return figures, failures


def _run_one(measure: Measure, peer: str, round: Round) -> Measured | None:
    begun = time.monotonic()
    try:
        with conditions.watched() as others, PEERS[peer](measure.brokers) as started:
            measured = measure.run(started, round)
    except Exception:
        print(f"{measure.name} on {peer} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        return None
    print(f"[{time.monotonic() - begun:5.1f} s] {peer}", file=sys.stderr)
    for figure, value in measured.items():
        print(f"    {figure.name}: {_number(value)} {figure.unit}", file=sys.stderr, flush=True)
    return measured if others.are_quiet or round.quick else {}


def _row(figure: Figure, by_peer: dict[str, list[float]]) -> tuple[str, ...]:
    take = {"median": statistics.median, "most": max, "sum": sum}[figure.of]
    taken = {peer: take(values) for peer, values in by_peer.items()}
    shown = [_number(taken[peer]) if peer in taken else "-" for peer in PEERS]
    theirs, ours = taken.get("kafka"), taken.get("ottla")
    ratio = f"{ours / theirs:.2f}" if theirs and ours is not None and figure.of != "sum" else "-"
    rounds = str(min(map(len, by_peer.values())))
    return (figure.name, figure.unit or "-", *shown, ratio, figure.target, rounds)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
