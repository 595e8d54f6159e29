"""`ottla top`: brokers, topics and groups by rate and lag, live, over the Kafka protocol: works with any cluster."""

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple

from ottla.cli.asking import rates
from ottla.cli.asking.pages import BrokerFigures, figures_of
from ottla.cli.asking.rates import Sample
from ottla.cli.options import UsageError, add_client_options, add_json_option, client_settings
from ottla.cli.screen.frames import Column, View, bold, table
from ottla.cli.tables import show_json
from ottla.client import Admin
from ottla.errors import OttlaError

CLOSE_S = 1.0  # a sampler that still waits for the cluster then goes with the process
KEY_S = 0.1
HELP = "tab next table  s sort  r reverse  up/down scroll  +/- interval  p pause  q quit"


class Table(NamedTuple):
    columns: tuple[Column, ...]
    rows: Callable[[Sample, Sample | None], Sequence[Sequence[object]]]
    sort: int


TABLES = {
    "brokers": Table(
        (Column("BROKER", "count"), Column("ADDRESS"), Column("ROLE"), Column("LEADERS", "count"),
         Column("REPLICAS", "count"), Column("MSG/S", "rate"), Column("SIZE", "bytes")),
        rates.broker_rows, 5,
    ),
    "topics": Table(
        (Column("TOPIC"), Column("PARTITIONS", "count"), Column("UNDER-REPL", "trouble"),
         Column("OFFLINE", "trouble"), Column("MESSAGES", "count"), Column("MSG/S", "rate"),
         Column("BYTES/S", "bytes"), Column("SIZE", "bytes")),
        rates.topic_rows, 5,
    ),
    "groups": Table(
        (Column("GROUP"), Column("STATE"), Column("TOPICS", "count"), Column("MSG/S", "rate"),
         Column("LAG", "count"), Column("LAG/S", "rate"), Column("LEFT", "seconds")),
        rates.group_rows, 4,
    ),
}  # fmt: skip
FIGURES = (Column("READY"), Column("IDLE", "rate"), Column("MEMORY", "bytes"), Column("CONN", "count"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_options(parser)
    add_json_option(parser)
    parser.add_argument(
        "view", nargs="?", choices=TABLES, default="topics", help="where to begin (default: topics)"
    )
    parser.add_argument("--once", action="store_true", help="print all tables once and end")
    parser.add_argument("--interval", type=float, default=2.0, metavar="SECONDS", help="default: 2")
    parser.add_argument("--sort", metavar="COLUMN", help="of the table to begin with, e.g. LAG")
    parser.add_argument(
        "--metrics",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="of `ottla start --http`: adds figures of the broker to its row; may be repeated",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.interval <= 0:
        raise UsageError("--interval must be above 0")
    with Admin(client_settings(arguments)) as admin:
        if arguments.once or arguments.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            _once(admin, arguments)
        else:
            _live(admin, arguments)
    return 0


# -- once ----------------------------------------------------------------------------------------


def _once(admin: Admin, arguments: argparse.Namespace) -> None:
    before = rates.sample(admin)
    time.sleep(arguments.interval)
    now = rates.sample(admin)
    figures = figures_of(arguments.metrics)
    if arguments.json:
        show_json(
            {
                "cluster": now.cluster_id,
                **{
                    name: [
                        {**row._asdict(), **_extra(name, row, figures)}  # type: ignore[attr-defined]
                        for row in table.rows(now, before)
                    ]
                    for name, table in TABLES.items()
                },
            }
        )
        return
    wide = sys.stdout.isatty()
    width = os.get_terminal_size().columns if wide else 1 << 16
    for name in TABLES:
        columns, rows, sort = _table(name, now, before, figures)
        print(
            "\n".join(
                line.rstrip() for line in table(columns, rows, View(sort), width, 1 << 30, colour=False)
            )
        )
        print()


def _extra(name: str, row: Any, figures: dict[int, BrokerFigures]) -> dict[str, Any]:
    if name != "brokers" or row.broker not in figures:
        return {}
    return figures[row.broker]._asdict()


def _table(
    name: str, now: Sample, before: Sample | None, figures: dict[int, BrokerFigures]
) -> tuple[tuple[Column, ...], list[tuple[object, ...]], int]:
    columns, make, sort = TABLES[name]
    rows = [tuple(row) for row in make(now, before)]
    if name == "brokers" and figures:
        columns += FIGURES
        rows = [row + (figures[row[0]].cells() if row[0] in figures else (None,) * 4) for row in rows]
    return columns, rows, sort


# -- live ----------------------------------------------------------------------------------------


class Live:
    """What is on the screen, and what keys do to it."""

    def __init__(self, arguments: argparse.Namespace, colour: bool) -> None:
        self.name: str = arguments.view
        self.interval_s: float = arguments.interval
        self.is_paused = False
        self.now: Sample | None = None
        self.before: Sample | None = None
        self.error = ""
        self.figures: dict[int, BrokerFigures] = {}
        self._colour = colour
        self._views = {name: View(table.sort) for name, table in TABLES.items()}
        if arguments.sort:
            self._views[self.name] = View(_column(self.name, arguments.sort))

    def on_found(self, sampled: "tuple[Sample, dict[int, BrokerFigures]] | str") -> None:
        """A cluster that is away for a moment leaves the last figures on the screen."""
        if isinstance(sampled, str):
            self.error = sampled
        else:
            self.before, self.error = self.now, ""
            self.now, self.figures = sampled

    def on_key(self, key: str, page: int) -> None:
        view = self._views[self.name]
        last = max(len(self._rows()[1]) - 1, 0)
        names = list(TABLES)
        match key:
            case "tab" | "right" | "left":
                step = -1 if key == "left" else 1
                self.name = names[(names.index(self.name) + step) % len(names)]
                return
            case "1" | "2" | "3":
                self.name = names[int(key) - 1]
                return
            case "s":
                view = View((view.sort + 1) % len(self._rows()[0]), view.descending)
            case "r":
                view = View(view.sort, not view.descending)
            case "up" | "down" | "page-up" | "page-down":
                step = {"up": -1, "down": 1, "page-up": -page, "page-down": page}[key]
                view = view._replace(top=min(max(view.top + step, 0), last))
            case "p" | " ":
                self.is_paused = not self.is_paused
            case "+":
                self.interval_s = min(self.interval_s * 2, 60)
            case "-":
                self.interval_s = max(self.interval_s / 2, 0.25)
        self._views[self.name] = view

    def _rows(self) -> tuple[tuple[Column, ...], list[tuple[object, ...]]]:
        if self.now is None:
            return TABLES[self.name].columns, []
        columns, rows, _ = _table(self.name, self.now, self.before, self.figures)
        return columns, rows

    def lines(self, width: int, height: int) -> list[str]:
        now, colour = self.now, self._colour
        columns, rows = self._rows()
        tabs = "  ".join(f"[{name}]" if name == self.name else name for name in TABLES)
        state = "paused" if self.is_paused else f"every {self.interval_s:g} s"
        summary = "asking the cluster ..." if now is None else _summary(now, self.before)
        head = [bold(f"ottla top  {tabs}  {state}"[:width], colour), summary[:width], ""]
        body = table(columns, rows, self._views[self.name], width, height - len(head) - 1, colour=colour)
        blank = [""] * max(height - len(head) - len(body) - 1, 0)
        return [*head, *body, *blank, (self.error or HELP)[:width]][:height]


def _summary(now: Sample, before: Sample | None) -> str:
    topics = rates.topic_rows(now, before)
    speed = sum(row.messages_s or 0 for row in topics)
    troubles = sum(row.under_replicated for row in topics), sum(row.offline for row in topics)
    return (
        f"cluster {now.cluster_id}  {len(now.brokers)} brokers  {len(topics)} topics  "
        f"{sum(now.partitions.values())} partitions ({troubles[0]} under-replicated, {troubles[1]} offline)  "
        f"{len(now.groups)} groups  {speed:,.0f} msg/s"
    )


def _column(name: str, wanted: str) -> int:
    titles = [column.name for column in TABLES[name].columns]
    if wanted.upper() not in titles:
        raise UsageError(f"--sort {wanted}: {name} have {', '.join(titles)}")
    return titles.index(wanted.upper())


class Sampler(threading.Thread):
    """Asks the cluster again and again, beside the screen: keys work while the cluster is slow or away."""

    def __init__(self, admin: Admin, metrics: Sequence[str]) -> None:
        super().__init__(daemon=True, name="ottla-top")
        self._admin, self._metrics = admin, metrics
        self._wanted, self._is_over = threading.Event(), False
        self.samples: SimpleQueue[tuple[Sample, dict[int, BrokerFigures]] | str] = SimpleQueue()
        self.is_busy = False

    def ask(self) -> None:
        if not self.is_busy:
            self.is_busy = True
            self._wanted.set()

    def close(self) -> None:
        self._is_over = True
        self._wanted.set()
        self.join(CLOSE_S)

    def run(self) -> None:
        while self._wanted.wait() and not self._is_over:
            self._wanted.clear()
            try:
                self.samples.put((rates.sample(self._admin), figures_of(self._metrics)))
            except (OttlaError, OSError) as error:
                self.samples.put(f"the cluster does not answer: {error}")
            self.is_busy = False


def _live(admin: Admin, arguments: argparse.Namespace) -> None:
    from ottla.cli.screen.terminal import full_screen

    live = Live(arguments, colour=not os.environ.get("NO_COLOR"))
    sampler = Sampler(admin, arguments.metrics)
    sampler.start()
    try:
        with full_screen() as terminal:
            due_s = 0.0
            while True:
                if time.monotonic() >= due_s and not live.is_paused:
                    sampler.ask()
                    due_s = time.monotonic() + live.interval_s
                while not sampler.samples.empty():
                    live.on_found(sampler.samples.get())
                width, height = terminal.size()
                terminal.show(live.lines(width, height))
                key = terminal.key(KEY_S)
                if key == "q":
                    return
                if key is not None:
                    live.on_key(key, height - 5)
    finally:
        sampler.close()
