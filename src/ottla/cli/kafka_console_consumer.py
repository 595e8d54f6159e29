"""`ottla kafka-console-consumer`: records to standard output, with Apache Kafka's flags and its output."""

import argparse
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from ottla.cli.kafka_formatters import formatter_for
from ottla.cli.kafka_options import add_bootstrap, say, settings
from ottla.cli.leaving import leave_on_sigterm
from ottla.cli.options import UsageError, pairs
from ottla.client import Consumer
from ottla.client.values import ConsumerRecord

Write = Callable[[ConsumerRecord], bytes]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser)
    parser.add_argument("--topic")
    parser.add_argument("--include", "--whitelist", help="a regular expression of topics")
    parser.add_argument("--partition", type=int)
    parser.add_argument("--offset", help="earliest, latest (the default) or a number; needs --partition")
    parser.add_argument("--from-beginning", action="store_true")
    parser.add_argument("--max-messages", type=int, default=-1)
    parser.add_argument("--timeout-ms", type=int, default=-1, help="stop when nothing came for so long")
    parser.add_argument("--group")
    parser.add_argument("--isolation-level", choices=["read_committed", "read_uncommitted"])
    parser.add_argument(
        "--formatter",
        help="DefaultMessageFormatter, NoOpMessageFormatter, LoggingMessageFormatter, OffsetsMessageFormatter",
    )
    parser.add_argument(
        "--property",
        "--formatter-property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="print.timestamp, print.key, print.value, print.offset, print.partition, print.headers, "
        "print.delivery, print.epoch, key.separator, line.separator, headers.separator, null.literal",
    )
    parser.add_argument("--key-deserializer")
    parser.add_argument("--value-deserializer")
    parser.add_argument("--skip-message-on-error", action="store_true")
    parser.add_argument("--enable-systest-events", action="store_true", help="accepted; has no effect")
    parser.add_argument("--formatter-config", metavar="FILE")
    parser.add_argument(
        "--consumer-property", "--command-property", action="append", default=[], metavar="NAME=VALUE"
    )
    parser.add_argument("--consumer.config", dest="consumer_config", metavar="FILE")


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    write = formatter_for(arguments)
    leave_on_sigterm()
    count = 0
    code = 0
    with Consumer(_settings(arguments)) as consumer:
        _place(consumer, arguments)
        try:
            for record in _records(consumer, arguments):
                count += 1
                try:
                    sys.stdout.buffer.write(write(record))
                except ValueError as error:
                    if not arguments.skip_message_on_error:
                        raise
                    say(f"ERROR Error processing message, skipping this message: {error}")
        except KeyboardInterrupt:
            code = 130
        sys.stdout.buffer.flush()
        say(f"Processed a total of {count} messages")
    return code


def _check(arguments: argparse.Namespace) -> None:
    if (arguments.topic is None) == (arguments.include is None):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if arguments.partition is not None and arguments.topic is None:
        raise UsageError("The topic is required when partition is specified.")
    if arguments.partition is None and arguments.offset is not None:
        raise UsageError("The partition is required when offset is specified.")
    if arguments.from_beginning and arguments.offset is not None:
        raise UsageError("Options from-beginning and offset cannot be specified together.")


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    arguments.command_config = arguments.command_config or arguments.consumer_config
    config = settings(arguments, client_id="console-consumer")
    properties = pairs(arguments.consumer_property)
    named = {
        group for group in (arguments.group, properties.get("group.id"), config.get("group.id")) if group
    }
    if len(named) > 1:
        raise UsageError(f"--group and the properties do not agree on the group: {', '.join(sorted(named))}")
    if arguments.isolation_level:
        config["isolation.level"] = arguments.isolation_level
    config |= properties
    reset = config.setdefault("auto.offset.reset", "earliest" if arguments.from_beginning else "latest")
    if arguments.from_beginning and reset != "earliest":
        raise UsageError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
            "please remove one option"
        )
    if arguments.group:
        config["group.id"] = arguments.group
    if "group.id" not in config and arguments.partition is None:
        # As Kafka's tool: a group that nobody comes back to need not commit.
        config["group.id"] = f"console-consumer-{random.randrange(100_000)}"
        config.setdefault("enable.auto.commit", False)
    return config


def _place(consumer: Consumer, arguments: argparse.Namespace) -> None:
    if arguments.partition is None:
        if arguments.include:
            consumer.subscribe(pattern=arguments.include)
        else:
            consumer.subscribe(arguments.topic)
        return
    where = (arguments.topic, arguments.partition)
    consumer.assign([where])
    if arguments.offset is not None and arguments.offset.isdecimal():
        consumer.seek(where, int(arguments.offset))
    elif arguments.offset == "earliest" or arguments.from_beginning:
        consumer.seek_to_beginning()
    elif arguments.offset in (None, "latest"):
        consumer.seek_to_end()
    else:
        raise UsageError(
            f"The provided offset value '{arguments.offset}' is incorrect. Valid values are 'earliest', "
            "'latest', or a non-negative long."
        )


def _records(consumer: Consumer, arguments: argparse.Namespace) -> Any:
    """One at a time, so that what is committed at the end is what was printed."""
    remaining = arguments.max_messages
    heard = time.monotonic()
    while remaining:
        records = consumer.poll(0.2, max_records=1)
        if records:
            heard = time.monotonic()
            remaining -= 1
            yield from records
            continue
        sys.stdout.buffer.flush()
        if 0 <= arguments.timeout_ms <= (time.monotonic() - heard) * 1000:
            say(
                "ERROR Error processing message, terminating consumer process: "
                "org.apache.kafka.common.errors.TimeoutException"
            )
            return
