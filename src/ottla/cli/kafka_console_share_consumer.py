"""`ottla kafka-console-share-consumer`: records of a share group to standard output, with Apache Kafka's flags."""

import argparse
import sys
import time
from collections.abc import Iterator

from ottla.cli.kafka_formatters import formatter_for
from ottla.cli.kafka_options import add_bootstrap, say, settings
from ottla.cli.leaving import leave_on_sigterm
from ottla.cli.options import UsageError, pairs
from ottla.client.share_consumer import Acknowledge, ShareConsumer
from ottla.client.values import ConsumerRecord

DEFAULT_GROUP = "console-share-consumer"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default=DEFAULT_GROUP)
    parser.add_argument("--max-messages", type=int, default=-1)
    parser.add_argument("--timeout-ms", type=int, default=-1, help="stop when nothing came for so long")
    parser.add_argument("--release", action="store_true", help="give every record back")
    parser.add_argument("--reject", action="store_true", help="reject every record")
    parser.add_argument("--formatter")
    parser.add_argument(
        "--property", "--formatter-property", action="append", default=[], metavar="NAME=VALUE"
    )
    parser.add_argument("--formatter-config", metavar="FILE")
    parser.add_argument("--key-deserializer")
    parser.add_argument("--value-deserializer")
    parser.add_argument("--reject-message-on-error", action="store_true")
    parser.add_argument("--enable-systest-events", action="store_true", help="accepted; has no effect")
    parser.add_argument(
        "--consumer-property", "--command-property", action="append", default=[], metavar="NAME=VALUE"
    )
    parser.add_argument("--consumer-config", metavar="FILE")


def run(arguments: argparse.Namespace) -> int:
    if arguments.release and arguments.reject:
        raise UsageError("At most one of --reject and --release may be specified.")
    write = formatter_for(arguments)
    arguments.command_config = arguments.command_config or arguments.consumer_config
    config = settings(arguments, client_id=DEFAULT_GROUP) | pairs(arguments.consumer_property)
    config |= {"group.id": arguments.group, "share.acknowledgement.mode": "explicit"}
    kind = Acknowledge.RELEASE if arguments.release else Acknowledge.ACCEPT
    kind = Acknowledge.REJECT if arguments.reject else kind
    leave_on_sigterm()
    count = code = 0
    with ShareConsumer(config, holds=True) as consumer:
        consumer.subscribe(arguments.topic)
        try:
            for record in _records(consumer, arguments):
                count += 1
                try:
                    sys.stdout.buffer.write(write(record))
                    consumer.acknowledge(record, kind)
                except ValueError as error:
                    if not arguments.reject_message_on_error:
                        raise
                    say(f"ERROR Error processing message, rejecting this message: {error}")
                    consumer.acknowledge(record, Acknowledge.REJECT)
        except KeyboardInterrupt:
            code = 130
        sys.stdout.buffer.flush()
        say(f"Processed a total of {count} messages")
    return code


def _records(consumer: ShareConsumer, arguments: argparse.Namespace) -> Iterator[ConsumerRecord]:
    """What is not printed any more goes back to the group when the consumer is closed."""
    remaining, heard = arguments.max_messages, time.monotonic()
    while remaining:
        for record in consumer.poll(0.2):
            heard = time.monotonic()
            remaining -= 1
            yield record
            if not remaining:
                return
        sys.stdout.buffer.flush()
        if 0 <= arguments.timeout_ms <= (time.monotonic() - heard) * 1000:
            say(
                "ERROR Error processing message, terminating share consumer process: "
                "org.apache.kafka.common.errors.TimeoutException"
            )
            return
