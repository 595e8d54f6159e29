"""`ottla mirror`: topics, settings and positions of groups from one cluster to another."""

import argparse
import gc
import logging
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ottla.cli.options import UsageError, add_json_option, add_timeout_option, pairs
from ottla.cli.tables import show
from ottla.client.settings import read_properties
from ottla.mirror import settings as mirror_settings
from ottla.mirror.link import Link

COMMANDS = ("run", "status", "pause", "resume", "throttle", "promote")
# A record passes through three threads; each may wait that long for one that reads groups or topics.
_SWITCH_S = 0.0005
_COLLECTIONS = (700, 10, 10)  # Python's own thresholds
_SETTLED_S = 10.0  # by then everything is imported
COLUMNS = ("TOPIC", "PARTITION", "COPY", "POSITION", "RECORDS", "LAG", "LAG-SECONDS", "SKIPPED", "LAST-STEP")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Copies topics from one cluster to another, exactly once, and carries the positions of groups over. "
        "Clusters are addresses (--from host:9092), named addresses (--from A=host:9092), or names of a settings file "
        "with MirrorMaker's settings (--config mm2.properties)."
    )
    parser.add_argument("command", nargs="?", choices=COMMANDS, default="run", help="default: run")
    parser.add_argument("--config", metavar="FILE", help="settings, under MirrorMaker 2's names")
    parser.add_argument("--from", dest="source", metavar="CLUSTER", help="where to copy from")
    parser.add_argument("--to", dest="target", metavar="CLUSTER", help="where to copy to")
    parser.add_argument("--topics", metavar="PATTERNS", help="topics to copy, comma-separated patterns")
    parser.add_argument(
        "-X", action="append", default=[], metavar="NAME=VALUE", help="a setting; wins over FILE"
    )
    running = parser.add_argument_group("run")
    running.add_argument("--once", action="store_true", help="copy the records of now, then end")
    running.add_argument("--local", action="store_true", help="in this process, without Spark")
    running.add_argument("--master", help="Spark's master (default: local, all cores)")
    running.add_argument(
        "--metrics", type=int, metavar="PORT", help="serve lag and rates for Prometheus on 127.0.0.1"
    )
    changing = parser.add_argument_group("throttle, promote")
    changing.add_argument("--rate", type=int, metavar="BYTES", help="bytes a second; 0: as fast as it goes")
    changing.add_argument(
        "--execute", action="store_true", help="promote: do it; without it only figures are shown"
    )
    shown = parser.add_argument_group("status")
    shown.add_argument(
        "-w", "--watch", type=float, nargs="?", const=1.0, metavar="SECONDS", help="again and again (1)"
    )
    add_timeout_option(parser.add_argument_group("all but run"))
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    links = links_of(arguments)
    if arguments.command == "run":
        return _run(links, arguments)
    links = [_in_time(link, arguments.timeout) for link in links]
    while True:
        for link in links:
            _one(link, arguments)
        if arguments.command != "status" or arguments.watch is None:
            return 0
        time.sleep(arguments.watch)
        print("\033[2J\033[H" if sys.stdout.isatty() else "", end="\n", flush=True)


def _in_time(link: Link, timeout_s: float) -> Link:
    timeout = {"default.api.timeout.ms": max(1, round(timeout_s * 1000))}
    return replace(
        link, source_client={**timeout, **link.source_client}, target_client={**timeout, **link.target_client}
    )


def links_of(arguments: argparse.Namespace) -> list[Link]:
    """What the file and the options say, options first."""
    settings: dict[str, str] = {}
    if arguments.config:
        settings |= read_properties(Path(arguments.config).read_text())
    settings |= pairs(arguments.X)
    if arguments.topics is not None:
        settings["topics"] = arguments.topics
    if arguments.source is None and arguments.target is None:
        if not arguments.config:
            raise UsageError("--from and --to name the clusters, or --config names a file with them")
        return mirror_settings.links(settings)
    source = _cluster(arguments.source, "source", settings)
    target = _cluster(arguments.target, "target", settings)
    settings["clusters"] = f"{source},{target}"
    settings = {
        name: value for name, value in settings.items() if not name.endswith(".enabled") or "->" not in name
    }
    settings[f"{source}->{target}.enabled"] = "true"
    return mirror_settings.links(settings)


