"""`ottla homecare technician|nurse|billing|pipelines`: pipelines in a Spark driver, until they are told to stop."""

import argparse
import json
import logging
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from ottla.homecare import topics
from ottla.homecare.client import add_client, client_of
from ottla.homecare.pipelines import NAMES
from ottla.homecare.rules import Rules
from ottla.homecare.simulator import add_rules, rules_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client(parser)
    parser.add_argument(
        "--master", help="a Spark master, for example spark://host:7077 (default: this machine)"
    )
    parser.add_argument(
        "--checkpoints",
        metavar="DIR",
        help="where Spark keeps its progress and the pipelines their state (default: a new folder)",
    )
    parser.add_argument("--trigger", default="500 milliseconds", help="time between micro-batches")
    parser.add_argument("--rows-max", type=int, default=1_000_000, help="records in a micro-batch at most")
    parser.add_argument("--partitions", type=int, default=4, help="of the topics, if they are to be made")
    parser.add_argument("--json", action="store_true", help="progress as JSON lines")
    add_rules(parser, Rules())


def run(arguments: argparse.Namespace, names: tuple[str, ...] = NAMES) -> int:
    logging.basicConfig(
        level="WARNING", stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    stopping = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.append(True))
    client = client_of(arguments)
    topics.create(client, arguments.partitions)
    spark = session(arguments.master, f"homecare {' '.join(names)}")
    from ottla.homecare.stream import Settings
    from ottla.homecare.stream import run as run_stream

    folder = Path(arguments.checkpoints or tempfile.mkdtemp(prefix="ottla-homecare-"))
    settings = Settings(
        client,
        folder.absolute(),
        rules_of(arguments),
        trigger=arguments.trigger,
        rows_max=arguments.rows_max,
    )
    try:
        run_stream(
            spark, names, settings, _tell_json if arguments.json else _tell_plainly, lambda: bool(stopping)
        )
    finally:
        spark.stop()
    return 0


def session(master: str | None, name: str) -> Any:
    """This machine's own Spark, or one that is there already. Its workers need this package, too."""
    import ottla.spark

    return ottla.spark.session(name, settings={"spark.master": master} if master else None)


def _tell_json(figures: dict[str, Any]) -> None:
    print(json.dumps(figures), flush=True)


def _tell_plainly(figures: dict[str, Any]) -> None:
    shown = {name: value for name, value in figures.items() if name not in ("job", "ages")}
    print(f"{figures['job']}: " + ", ".join(f"{name} {value}" for name, value in shown.items()), flush=True)
