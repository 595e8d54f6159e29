"""`ottla connectors`: for people what REST is for programs. Works with any Kafka Connect."""

import argparse
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.cli.options import Commands, UsageError, add_json_option, add_timeout_option, pairs
from ottla.cli.tables import show, show_json
from ottla.errors import OttlaError

URL = "http://127.0.0.1:8083"
TIMEOUT_S = 90  # Java's workers give an answer or an error within that


class ConnectAnswer(OttlaError):
    """The worker refused, or does not answer."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _command(commands, "list", "connectors and what they are doing", named=False)
    _command(commands, "status", "a connector and its tasks; failed ones with their reason")
    create = _command(
        commands, "create", "a connector from a file (.json, .properties) or NAME=VALUE ...", named=False
    )
    create.add_argument("what", nargs="+", metavar="FILE|NAME=VALUE")
    config = _command(
        commands, "config", "show the settings, or change some: NAME=VALUE ..., NAME= removes one"
    )
    config.add_argument("changes", nargs="*", metavar="NAME=VALUE")
    for name, text in (
        ("pause", "stop reading for now"),
        ("resume", "go on"),
        ("stop", "end its tasks; needed before offsets are changed"),
        ("restart", "start its tasks again"),
        ("delete", "remove it; its offsets stay"),
    ):
        _command(commands, name, text)
    offsets = _command(commands, "offsets", "how far it has come")
    offsets.add_argument("--reset", action="store_true", help="forget them: the connector begins again")
    _command(commands, "plugins", "connectors that there are", named=False)
    _command(commands, "validate", "check a file without creating anything", named=False).add_argument(
        "what", nargs="+", metavar="FILE|NAME=VALUE"
    )


def _command(commands: Commands, name: str, text: str, *, named: bool = True) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    default = os.environ.get("OTTLA_CONNECT") or URL
    parser.add_argument(
        "-u", "--url", default=default, help=f"of a worker (default: $OTTLA_CONNECT, else {URL})"
    )
    add_timeout_option(parser, TIMEOUT_S)
    add_json_option(parser)
    if named:
        parser.add_argument("name")
    return parser


def run(arguments: argparse.Namespace) -> int:
    worker = Worker(arguments.url, arguments.timeout)
    command: str = arguments.command
    if command in ("pause", "resume", "stop"):
        worker.ask("PUT", f"/connectors/{_quoted(arguments.name)}/{command}")
    elif command == "restart":
        worker.ask("POST", f"/connectors/{_quoted(arguments.name)}/restart?includeTasks=true")
    elif command == "delete":
        worker.ask("DELETE", f"/connectors/{_quoted(arguments.name)}")
    else:
        return _SHOWN[command](worker, arguments) or 0
    print(f"{arguments.name}: {command}")
    return 0


class Worker:
    def __init__(self, url: str, timeout_s: float) -> None:
        self._url, self._timeout_s = url.rstrip("/"), timeout_s

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
                text = response.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            raise ConnectAnswer(_message(error)) from None
        except OSError as error:
            raise ConnectAnswer(
                f"no worker answers at {self._url} ({error}); start one with ottla connect, or name it with --url"
            ) from None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}"


def _list(worker: Worker, arguments: argparse.Namespace) -> None:
    connectors = worker.ask("GET", "/connectors?expand=info&expand=status")
    rows = []
    for name, parts in sorted(connectors.items()):
        tasks = parts["status"]["tasks"]
        running = sum(task["state"] == "RUNNING" for task in tasks)
        kind, class_name = parts["info"]["type"], parts["info"]["config"].get("connector.class", "")
        state = parts["status"]["connector"]["state"]
        failed = [task["id"] for task in tasks if task["state"] == "FAILED"]
        rows.append(
            (name, kind, class_name.rpartition(".")[2], state, f"{running}/{len(tasks)}", failed or None)
        )
    show(arguments, ("CONNECTOR", "TYPE", "CLASS", "STATE", "RUNNING", "FAILED"), rows)


def _status(worker: Worker, arguments: argparse.Namespace) -> None:
    status = worker.ask("GET", f"/connectors/{_quoted(arguments.name)}/status")
    if arguments.json:
        show_json(status)
        return
    parts = [("connector", status["connector"]), *((f"task {task['id']}", task) for task in status["tasks"])]
    rows = [(label, part["state"], part["worker_id"], _reason(part.get("trace"))) for label, part in parts]
    show(arguments, ("WHAT", "STATE", "WORKER", "REASON"), rows)


def _reason(trace: str | None) -> str | None:
    """The last line of a Python trace; the first of a Java one."""
    if not trace:
        return None
    lines = trace.strip().splitlines()
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]


def _create(worker: Worker, arguments: argparse.Namespace) -> None:
    name, config = _name_and_settings(arguments.what)
    created = worker.ask("POST", "/connectors", {"name": name, "config": config})
    show_json(created) if arguments.json else print(f"created {created['type']} {created['name']}")


def _config(worker: Worker, arguments: argparse.Namespace) -> None:
    path = f"/connectors/{_quoted(arguments.name)}/config"
    changes: dict[str, str | None] = {name: value or None for name, value in pairs(arguments.changes).items()}
    settings = worker.ask("PATCH", path, changes)["config"] if changes else worker.ask("GET", path)
    show(arguments, ("SETTING", "VALUE"), sorted(settings.items()))


def _offsets(worker: Worker, arguments: argparse.Namespace) -> None:
    path = f"/connectors/{_quoted(arguments.name)}/offsets"
    if arguments.reset:
        print(worker.ask("DELETE", path)["message"])
        return
    rows = [
        (json.dumps(entry["partition"]), json.dumps(entry["offset"]))
        for entry in worker.ask("GET", path)["offsets"]
    ]
    show(arguments, ("PARTITION", "OFFSET"), rows)


def _plugins(worker: Worker, arguments: argparse.Namespace) -> None:
    plugins = worker.ask("GET", "/connector-plugins")
    show(arguments, ("TYPE", "CLASS"), [(plugin["type"], plugin["class"]) for plugin in plugins])


def _validate(worker: Worker, arguments: argparse.Namespace) -> int:
    """1 if there are problems."""
    name, config = _name_and_settings(arguments.what)
    class_name = _quoted(config.get("connector.class") or "")
    checked = worker.ask("PUT", f"/connector-plugins/{class_name}/config/validate", {**config, "name": name})
    wrong = [
        (setting["value"]["name"], error)
        for setting in checked["configs"]
        for error in setting["value"]["errors"]
    ]
    show(arguments, ("SETTING", "PROBLEM"), wrong)
    return 1 if wrong else 0


def _name_and_settings(words: list[str]) -> tuple[str, dict[str, str]]:
    """A file, and settings that win over it."""
    from ottla.cli.connect import connector_of

    files = [word for word in words if "=" not in word]
    if len(files) > 1:
        raise UsageError("one file at a time")
    name, config = connector_of(Path(files[0])) if files else ("", {})
    config |= pairs(word for word in words if "=" in word)
    name = config.get("name") or name
    if not name:
        raise UsageError("the connector has no name; add name=...")
    return name, {**config, "name": name}


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


_SHOWN: dict[str, Callable[[Worker, argparse.Namespace], int | None]] = {
    "list": _list, "status": _status, "create": _create, "config": _config, "offsets": _offsets, "plugins": _plugins,
    "validate": _validate,
}  # fmt: skip
