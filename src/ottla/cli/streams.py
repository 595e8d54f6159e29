"""`ottla streams`: applications of `ottla.streams`: run, describe, status, reset, query, serve."""

import argparse
import signal
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ottla.cli.options import Commands, add_command, client_settings, pairs, profile_settings, with_file
from ottla.cli.pipelines import COLUMNS, reset, row
from ottla.cli.tables import show, show_json
from ottla.client import Admin
from ottla.pipelines import status

_TIMEOUT = "default.api.timeout.ms"
_TIMEOUT_S = 60  # what clients have without a setting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = _with_file(commands, "run", "run an application on Spark until it is stopped")
    run.add_argument("--once", action="store_true", help="end when the records of now are done")
    run.add_argument("--master", help="of Spark: local[4], spark://host:7077 (default: this machine)")
    run.add_argument("--tasks", type=int, metavar="N", help="Spark tasks at a time (default: Spark's cores)")
    run.add_argument("--state-dir", metavar="FOLDER", help="keeps state in files (default: in memory)")
    run.add_argument("--trigger", metavar="TEXT", help='micro-batches no more often than, as "1 second"')
    run.add_argument("--serve", type=int, metavar="PORT", help="also GET /stores/... on this port")
    described = _with_file(commands, "describe", "the topology in Kafka Streams' words, or as a picture")
    described.add_argument("--format", choices=["text", "mermaid", "svg"], default="text")
    for name, text in (
        ("status", "records, lag, state and errors of each stream task"),
        (
            "reset",
            "forget positions and state of an application that does not run (dry run unless --execute)",
        ),
    ):
        command = add_command(commands, name, text)
        command.add_argument("name", help="of the application, or its file")
        command.add_argument("--app", help="which one, if the file has several")
        if name == "reset":
            command.add_argument("--execute", action="store_true", help="do it")
    query = _with_file(commands, "query", "rows of a store, whether the application runs or not")
    query.add_argument("store")
    query.add_argument("key", nargs="?")
    query.add_argument("--first", help="from this key on")
    query.add_argument("--last", help="up to this key")
    query.add_argument("--from", dest="from_", metavar="MS", help="windows from this time on")
    query.add_argument("--to", metavar="MS", help="windows up to this time")
    query.add_argument("--limit", default="1000", metavar="N", help="at most so many rows (1000)")
    serve = _with_file(commands, "serve", "answer GET /stores/... over HTTP")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8088, help="(8088)")


def run(arguments: argparse.Namespace) -> int:
    match arguments.command:
        case "run":
            _run(arguments)
        case "describe":
            app = _app(arguments)
            print({"text": app.describe, "mermaid": app.mermaid, "svg": app.svg}[arguments.format]())
        case "query":
            _query(arguments)
        case "serve":
            from ottla.streams.serving import StoreServer

            server = StoreServer(_app(arguments), arguments.host, arguments.port, arguments.bootstrap)
            print(f"{server.url}/stores", flush=True)
            server.serve()
        case _:
            with Admin(client_settings(arguments)) as admin:
                _status(admin, arguments) if arguments.command == "status" else _reset(admin, arguments)
    return 0


def _with_file(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    parser = add_command(commands, name, text, _TIMEOUT_S)
    parser.add_argument("file", help="a Python file with an App at its top level")
    parser.add_argument("--app", help="which one, if the file has several")
    return parser


def _app(arguments: argparse.Namespace, path: str | None = None) -> Any:
    from ottla.streams.loading import load

    app = load(path or arguments.file, arguments.app)
    app.use(**_client(arguments))
    return app


def _client(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the command line chooses wins over the program's settings; the default of --timeout does not."""
    settings = client_settings(arguments)
    chosen = with_file(profile_settings(arguments.profile), arguments) | pairs(arguments.X)
    if arguments.timeout == _TIMEOUT_S and _TIMEOUT not in chosen:
        del settings[_TIMEOUT]
    return settings


def _run(arguments: argparse.Namespace) -> None:
    import ottla.spark
    from ottla.streams.loading import ship
    from ottla.streams.serving import StoreServer

    app = _app(arguments)
    app.pipeline()  # what is wrong is told before Spark starts
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    settings = {"spark.master": arguments.master} if arguments.master else None
    spark = ottla.spark.session(app.name, settings=settings)
    ship()
    serving = StoreServer(app, port=arguments.serve) if arguments.serve is not None else nullcontext()
    try:
        with serving:
            app.run(
                spark,
                state_dir=arguments.state_dir,
                once=arguments.once,
                tasks=arguments.tasks,
                trigger=arguments.trigger,
                stop=stop,
            )
    finally:
        spark.stop()


def _status(admin: Admin, arguments: argparse.Namespace) -> None:
    tasks = status.status(admin, _name(arguments))
    rows = [(*row(task), _errors(task)) for task in tasks]
    show(arguments, (*COLUMNS, "ERRORS"), rows)


def _errors(task: status.TaskStatus) -> int:
    return sum(count for name, count in task.commit.figures.shown.items() if name.startswith("errors"))


def _reset(admin: Admin, arguments: argparse.Namespace) -> None:
    reset(admin, _name(arguments), execute=arguments.execute)


def _name(arguments: argparse.Namespace) -> str:
    if Path(arguments.name).suffix == ".py":
        return str(_app(arguments, arguments.name).name)
    return str(arguments.name)


def _query(arguments: argparse.Namespace) -> None:
    from ottla.streams.serving import Stores, to_json

    names = {"first": arguments.first, "last": arguments.last, "from": arguments.from_, "to": arguments.to}
    query = {name: text for name, text in names.items() if text is not None} | {"limit": arguments.limit}
    path = f"/stores/{arguments.store}" + (f"/{arguments.key}" if arguments.key is not None else "")
    try:
        answer = Stores(_app(arguments)).answer(path, query)
    except LookupError as error:
        raise ValueError(f"store {arguments.store} has no {error.args[0]}") from None
    if arguments.json:
        show_json(answer)
    elif isinstance(answer, dict):
        print(to_json(answer["value"]))
    else:
        columns = list(answer[0]) if answer else ["key", "value"]
        cells = [
            [cell if isinstance(cell, int | str) else to_json(cell) for cell in row.values()]
            for row in answer
        ]
        show(arguments, [name.upper().replace("_MS", "") for name in columns], cells)
