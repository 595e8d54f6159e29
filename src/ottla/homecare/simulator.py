"""`ottla homecare simulate`: sends what the world says, as fast as it happens or as fast as it goes."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.client.columnar import ColumnarProducer
from ottla.homecare import topics
from ottla.homecare.client import Client, add_client, client_of
from ottla.homecare.rules import Rules
from ottla.homecare.world import Plan, World, messages_a_second, step_ms

_BUFFER_BYTES = 64 * 1024 * 1024
_TELL_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client(parser)
    parser.add_argument("--truth", metavar="FILE", help="write down what must come of it, as JSON")
    parser.add_argument("--flat-out", action="store_true", help="as fast as it goes, in the world's own time")
    parser.add_argument("--json", action="store_true", help="progress as JSON lines")
    parser.add_argument("--partitions", type=int, default=4, help="of the topics, if they are to be made")
    add_plan(parser)


def add_plan(parser: argparse.ArgumentParser) -> None:
    plan, rules = Plan(), Rules()
    parser.add_argument("--devices", type=int, default=plan.devices, help=f"default: {plan.devices}")
    parser.add_argument(
        "--rate", type=float, default=plan.rate, help=f"messages a second and device (default: {plan.rate:g})"
    )
    parser.add_argument("--seconds", type=float, default=plan.seconds, help=f"default: {plan.seconds:g}")
    parser.add_argument("--seed", type=int, default=plan.seed)
    add_rules(parser, rules)


def add_rules(parser: argparse.ArgumentParser, rules: Rules) -> None:
    parser.add_argument(
        "--timeout-ms", type=int, default=rules.timeout_ms, help="a longer silence is offline"
    )
    parser.add_argument(
        "--lateness-ms", type=int, default=rules.lateness_ms, help="how late records may come"
    )


def rules_of(arguments: argparse.Namespace) -> Rules:
    return Rules(timeout_ms=arguments.timeout_ms, lateness_ms=arguments.lateness_ms)


def plan_of(arguments: argparse.Namespace, **more: Any) -> Plan:
    names = ("devices", "rate", "seconds", "seed")
    return Plan(**{name: getattr(arguments, name) for name in names}, rules=rules_of(arguments), **more)


def run(arguments: argparse.Namespace) -> int:
    plan = plan_of(arguments, with_truth=bool(arguments.truth) or not arguments.flat_out)
    client = client_of(arguments)
    topics.create(client, arguments.partitions)
    tell = _tell_json if arguments.json else _tell_plainly
    world = simulate(client, plan, tell, flat_out=arguments.flat_out)
    if arguments.truth:
        world.truth.expected(all_silent=True).save(Path(arguments.truth))
        tell({"truth": arguments.truth})
    return 0


def simulate(
    client: Client, plan: Plan, tell: Callable[[dict[str, Any]], None], *, flat_out: bool = False
) -> World:
    """Returns when everything is acknowledged."""
    producer = ColumnarProducer(
        client,
        linger_ms=20,
        buffer_memory=_BUFFER_BYTES,
        compression_type="lz4",
        client_id="homecare-simulator",
        max_block_ms=120_000,
    )
    with producer:
        # Flat out is history that is told at once: it must not lie in the future.
        world = World(plan, _now_ms() - (int(plan.seconds * 1000) if flat_out else 0))
        tell(
            {
                "planned_rate": round(messages_a_second(plan)),
                "devices": plan.devices,
                "start_ms": world.start_ms,
            }
        )
        producer.write(world.roster(), topics.ROSTER)
        producer.flush()
        _send(producer, world, tell, flat_out)
        for topic, rows in world.end():
            producer.write(rows, topic)
        producer.flush()
        _tell(tell, world, done=True)
    return world


def _send(
    producer: ColumnarProducer, world: World, tell: Callable[[dict[str, Any]], None], flat_out: bool
) -> None:
    plan = world.plan
    end_ms = world.start_ms + int(plan.seconds * 1000)
    reported_at = time.monotonic()
    while world.now_ms < end_ms:
        to_ms = min(end_ms, world.now_ms + step_ms(plan, flat_out=flat_out))
        wait_s = (to_ms - _now_ms()) / 1000
        if wait_s > 0 and not flat_out:
            time.sleep(wait_s)
        for topic, rows in world.advance(to_ms):
            producer.write(rows, topic)
        if not flat_out:
            producer.flush()  # do not gather more: somebody waits for these
        if time.monotonic() - reported_at >= _TELL_S:
            reported_at = time.monotonic()
            _tell(tell, world)


def _tell(tell: Callable[[dict[str, Any]], None], world: World, done: bool = False) -> None:
    tell(
        {
            "sent": sum(world.sent.values()),
            "by_topic": world.sent,
            "late": world.late,
            "repeated": world.repeated,
            "elapsed_s": round((_now_ms() - world.start_ms) / 1000, 1),
            "done": done,
        }
    )


def _tell_json(figures: dict[str, Any]) -> None:
    print(json.dumps(figures), flush=True)


def _tell_plainly(figures: dict[str, Any]) -> None:
    if "sent" in figures:
        rate = figures["sent"] / max(figures["elapsed_s"], 0.001)
        word = "done" if figures["done"] else "simulate"
        print(
            f"{word}: {figures['elapsed_s']:.0f} s, {figures['sent']:,} messages, {rate:,.0f} a second",
            flush=True,
        )
    else:
        print(" ".join(f"{name} {value}" for name, value in figures.items()), file=sys.stderr, flush=True)


def _now_ms() -> int:
    return int(time.time() * 1000)
