"""`ottla start`: a broker in this process, until SIGTERM or SIGINT."""

import argparse
import asyncio
import logging
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.cli import beside
from ottla.config.listeners import open_doors
from ottla.config.settings import Config, read_assignments, read_properties
from ottla.errors import OttlaError
from ottla.ports import Disk
from ottla.server.control import Control
from ottla.server.trim import share_heap
from ottla.wire.kernel import COMPILED

if TYPE_CHECKING:
    from ottla.server.node import Node

log = logging.getLogger("ottla.server")

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 9092
SWITCH_S = 0.0005  # for which a thread may keep the event loop waiting; ten times as long by default


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_broker(parser)
    _add_pages(parser)
    _add_beside(parser)
    _add_logging(parser)


def _add_broker(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port; 0 picks one (default: 9092)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--data", metavar="DIR", help="log folder (default: ottla-data)")
    where.add_argument("--memory", action="store_true", help="keep everything in memory")
    parser.add_argument("--broker-id", type=int, metavar="N", help="this broker's number in its cluster")
    parser.add_argument(
        "--zookeeper",
        metavar="HOST:PORT,...",
        help="join the cluster whose metadata this ZooKeeper ensemble keeps",
    )
    parser.add_argument("--config", metavar="FILE", help="a property file with Kafka's names")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="one setting; wins over FILE"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="no warning if other machines get in without a login"
    )


def _add_pages(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        type=_http_address,
        metavar="[HOST:]PORT",
        help="serve /metrics and /health here (host: 127.0.0.1)",
    )
    parser.add_argument("--http-certificate", metavar="FILE", help="PEM: serve these pages with TLS")
    parser.add_argument("--http-key", metavar="FILE", help="PEM: the certificate's key")
    parser.add_argument(
        "--http-users", metavar="FILE", help="NAME:HASH lines: /metrics asks for a login (/health does not)"
    )


def _add_beside(parser: argparse.ArgumentParser) -> None:
    """Settings of the environment, and what runs in processes beside the broker."""
    parser.add_argument(
        "--environment",
        action="store_true",
        help="take settings from KAFKA_* and OTTLA_* variables too, as in a container",
    )
    parser.add_argument(
        "--console",
        type=int,
        nargs="?",
        const=8181,
        metavar="PORT",
        help="show the cluster in the browser, from a process beside this one (port: 8181; 0 picks one)",
    )
    parser.add_argument("--open", action="store_true", help="with --console: open it in the browser")
    parser.add_argument(
        "--registry",
        type=int,
        nargs="?",
        const=8081,
        metavar="PORT",
        help="serve a schema registry, from a process beside this one (port: 8081; 0 picks one)",
    )


def _add_logging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"], help="default: INFO"
    )
    parser.add_argument(
        "--log-format",
        default="text",
        choices=["text", "json"],
        help="lines for people, or JSON (default: text)",
    )


