"""`ottla import-kafka`: go on with the data of a stopped Apache Kafka."""

import argparse

from ottla.config.settings import Config, read_assignments
from ottla.migration import importing
from ottla.migration.refusals import CannotImport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="sources",
        action="append",
        required=True,
        metavar="DIR",
        help="a log folder of Apache Kafka 4 (KRaft), only read; once for each log folder of each broker",
    )
    parser.add_argument(
        "--data",
        required=True,
        metavar="DIR",
        help="the new folder; of several brokers each gets DIR/broker-ID",
    )
    parser.add_argument(
        "--zookeeper",
        metavar="HOST:PORT,...[/PATH]",
        help="where the metadata of several brokers goes; must hold no cluster yet",
    )
    parser.add_argument("--dry-run", action="store_true", help="check everything, and copy nothing")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting for the way to ZooKeeper"
    )


def run(arguments: argparse.Namespace) -> int:
    plan = importing.plan(arguments.sources, arguments.data)
    if len(plan.brokers) > 1 and not arguments.zookeeper:
        raise CannotImport(f"{len(plan.brokers)} brokers need ZooKeeper for their metadata: add --zookeeper")
    if arguments.dry_run:
        for broker in plan.brokers:
            print(f"broker {broker.node_id}: {broker.size_bytes >> 20} MiB can go to {broker.target}")
        return 0
    importing.run(plan, zookeeper=zookeeper_config(arguments), report=print)
    for broker in plan.brokers:
        zookeeper = f" --zookeeper {arguments.zookeeper}" if arguments.zookeeper else ""
        print(f"start it with: ottla start --data {broker.target} --broker-id {broker.node_id}{zookeeper}")
    return 0


def zookeeper_config(arguments: argparse.Namespace) -> Config | None:
    if not arguments.zookeeper:
        return None
    return Config(
        {"node.id": "0", "zookeeper.connect": arguments.zookeeper, **read_assignments(arguments.set)}
    )
