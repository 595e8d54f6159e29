"""`ottla doctor`: why a client cannot connect, what is open, whether a folder is sound, whether the limits suffice."""

import argparse
import os
import resource
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from ottla.broker.assembly import METADATA_FOLDER
from ottla.cli.options import add_timeout_option
from ottla.cli.tables import GREEN, RED, painted
from ottla.client import Admin
from ottla.client.settings import read_properties as client_properties
from ottla.config.exposure import exposures
from ottla.config.settings import Config, read_properties
from ottla.errors import OttlaError
from ottla.server.disk import OsDisk
from ottla.server.lock import is_locked
from ottla.storage.doctor import check_folder
from ottla.storage.ownership import contents
from ottla.wire.kernel import COMPILED

SPARE_BYTES_MIN = 1 << 30
HANDLES_MIN = 4096
CONNECT_S_MAX = 5
FILES_PER_PARTITION = 2
_SHOWN = (
    "listeners",
    "listener.security.protocol.map",
    "authorizer.class.name",
    "super.users",
    "allow.everyone.if.no.acl.found",
    "zookeeper.connect",
    "zookeeper.set.acl",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-b",
        "--bootstrap",
        default=os.environ.get("OTTLA_BOOTSTRAP"),
        metavar="HOST:PORT",
        help="a broker to ask",
    )
    add_timeout_option(parser)
    parser.add_argument("--command-config", metavar="FILE", help="client settings, name=value lines")
    parser.add_argument("--data", metavar="DIR", help="a log folder to look at")
    parser.add_argument(
        "--config", metavar="FILE", help="a broker's property file; reports what it leaves unprotected"
    )
    parser.add_argument("--deep", action="store_true", help="check every batch and index in the folder")


def run(arguments: argparse.Namespace) -> int:
    if not arguments.bootstrap and not arguments.data and not arguments.config:
        arguments.bootstrap = "127.0.0.1:9092"
    bad = 0
    for well, text in _checks(arguments):
        bad += not well
        print(f"{painted('ok ', GREEN) if well else painted('BAD', RED)} {text}")
    if bad:
        print("1 problem" if bad == 1 else f"{bad} problems", file=sys.stderr)
    return 1 if bad else 0


def _checks(arguments: argparse.Namespace) -> Iterator[tuple[bool, str]]:
    yield _kernel()
    partitions = None
    if arguments.data:
        yield from _folder(arguments.data, arguments.deep)
        partitions = sum(1 for folder in Path(arguments.data).glob("*-*") if folder.is_dir())
    if arguments.config:
        yield from _file(arguments.config)
    if arguments.bootstrap:
        yield from _port(arguments.bootstrap, _client(arguments), arguments.timeout)
    yield from _limits(partitions)


def _kernel() -> tuple[bool, str]:
    if COMPILED:
        return True, "the C kernel is there"
    return False, "the C kernel is missing: install again where there is a C compiler (gcc or clang)"


def _folder(data: str, deep: bool) -> Iterator[tuple[bool, str]]:
    if not Path(data).is_dir():
        yield False, f"{data}: no such folder"
        return
    yield os.access(data, os.W_OK), f"{data}: may be written to"
    free = shutil.disk_usage(data).free
    yield free >= SPARE_BYTES_MIN, f"{data}: {free >> 20} MiB free"
    disk = OsDisk(data)
    inside = contents(disk)
    if inside.of_kafka:
        yield (
            False,
            (
                f"{data}: a log folder of Apache Kafka ({inside}); a broker refuses to start on it. "
                f"To use its data, run: ottla import-kafka --from {data} --data NEW_FOLDER"
            ),
        )
        if not deep:
            return  # marks and checkpoints are for the next start, which is Kafka's
    elif inside.is_used and not disk.exists(METADATA_FOLDER):
        yield (
            True,
            (
                f"{data}: {inside}, without {METADATA_FOLDER}/: right for a broker of a cluster or a second log "
                "folder; a broker without ZooKeeper refuses to start on it alone"
            ),
        )
    if is_locked(data):
        if deep:
            yield False, f"{data}: a broker uses it; stop it before a deep check"
            return
        yield True, f"{data}: in use by a running broker"
        return
    count = 0
    for finding in check_folder(disk, deep, others=(METADATA_FOLDER,)):
        count += 1
        yield False, str(finding)
    if not count:
        yield True, f"{data}: {'every batch and index' if deep else 'marks and checkpoints'} in order"


