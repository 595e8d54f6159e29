"""`ottla cluster start`: ZooKeeper and some brokers on this machine, to try things out. Ends with Control-C."""

import argparse
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ottla.cli.options import Commands
from ottla.ensemble import Ensemble

START_S = 60.0


def add_arguments(commands: Commands) -> None:
    parser = commands.add_parser("start", help="start ZooKeeper and brokers here, to try it out")
    parser.add_argument("--brokers", type=int, default=3, metavar="N", help="how many (default: 3)")
    parser.add_argument(
        "--data", metavar="DIR", help="where to keep it all (default: thrown away at the end)"
    )
    parser.add_argument(
        "--port", type=int, default=9092, help="of the first broker; the next ones follow (default: 9092)"
    )
    parser.add_argument("--zookeeper-port", type=int, default=2181, help="default: 2181")
    parser.add_argument(
        "--zookeepers",
        type=int,
        default=1,
        metavar="N",
        help="ZooKeeper servers, on consecutive ports (default: 1)",
    )
    parser.add_argument(
        "--zookeeper", metavar="HOST:PORT,...", help="use this ZooKeeper ensemble instead of starting one"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting for every broker"
    )
    parser.add_argument(
        "--http",
        type=int,
        metavar="PORT",
        help="/metrics and /health of the first broker; the next ones follow",
    )


def run(arguments: argparse.Namespace) -> int:
    stop = threading.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: stop.set())
    with _folder(arguments.data) as folder, _zookeeper(arguments, folder) as connect:
        brokers = [_broker(number, connect, folder, arguments) for number in range(1, arguments.brokers + 1)]
        try:
            addresses = [_ready(number, process) for number, process in enumerate(brokers, 1)]
            print(f"ready {','.join(addresses)}", flush=True)
            while not stop.wait(0.5):
                for number, process in enumerate(brokers, 1):
                    if process.poll() is not None and process.stdout is not None:
                        print(f"broker {number} is gone (exit code {process.returncode})", file=sys.stderr)
                        process.stdout = None
        finally:
            _stop(brokers)
    return 0


@contextmanager
def _folder(wanted: str | None) -> Iterator[Path]:
    if wanted is not None:
        path = Path(wanted)
        path.mkdir(parents=True, exist_ok=True)
        yield path.resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="ottla-cluster-") as path_text:
            yield Path(path_text)


@contextmanager
def _zookeeper(arguments: argparse.Namespace, folder: Path) -> Iterator[str]:
    if arguments.zookeeper:
        yield arguments.zookeeper
        return
    first = arguments.zookeeper_port
    ports = list(range(first, first + arguments.zookeepers))
    ensemble = Ensemble(folder, ports, _free_ports(2 * len(ports)) if len(ports) > 1 else ())
    try:
        ensemble.start()
        print(f"zookeeper {ensemble.connect}", file=sys.stderr, flush=True)
        yield ensemble.connect
    finally:
        ensemble.stop()


def _free_ports(count: int) -> list[int]:
    """Where the servers of ZooKeeper talk to each other; nobody else needs to know."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listening.getsockname()[1] for listening in sockets]


def _broker(
    number: int, connect: str, folder: Path, arguments: argparse.Namespace
) -> "subprocess.Popen[str]":
    replicas = min(3, arguments.brokers)
    settings = [
        f"default.replication.factor={replicas}",
        f"min.insync.replicas={max(1, replicas - 1)}",
        f"offsets.topic.replication.factor={replicas}",
        f"transaction.state.log.replication.factor={replicas}",
        f"transaction.state.log.min.isr={max(1, replicas - 1)}",
        f"share.coordinator.state.topic.replication.factor={replicas}",
        f"share.coordinator.state.topic.min.isr={max(1, replicas - 1)}",
        *arguments.set,
    ]
    with (folder / f"broker-{number}.log").open("a") as output:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "ottla", "start", "--broker-id", str(number)),
                *("--zookeeper", connect, "--data", str(folder / f"broker-{number}")),
                *("--port", str(arguments.port + number - 1 if arguments.port else 0)),
                *(part for setting in settings for part in ("--set", setting)),
                *(("--http", str(arguments.http + number - 1)) if arguments.http else ()),
            ],
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            start_new_session=True,
        )


def _ready(number: int, process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("ready "):
        raise OSError(f"broker {number} did not start: see broker-{number}.log")
    print(f"broker {number} {line.split()[1]} process {process.pid}", file=sys.stderr, flush=True)
    return line.split()[1]


def _stop(brokers: "list[subprocess.Popen[str]]") -> None:
    """One after the other, so that each can hand over what it leads."""
    for process in brokers:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