def _http_address(text: str) -> tuple[str, int]:
    """Loopback unless told otherwise, wherever clients connect: the pages ask for no login."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not [HOST:]PORT; 9464 or 0.0.0.0:9464 would do")
    return host.strip("[]") or DEFAULT_HOST, int(port)


def run(arguments: argparse.Namespace) -> int:
    _begin_to_log(arguments.log_level, arguments.log_format)
    raise_handle_limit()
    try:
        config = configured(arguments)
        beside.check(config, arguments)
        for name in config.ignored:
            log.warning("%s is a setting of Apache Kafka that has no effect here", name)
        _tell_of_slowness()
        share_heap()
        sys.setswitchinterval(SWITCH_S)
        if not arguments.insecure:
            for warning in open_doors(config):
                print(f"WARNING: {warning}", file=sys.stderr)
        run_loop(serve(config, arguments))
    except (OttlaError, OSError) as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    return 0


def _begin_to_log(level: str, form: str) -> None:
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if form == "json":
        from ottla.server.json_logs import JsonFormatter

        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonFormatter())


def _tell_of_slowness() -> None:
    if not COMPILED:
        log.warning("the C kernel is missing, and without it the broker is many times slower (ottla doctor)")


def configured(arguments: argparse.Namespace) -> Config:
    """`--set` wins over the other options, these over variables, these over the file, and that over the defaults."""
    settings = _read_file(arguments.config) if arguments.config else {}
    if arguments.environment:
        from ottla.cli.container import take_environment

        settings = take_environment(arguments, settings)
    if arguments.host is not None or arguments.port is not None or "listeners" not in settings:
        host = DEFAULT_HOST if arguments.host is None else arguments.host
        port = DEFAULT_PORT if arguments.port is None else arguments.port
        settings["listeners"] = f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}"
    if arguments.data:
        settings["log.dirs"] = arguments.data
    if arguments.broker_id is not None:
        settings["node.id"] = str(arguments.broker_id)
    if arguments.zookeeper:
        settings["zookeeper.connect"] = arguments.zookeeper
    settings |= read_assignments(arguments.set)
    options = os.environ.get("KAFKA_OPTS")
    if options:
        from ottla.config.java_logins import java_logins

        settings |= java_logins(options, settings)
    return Config(settings)


def _read_file(path: str) -> dict[str, str]:
    with open(path) as file:  # noqa: PTH123 - pathlib is not needed elsewhere on the way to a broker
        return read_properties(file.read())


def raise_handle_limit() -> None:
    """Up to what the system lets us have: partitions and connections each take a file handle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run_loop(main: "asyncio._CoroutineLike[None]") -> None:
    """On uvloop where there is one: it is twice as quick with many small requests."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)  # type: ignore[arg-type]
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main)  # type: ignore[arg-type]


async def serve(config: Config, arguments: argparse.Namespace) -> None:
    from ottla.server.node import Node, memory_disk

    disks: list[Disk] | None = [memory_disk()] if arguments.memory else None
    node = Node(config, disks=disks)
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    pages: str | None = None
    if arguments.http is not None:
        pages = await _serve_pages(node, arguments)
    starting = asyncio.ensure_future(node.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():  # it may wait long for its cluster
        starting.cancel()
        return
    await starting
    node.collect_garbage()
    node.give_memory_back()
    node.warm_up()
    control = None if arguments.memory else Control(node)
    if control is not None:
        await control.start()
    address = f"{node.endpoints[0].host}:{node.listeners[0].port}"
    print(f"ready {address}", flush=True)
    children = await beside.start(address, arguments, pages)
    tell_service_manager("READY=1")
    if arguments.environment:
        from ottla.cli.container import create_topics

        creating = asyncio.ensure_future(create_topics(node, arguments.topics))
        stopping.add_done_callback(lambda _: creating.cancel())
    await stop.wait()
    tell_service_manager("STOPPING=1")
    await beside.stop(children)
    if control is not None:
        await control.stop()
    await node.stop()


async def _serve_pages(node: "Node", arguments: argparse.Namespace) -> str | None:
    """Where they are, for a console beside; None where it could not get in."""
    host, port = arguments.http
    tls, users = None, None
    if arguments.http_certificate or arguments.http_key:
        import ssl

        if not (arguments.http_certificate and arguments.http_key):
            raise OttlaError("--http-certificate and --http-key go together")
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(arguments.http_certificate, arguments.http_key)
    if arguments.http_users:
        from ottla.security.passwords import read_users

        with open(arguments.http_users) as file:  # noqa: PTH123 - as above
            users = read_users(file.read())
    pages = f"{host}:{await node.serve_pages(host, port, tls=tls, users=users)}"
    print(f"http {pages}", file=sys.stderr, flush=True)
    return pages if tls is None and users is None else None


def tell_service_manager(state: str) -> None:
    """As systemd wants it from a service of Type=notify: a datagram to the socket that it named."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        sender.sendall(state.encode())
