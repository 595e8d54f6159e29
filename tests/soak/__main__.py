"""`make soak [PART=kills]`: every long run, or one, with fresh seeds; the summaries go into docs/soak.md.

python -m tests.soak [PART ...] [--write]
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.soak import (
    api,
    churn,
    cluster,
    copier,
    delays,
    fuzz,
    groups,
    histories,
    kills,
    lag,
    shares,
    siege,
    strangers,
    streams,
    suites,
    transactions,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "soak.md"
_HEAD = (
    "| date | part | seed | time | outcome | figures |\n|---|---|---|---|---|---|"  # newest first below it
)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _every_client(seed: int) -> Iterator[Any]:
    for i, client in enumerate(copier.COPIERS):
        yield transactions.run(50, seed + i, client, _say)


def _every_flavour(seed: int) -> Iterator[Any]:
    for i, name in enumerate(churn.FLAVOURS):
        yield churn.run(name, 25, seed + i, say=_say)


def _every_server(seed: int) -> Iterator[Any]:
    from tests.soak import spark_exactly_once  # needs the extra spark

    for server in spark_exactly_once.SERVERS:
        yield spark_exactly_once.run(50, seed, _say, server)


def _stream_joins(seed: int) -> Iterator[Any]:
    from tests.soak import pipelines, stream_joins  # need the extra spark

    for server in pipelines.SERVERS:
        yield stream_joins.run(50, seed, _say, server)


def _pipeline_processes(seed: int) -> Iterator[Any]:
    from tests.soak import pipeline_processes, pipelines  # need the extra arrow

    for server in pipelines.SERVERS:
        for story in pipeline_processes.STORIES:
            yield pipeline_processes.run(50, seed, _say, server, story)


def _pipelines(seed: int) -> Iterator[Any]:
    from tests.soak import pipelines  # needs the extra spark

    for server in pipelines.SERVERS:
        yield pipelines.run(50, seed, _say, server)


def _mirror(seed: int) -> Iterator[Any]:
    from tests.soak import mirror, mirror_two_ways  # need the extra arrow

    yield from mirror.every(10_000_000, 50, seed, _say)
    yield mirror_two_ways.run(600, seed, _say)


def _images(_seed: int) -> Iterator[Any]:
    command = [sys.executable, "-m", "pytest", "-q", "-s", "tests/deploy/test_other_images.py"]
    code = subprocess.run(command, check=False, env={**os.environ, "OTTLA_OTHER_IMAGES": "1"}).returncode
    yield _Ran("the console's image; Spark's, with a master, a worker and a job", code == 0)


def _console(_seed: int) -> Iterator[Any]:
    from tests.soak import console  # needs Chromium and playwright

    yield console.run(600, _say)


def _cdc(seed: int) -> Iterator[Any]:
    from tests.soak import cdc  # needs PostgreSQL and the extra postgres

    yield cdc.run(1_000_000, 30, seed, _say)


def _sinks(seed: int) -> Iterator[Any]:
    from tests.soak import sinks  # needs the extra connect

    yield sinks.run(300_000, 30, seed, _say)


def _home_care(seed: int) -> Iterator[Any]:
    from tests.soak import homecare  # needs the extra spark

    yield homecare.demos(10, seed, _say)
    yield homecare.elsewhere(seed, _say)
    yield homecare.memory(30, seed, _say)


def _one_and_three(seed: int) -> Iterator[Any]:
    yield fuzz.run(1200, seed, _say)
    yield fuzz.run(300, seed, _say, brokers=3)


def _every_suite() -> list[Any]:
    return [suites.run(name, _say) for name in suites.runnable()]


@dataclass(slots=True)
class _Ran:
    """A part that says by itself what went wrong, and tells only whether something did."""

    what: str
    is_clean: bool


def _worlds(seed: int) -> Iterator[Any]:
    for world, count in (("scripted", 3000), ("client", 1000)):
        arguments = ("--world", world, "--seeds", f"{seed}:{seed + count}")
        command = [sys.executable, "-m", "ottla.testing.world", *arguments]
        code = subprocess.run(command, check=False).returncode
        yield _Ran(f"{count} seeds of the world with {world} clients", code == 0)


def _api(seed: int) -> Iterator[Any]:
    yield api.run_idempotent(100, seed, _say)
    yield api.run_transactions(50, seed, _say)


PARTS: dict[str, Callable[[int, float], Iterable[Any]]] = {
    "kills": lambda seed, _: [kills.run(100, seed, say=_say)],
    "groups": lambda seed, _: [groups.run(50, seed, _say)],
    "transactions": lambda seed, _: _every_client(seed),
    "churn": lambda seed, _: _every_flavour(seed),
    "streams": lambda seed, _: [streams.run(20, seed, _say)],
    "streams-groups": lambda seed, _: [streams.run(20, seed, _say, protocol="streams")],
    "histories": lambda seed, seconds: [histories.run(seconds, seed, _say)],
    "fuzz": lambda seed, _: _one_and_three(seed),
    "strangers": lambda seed, _: [strangers.run(60, seed, _say)],
    "lag": lambda _seed, _: [lag.run(5000, _say)],
    "world": lambda seed, _: _worlds(seed),
    "api": lambda seed, _: _api(seed),
    "siege": lambda seed, _: [siege.run(30, seed, _say)],
    "cluster": lambda seed, _: [cluster.run(100, seed, "ottla", 60, _say)],
    "secured": lambda seed, _: [cluster.run(100, seed, "ottla", 60, _say, secured=True)],
    "spark": lambda seed, _: _every_server(seed),
    "pipelines": lambda seed, _: _pipelines(seed),
    "pipeline-processes": lambda seed, _: _pipeline_processes(seed),
    "mirror": lambda seed, _: _mirror(seed),
    "shares": lambda seed, _: [shares.run(100, seed, _say)],
    "delays": lambda seed, _: [delays.run(100_000, 300, 1, seed, _say)],
    "stream-joins": lambda seed, _: _stream_joins(seed),
    "console": lambda seed, _: _console(seed),
    "images": lambda seed, _: _images(seed),
    "cdc": lambda seed, _: _cdc(seed),
    "sinks": lambda seed, _: _sinks(seed),
    "homecare": lambda seed, _: _home_care(seed),
    "suites": lambda _seed, _: _every_suite(),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--seconds", type=float, default=3600, help="how long histories are recorded (3600)")
    parser.add_argument("--write", action="store_true", help="add the outcome to docs/soak.md")
    options = parser.parse_args()
    clean, rows = True, []
    for part in options.parts or PARTS:
        begun = time.monotonic()
        for report in PARTS[part](options.seed, options.seconds):
            summary = {name: getattr(report, name) for name in report.__slots__}
            print(
                json.dumps({"part": part, "seed": options.seed, "clean": report.is_clean, **summary}),
                flush=True,
            )
            rows.append(_row(part, options.seed, time.monotonic() - begun, report.is_clean, summary))
            begun = time.monotonic()
            clean = clean and report.is_clean
    if options.write:
        _write(rows)
    return 0 if clean else 1


def _row(part: str, seed: int, seconds: float, clean: bool, summary: dict[str, Any]) -> str:
    shown = ", ".join(
        f"{name} {value}" for name, value in summary.items() if value not in (0, [], 0.0) or name == "missing"
    )
    date = datetime.date.today().isoformat()
    return f"| {date} | {part} | {seed} | {seconds:.0f} s | {'clean' if clean else '**wrong**'} | {shown} |"


def _write(rows: list[str]) -> None:
    head, tail = DOCUMENT.read_text().split(_HEAD)
    DOCUMENT.write_text("\n".join([head + _HEAD, *rows]) + tail)


if __name__ == "__main__":
    sys.exit(main())