def _client(arguments: argparse.Namespace) -> dict[str, str]:
    path = arguments.command_config
    settings = client_properties(Path(path).read_text()) if path else {}
    timeout_ms = str(max(1, round(arguments.timeout * 1000)))
    return {"default.api.timeout.ms": timeout_ms, **settings, "bootstrap.servers": arguments.bootstrap}


def _file(path: str) -> Iterator[tuple[bool, str]]:
    """Of a broker that need not run."""
    try:
        config = Config(read_properties(Path(path).read_text()))
    except (OSError, OttlaError) as error:
        yield False, f"{path}: {error}"
        return
    yield from _exposed(path, list(exposures(config)))


def _exposed(where: str, exposures: list[str]) -> Iterator[tuple[bool, str]]:
    for exposure in exposures:
        yield False, f"{where}: open: {exposure}"
    if not exposures:
        yield True, f"{where}: nothing is open to other machines without a login"


def _running(admin: Admin, broker_id: int) -> Iterator[tuple[bool, str]]:
    where = f"broker {broker_id}"
    try:
        shown = admin.describe_configs("broker", str(broker_id), keys=_SHOWN)
        chosen = {name: config.value for name, config in shown.items() if config.source != "DEFAULT_CONFIG"}
        config = Config({name: value for name, value in chosen.items() if value is not None})
    except OttlaError as error:
        yield True, f"{where}: its settings are not shown, so that what is open is not known ({error})"
        return
    yield from _exposed(where, list(exposures(config, is_whole=False)))


def _port(bootstrap: str, client: dict[str, str], timeout_s: float) -> Iterator[tuple[bool, str]]:
    host, _, port = bootstrap.rpartition(":")
    try:
        _connect(host, int(port), timeout_s)
    except (OSError, ValueError) as error:
        yield False, f"{bootstrap}: cannot connect ({error}): is a broker running, on this port?"
        return
    yield True, f"{bootstrap}: accepts connections"
    try:
        with Admin(client) as admin:
            brokers = admin.describe_cluster().brokers
            for broker in brokers:
                reachable = _reachable(broker.host, broker.port, broker.id, timeout_s)
                yield reachable
                if reachable[0]:
                    yield from _running(admin, broker.id)
    except OttlaError as error:
        yield False, f"{bootstrap}: does not answer as a Kafka broker: {error}"


def _connect(host: str, port: int, timeout_s: float) -> None:
    socket.create_connection((host, port), timeout=min(CONNECT_S_MAX, timeout_s)).close()


def _reachable(host: str, port: int, broker_id: int, timeout_s: float) -> tuple[bool, str]:
    """Clients connect to what a broker advertises, not to the address they began with."""
    at = f"broker {broker_id} is told to clients as {host}:{port}"
    try:
        _connect(host, port, timeout_s)
    except OSError as error:
        return False, (
            f"{at}, which cannot be reached from here ({error}). Set advertised.listeners to an address "
            "that clients can reach."
        )
    return True, f"{at}: reachable from here"


def _limits(partitions: int | None) -> Iterator[tuple[bool, str]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = HANDLES_MIN if partitions is None else HANDLES_MIN + partitions * FILES_PER_PARTITION
    purpose = "" if partitions is None else f" for {partitions} partitions"
    yield soft >= wanted, f"{soft} file handles (limit {hard}), {wanted} wanted{purpose}"
