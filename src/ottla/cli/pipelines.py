"""`ottla pipelines`: what runs on Spark with state of its own: list, status, metrics, reset."""

import argparse
import asyncio
import sys
import time

from ottla.cli.options import UsageError, add_command, client_settings
from ottla.cli.tables import show
from ottla.client import Admin
from ottla.pipelines import status

COLUMNS = ("TASK", "RECORDS", "LAG", "WRITTEN", "STATE-ROWS", "STATE-BYTES", "RESTORED", "LAST-STEP", "HOST")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_command(commands, "list", "pipelines that have committed")
    shown = add_command(commands, "status", "records, lag and state of each stream task")
    shown.add_argument("name")
    shown.add_argument(
        "-w", "--watch", type=float, nargs="?", const=1.0, metavar="SECONDS", help="again and again (1)"
    )
    metrics = add_command(commands, "metrics", "serve /metrics of all pipelines for Prometheus, until Ctrl-C")
    metrics.add_argument(
        "--listen", default="127.0.0.1:9465", metavar="[HOST:]PORT", help="default: 127.0.0.1:9465"
    )
    resetting = add_command(
        commands,
        "reset",
        "forget positions and state of a pipeline that does not run (dry run unless --execute)",
    )
    resetting.add_argument("name")
    resetting.add_argument("--execute", action="store_true", help="do it")


def run(arguments: argparse.Namespace) -> int:
    with Admin(client_settings(arguments)) as admin:
        if arguments.command == "list":
            show(arguments, ("PIPELINE",), [(name,) for name in status.names(admin)])
        elif arguments.command == "metrics":
            _metrics(admin, arguments)
        elif arguments.command == "reset":
            reset(admin, arguments.name, execute=arguments.execute)
        else:
            _status(admin, arguments)
    return 0


def _metrics(admin: Admin, arguments: argparse.Namespace) -> None:
    from ottla.cli.monitoring.pipelines import PipelinePages
    from ottla.server.http import HttpServer

    host, _, port = arguments.listen.rpartition(":")
    if not port.isdecimal():
        raise UsageError(f"--listen {arguments.listen}: write [HOST:]PORT")

    async def serve() -> None:
        server = HttpServer(PipelinePages(admin))
        await server.start(host or "127.0.0.1", int(port))
        print(f"http {host or '127.0.0.1'}:{server.port}", file=sys.stderr, flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            await server.stop()

    asyncio.run(serve())


def _status(admin: Admin, arguments: argparse.Namespace) -> None:
    while True:
        show(arguments, COLUMNS, [row(task) for task in status.status(admin, arguments.name)])
        if arguments.watch is None:
            return
        time.sleep(arguments.watch)
        print("\033[2J\033[H" if sys.stdout.isatty() else "", end="\n", flush=True)


def row(task: status.TaskStatus) -> tuple[object, ...]:
    figures = task.commit.figures
    ago = f"{time.time() - figures.at_ms / 1000:,.0f} s ago" if figures.at_ms else None
    return (
        task.commit.task, figures.records, task.lag, figures.written, figures.rows, figures.bytes,
        figures.restored, ago, figures.host or None,
    )  # fmt: skip


def reset(admin: Admin, name: str, *, execute: bool) -> None:
    tasks, topics = status.commits(admin.group_offsets(name)), status.internal_topics(admin, name)
    if not tasks and not topics:
        raise status.unknown(name)
    if not execute:
        print(
            f"would delete the positions of {len(tasks)} stream tasks and the internal topics of {name}; "
            "--execute does it. Files in its state_dir are of no use then"
        )
        for topic in topics:
            print(f"would delete {topic}")
        return
    for topic in status.reset(admin, name):
        print(f"deleted {topic}")
    print(f"{name} begins from the start")