def _cluster(text: str | None, alias: str, settings: dict[str, str]) -> str:
    """The alias of `A`, `A=host:port` or `host:port`; addresses go to the settings."""
    if text is None:
        raise UsageError("--from and --to go together")
    name, equals, address = text.partition("=")
    if not equals and ":" not in text:
        return text
    name, address = (name, address) if equals else (alias, text)
    settings[f"{name}.bootstrap.servers"] = address
    return name


def _run(links: list[Link], arguments: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    for link in links:
        print(f"mirror {link.name}: {', '.join(link.topics)} in mode {link.mode}", flush=True)
    if arguments.metrics is not None:
        from ottla.mirror.metrics import serve

        print(f"metrics: http://127.0.0.1:{serve(links, arguments.metrics)}/metrics", flush=True)
    if arguments.local:
        return _run_local(links, arguments.once)
    return _run_on_spark(links, arguments)


def _run_local(links: list[Link], once: bool) -> int:
    from ottla.mirror import local

    sys.setswitchinterval(_SWITCH_S)
    _collect_often()
    stopped, failures = threading.Event(), []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())

    def copy(link: Link) -> None:
        try:
            local.run(link, once=once, stopped=stopped)
        except Exception as error:
            failures.append(f"{link.name}: {error}")
            stopped.set()

    threads = [threading.Thread(target=copy, args=(link,), name=link.name) for link in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.5)  # in steps, so that signals are heard
    for failure in failures:
        print(f"ottla mirror: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _collect_often() -> None:
    """Collections were postponed for a quick start. One of 50,000 objects stops all tasks for 10 ms and more: from now
    on they are short, and pass over the objects that were made before the links run."""
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)
    settled = threading.Timer(_SETTLED_S, gc.freeze)
    settled.daemon = True
    settled.start()


def _run_on_spark(links: list[Link], arguments: argparse.Namespace) -> int:
    import ottla.spark
    from ottla.mirror import running

    settings = {"spark.master": arguments.master} if arguments.master else {}
    spark = ottla.spark.session("ottla-mirror", settings=settings)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        running.run(links, spark, once=arguments.once)
    finally:
        spark.stop()
    return 0


def _one(link: Link, arguments: argparse.Namespace) -> None:
    from ottla.mirror import status

    match arguments.command:
        case "status":
            _status(link, arguments)
        case "pause":
            status.set_control(link, paused=True)
            print(f"{link.name} is paused; ottla mirror resume goes on")
        case "resume":
            status.set_control(link, paused=False)
            print(f"{link.name} goes on")
        case "throttle":
            if arguments.rate is None:
                raise UsageError("throttle needs --rate BYTES (0: as fast as it goes)")
            status.set_control(link, throttle_bytes=arguments.rate)
            print(
                f"{link.name}: {arguments.rate:,} bytes a second"
                if arguments.rate
                else f"{link.name}: no throttle"
            )
        case "promote":
            _promote(link, arguments)
        case _:
            raise UsageError(f"there is no command {arguments.command}")


def _status(link: Link, arguments: argparse.Namespace) -> None:
    from ottla.mirror import status

    shown = status.status(link, timeout_ms=max(1, round(arguments.timeout * 1000)))
    if not arguments.json:
        print(f"{link.name}: {shown.state}, {_number(shown.lag)} records behind")
    show(arguments, COLUMNS, [_row(partition) for partition in shown.partitions])


def _row(partition: Any) -> tuple[object, ...]:
    ago = None if partition.silent_s is None else f"{partition.silent_s:,.0f} s ago"
    source, target, position = partition.source, partition.target, partition.position
    return (
        source.topic, source.partition, target.topic, position.source, position.records,
        partition.lag, partition.lag_s, position.skipped, ago,
    )  # fmt: skip


def _number(lag: int | None) -> str:
    return "an unknown number of" if lag is None else f"{lag:,}"


def _promote(link: Link, arguments: argparse.Namespace) -> None:
    from ottla.mirror import promote

    figures = promote.figures(link)
    for line in figures.lines():
        print(line)
    if not arguments.execute:
        print("nothing was changed; --execute promotes")
        return
    for line in promote.promote(link, figures):
        print(line)
