"""`ottla transactions`: list, describe, find-hanging, abort."""

import argparse
import time

from ottla.cli.options import add_command, client_settings
from ottla.cli.tables import show
from ottla.cli.times import duration_ms, utc
from ottla.client import Admin
from ottla.client.values import TopicPartition


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listing = add_command(commands, "list", "transactional ids and their states")
    listing.add_argument(
        "--state", action="append", default=[], help="only in this state, for example Ongoing"
    )
    listing.add_argument("--producer-id", type=int, action="append", default=[])
    listing.add_argument("--longer-than", metavar="DURATION", help="only those open for so long: 90s, 1h")
    describe = add_command(commands, "describe", "one transaction with its partitions")
    describe.add_argument("id", nargs="+")
    hanging = add_command(commands, "find-hanging", "open transactions that no coordinator would end")
    hanging.add_argument("-t", "--topic", action="append", help="default: all topics")
    hanging.add_argument(
        "--max-transaction-timeout",
        default="15m",
        metavar="DURATION",
        help="younger ones may still end (15m)",
    )
    abort = add_command(commands, "abort", "end the open transaction that starts at an offset")
    abort.add_argument("-t", "--topic", required=True)
    abort.add_argument("-p", "--partition", type=int, required=True)
    abort.add_argument("--start-offset", type=int, required=True, help="as find-hanging shows it")


def run(arguments: argparse.Namespace) -> int:
    with Admin(client_settings(arguments)) as admin:
        match arguments.command:
            case "list":
                longer = duration_ms(arguments.longer_than) if arguments.longer_than else -1
                listed = admin.list_transactions(
                    states=arguments.state, producer_ids=arguments.producer_id, longer_than_ms=longer
                )
                rows = [(t.transactional_id, t.coordinator, t.producer_id, t.state) for t in listed]
                show(arguments, ("TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"), rows)
            case "describe":
                _describe(
                    arguments,
                    [admin.describe_transaction(transactional_id) for transactional_id in arguments.id],
                )
            case "find-hanging":
                older = duration_ms(arguments.max_transaction_timeout)
                hanging = admin.find_hanging_transactions(arguments.topic, older_than_ms=older)
                columns = (
                    "TOPIC", "PARTITION", "PRODUCER-ID", "PRODUCER-EPOCH", "COORDINATOR-EPOCH",
                    "START-OFFSET",
                    "LAST-TIMESTAMP", "TRANSACTIONAL-ID",
                )  # fmt: skip
                rows2 = [
                    (
                        *h.partition,
                        h.producer.producer_id,
                        h.producer.producer_epoch,
                        h.producer.coordinator_epoch,
                        h.producer.transaction_start_offset,
                        _time(h.producer.last_timestamp_ms),
                        h.transactional_id,
                    )
                    for h in hanging
                ]
                show(arguments, columns, rows2)
            case _:
                partition = TopicPartition(arguments.topic, arguments.partition)
                admin.abort_transaction(partition, arguments.start_offset)
                rows3 = [(*partition, arguments.start_offset, "ABORTED")]
                show(arguments, ("TOPIC", "PARTITION", "START-OFFSET", "STATUS"), rows3)
    return 0


def _describe(arguments: argparse.Namespace, transactions: list) -> None:  # type: ignore[type-arg]
    now_ms = int(time.time() * 1000)
    columns = (
        "TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "PRODUCER-EPOCH", "STATE", "TIMEOUT-MS", "STARTED",
        "OPEN-MS", "PARTITIONS",
    )  # fmt: skip
    rows = [
        (
            t.transactional_id,
            t.coordinator,
            t.producer_id,
            t.producer_epoch,
            t.state,
            t.timeout_ms,
            _time(t.start_time_ms),
            now_ms - t.start_time_ms if t.state == "Ongoing" else None,
            [str(p) for p in t.partitions],
        )
        for t in transactions
    ]
    show(arguments, columns, rows)


def _time(stamp_ms: int) -> str | None:
    if stamp_ms < 0:
        return None
    moment = utc(stamp_ms)
    return str(stamp_ms) if moment is None else moment.isoformat(timespec="milliseconds")
