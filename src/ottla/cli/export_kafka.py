"""`ottla export-kafka`: give the data of a stopped broker to Apache Kafka."""

import argparse

from ottla.cli.import_kafka import zookeeper_config
from ottla.migration import exporting
from ottla.migration.exporting import Address
from ottla.server.disk import OsDisk
from ottla.storage.checkpoints import read_meta

DEFAULT_CONTROLLER = "localhost:9093"  # as in Apache Kafka's own config/server.properties


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        dest="sources",
        action="append",
        required=True,
        metavar="DIR",
        help="a log folder, only read; once for each log folder of each broker, that with metadata/ first",
    )
    parser.add_argument(
        "--to",
        required=True,
        metavar="DIR",
        help="the new folder, for log.dirs of Apache Kafka 4.3; of several brokers each gets DIR/broker-ID",
    )
    parser.add_argument(
        "--controller",
        dest="controllers",
        action="append",
        default=[],
        metavar="[ID@]HOST:PORT",
        help=f"address of the listener CONTROLLER; once for each controller (default: {DEFAULT_CONTROLLER})",
    )
    parser.add_argument(
        "--zookeeper",
        metavar="HOST:PORT,...[/PATH]",
        help="the ZooKeeper ensemble with the metadata of the cluster",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting for the way to ZooKeeper"
    )


def run(arguments: argparse.Namespace) -> int:
    meta = read_meta(OsDisk(arguments.sources[0]))
    first = meta.node_id if meta is not None else 0
    voters = dict(_voter(text, first) for text in arguments.controllers or [DEFAULT_CONTROLLER])
    plan = exporting.plan(arguments.sources, arguments.to, voters, zookeeper_config(arguments))
    exporting.run(plan, report=print)
    servers = ",".join(f"{address.host}:{address.port}" for address in voters.values())
    for broker in plan.brokers:
        print(
            f"for broker {broker.node_id} set: node.id={broker.node_id} log.dirs={broker.target} "
            f"controller.quorum.bootstrap.servers={servers} controller.listener.names=CONTROLLER"
        )
    return 0


def _voter(text: str, default_id: int) -> tuple[int, Address]:
    node_id, at, address = text.rpartition("@")
    host, _, port = address.rpartition(":")
    if (at and not node_id.isdecimal()) or not host or not port.isdecimal():
        raise ValueError(f"--controller {text}: not ID@HOST:PORT, such as 1@localhost:9093")
    return (int(node_id) if at else default_id), Address(host.strip("[]"), int(port))
