"""Home care: what the simulator sends, what each pipeline takes, and how long an event takes to its result.

    python -m bench.run 'home care*' --peers ottla
    python -m bench.homecare [--devices 10000 100000 1000000] [--scale 0.1]

Throughput is of a pipeline that catches up with a topic that is full; latency is of one that keeps up with a small
stream, from the event's own time to the commit of what came of it. The driver's memory is that of the process that
plans.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ottla.spark
from bench.measure import Benchmark, Measured, Metric, Peer, Scale, memory_mb, percentile
from ottla.homecare import topics
from ottla.homecare.pipelines import NAMES, stage
from ottla.homecare.simulator import simulate
from ottla.homecare.stream import Settings, run
from ottla.homecare.world import Plan
from tests.soak.processes import descendants

_TARGETS = {"technician": ">= 1,000,000", "nurse": ">= 500,000", "billing": ">= 200,000"}
_LATENCY_S = 20
_WARM_UP_S = 6.0
_TIMEOUT_S = 240.0
_DRIVER = b"python_streaming_source_runner"


def _plan(devices: int, rows: int) -> Plan:
    """About so many heartbeats, as many vitals, and half as many services."""
    seconds = rows / devices
    return Plan(
        devices=devices,
        rate=2.0,
        seconds=seconds,
        billing_every_s=max(0.1, 2 * seconds * devices / rows),
        with_truth=False,
    )


def throughput(devices: int) -> Callable[[Peer, Scale], Measured]:
    def measure(peer: Peer, scale: Scale) -> Measured:
        found: Measured = {}
        with peer.running() as server:
            topics.create({"bootstrap.servers": server.bootstrap}, 4)
            begun = time.perf_counter()
            client = {"bootstrap.servers": server.bootstrap}
            world = simulate(client, _plan(devices, scale(2_000_000)), lambda _: None, flat_out=True)
            rate = sum(world.sent.values()) / (time.perf_counter() - begun)
            found[Metric(f"home care: simulator, {devices:,} devices", "messages/s", target=">= 500,000")] = (
                rate
            )
            for name in NAMES:
                count = sum(
                    world.sent[topic]
                    for topic in stage(name, world.plan.rules).inputs
                    if topic != topics.ROSTER
                )
                metric = Metric(f"home care: {name}, {devices:,} devices", "events/s", target=_TARGETS[name])
                found[metric], memory = _caught_up(server.bootstrap, name, world.plan, count, count // 5)
                driver = Metric(
                    f"home care: {name}, driver's memory, {devices:,} devices", "MB", better="lower"
                )
                found[driver] = memory
        return found

    return measure


def _caught_up(bootstrap: str, name: str, plan: Plan, count: int, rows_max: int) -> tuple[float, float]:
    """Events a second between the end of the first micro-batch, which warms up, and that of the last; and the most
    memory of the driver."""
    told: list[tuple[float, int]] = []
    memory = [0.0]
    over = threading.Event()

    def report(said: dict[str, Any]) -> None:
        if said.get("rows"):
            told.append((time.perf_counter(), said["rows"]))
            memory.append(_driver_memory_mb())
            if sum(rows for _, rows in told) >= count:
                over.set()

    _run(bootstrap, name, plan, report, over.is_set, rows_max=rows_max)
    if len(told) < 3:
        raise RuntimeError(f"{name}: only {len(told)} micro-batches; more rows are needed to measure")
    rate = sum(rows for _, rows in told[1:]) / (told[-1][0] - told[0][0])
    print(f"{name}, {plan.devices:,} devices: {rate:,.0f} a second", file=sys.stderr, flush=True)
    return rate, max(memory)


def _driver_memory_mb() -> float:
    """Of the process in which Spark keeps the pipeline's source."""
    return max(
        (
            memory_mb(pid)
            for pid in descendants(os.getpid())
            if _DRIVER in Path(f"/proc/{pid}/cmdline").read_bytes()
        ),
        default=0.0,
    )


def latency(devices: int, messages_s: int = 5_000) -> Callable[[Peer, Scale], Measured]:
    def measure(peer: Peer, scale: Scale) -> Measured:
        found: Measured = {}
        plan = Plan(
            devices=devices, rate=messages_s / devices, seconds=scale(_LATENCY_S, 15) + 15,
            billing_every_s=devices / 1_000, late_share=0, repeated_share=0, silent_share=0, with_truth=False,
        )  # fmt: skip
        for name in NAMES:
            with peer.running() as server:
                topics.create({"bootstrap.servers": server.bootstrap}, 4)
                ages = _ages(server.bootstrap, name, plan)
            for share, word in ((0.5, "p50"), (0.99, "p99")):
                metric = Metric(
                    f"home care: {name} latency {word}, {devices:,} devices", "ms", better="lower"
                )
                found[metric] = percentile(ages, share)
        return found

    return measure


def _ages(bootstrap: str, name: str, plan: Plan) -> list[float]:
    ages: list[float] = []
    over = threading.Event()
    begun: list[float] = []

    def report(said: dict[str, Any]) -> None:
        if said.get("rows"):
            begun.append(time.monotonic())
            if begun[-1] - begun[0] > _WARM_UP_S:
                ages.extend(said["ages"])

    def send() -> None:
        simulate({"bootstrap.servers": bootstrap}, plan, lambda _: None)
        over.set()

    threading.Thread(target=send, daemon=True).start()
    _run(bootstrap, name, plan, report, over.is_set, trigger="0 seconds")
    return ages


def _run(
    bootstrap: str,
    name: str,
    plan: Plan,
    report: Callable[[dict[str, Any]], None],
    is_over: Callable[[], bool],
    **settings: Any,
) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    with tempfile.TemporaryDirectory(prefix="ottla-bench-homecare-", ignore_cleanup_errors=True) as folder:
        settings = {"trigger": "0 seconds", **settings}
        chosen = Settings({"bootstrap.servers": bootstrap}, Path(folder), plan.rules, **settings)
        run(
            ottla.spark.session("bench"),
            [name],
            chosen,
            report,
            lambda: is_over() or time.monotonic() > deadline,
        )


BENCHMARKS = (
    *(Benchmark(f"home care throughput {n}", throughput(n), 1) for n in (10_000, 100_000, 1_000_000)),
    *(Benchmark(f"home care latency {n}", latency(n), 1) for n in (10_000, 100_000, 1_000_000)),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", choices=["throughput", "latency"])
    options = parser.parse_args()
    kinds = {"throughput": throughput, "latency": latency}
    for kind, make in kinds.items():
        for devices in options.devices if options.only in (None, kind) else ():
            for metric, value in make(devices)(Peer("ottla"), Scale(options.scale)).items():
                print(f"{metric.name}: {value:,.0f} {metric.unit} {metric.target}", flush=True)


if __name__ == "__main__":
    main()
