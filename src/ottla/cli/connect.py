"""`ottla connect`: a worker that runs connectors and answers on port 8083, standalone or one of several."""

import argparse
import json
import logging
import os
import signal
import threading
from pathlib import Path

from ottla.cli.options import UsageError, pairs
from ottla.client.settings import read_properties

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="worker.properties, then connectors (.properties or .json). A first file with a connector.class is a "
        "connector",
    )
    parser.add_argument(
        "--distributed", action="store_true", help="one of several workers: configs in a topic"
    )
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        help="bootstrap.servers of the worker (else those of its file, else $OTTLA_BOOTSTRAP)",
    )
    parser.add_argument("--port", type=int, help="of the REST API (8083)")
    parser.add_argument("--runner", choices=("spark", "process"), help="where connectors run (spark)")
    parser.add_argument(
        "-X", action="append", default=[], metavar="NAME=VALUE", help="a setting of the worker"
    )
    parser.add_argument("--log-level", choices=tuple(LEVELS), default="info")


def run(arguments: argparse.Namespace) -> int:
    logging.basicConfig(
        level=LEVELS[arguments.log_level], format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)  # every call to the JVM is news to it
    worker_file, connector_files = _sorted(arguments.files)
    settings = read_properties(worker_file.read_text()) if worker_file else {}
    settings |= pairs(arguments.X)
    if arguments.bootstrap:
        settings["bootstrap.servers"] = arguments.bootstrap
    elif "OTTLA_BOOTSTRAP" in os.environ:
        settings.setdefault("bootstrap.servers", os.environ["OTTLA_BOOTSTRAP"])
    if arguments.port is not None:
        settings["listeners"] = f"http://:{arguments.port}"
    if arguments.runner:
        settings["ottla.runner"] = arguments.runner
    if arguments.distributed and connector_files:
        raise UsageError("distributed workers take connectors by REST alone: ottla connectors create FILE")
    connectors = dict(connector_of(path) for path in connector_files)
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    return _serve(settings, connectors, arguments.distributed, stopping)


def _serve(
    worker_settings: dict[str, str],
    connectors: dict[str, dict[str, str]],
    distributed: bool,
    stopping: threading.Event,
) -> int:
    from ottla.connect.worker.settings import WorkerSettings

    settings = WorkerSettings.parse(worker_settings, distributed=distributed)
    if distributed:
        from ottla.connect.worker.distributed import Distributed

        worker = Distributed(settings)
        try:
            worker.start()
            print(f"Connect {settings['group.id']} listens on port {worker.port}", flush=True)
            worker.run(stopping)
        finally:
            worker.close()
        return 0
    from ottla.connect.worker.standalone import Standalone

    alone = Standalone(settings)
    try:
        alone.start(connectors)
        print(
            f"Connect listens on port {alone.port}; connectors: {', '.join(connectors) or 'none'}", flush=True
        )
        stopping.wait()
    finally:
        alone.close()
    return 0


def _sorted(files: list[Path]) -> tuple[Path | None, list[Path]]:
    if not files:
        return None, []
    first = files[0]
    if first.suffix == ".json" or "connector.class" in read_properties(first.read_text()):
        return None, files
    return first, files[1:]


def connector_of(path: Path) -> tuple[str, dict[str, str]]:
    """Properties, or JSON: {"name", "config"} as for REST, or the config alone."""
    text = path.read_text()
    if path.suffix == ".json":
        document = json.loads(text)
        config = document.get("config", document)
        config = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in config.items()
        }
        name = document.get("name") or config.get("name")
    else:
        config = read_properties(text)
        name = config.get("name")
    if not name:
        raise UsageError(f"{path}: the connector has no name; add name=...")
    return str(name), {**config, "name": str(name)}
