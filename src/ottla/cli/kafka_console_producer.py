"""`ottla kafka-console-producer`: lines of standard input to a topic, with Apache Kafka's flags."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ottla.cli.kafka_options import add_bootstrap, say, settings
from ottla.cli.options import UsageError, pairs
from ottla.client import Producer
from ottla.client.settings import read_properties
from ottla.client.values import RecordMetadata

Headers = tuple[tuple[str, bytes | None], ...]
# Flag -> client setting.
FLAGS = {
    "batch-size": "batch.size",
    "max-partition-memory-bytes": "batch.size",
    "message-send-max-retries": "retries",
    "retry-backoff-ms": "retry.backoff.ms",
    "timeout": "linger.ms",
    "request-required-acks": "acks",
    "request-timeout-ms": "request.timeout.ms",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "max-block-ms": "max.block.ms",
    "max-memory-bytes": "buffer.memory",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--sync", action="store_true", help="wait for each record's answer")
    parser.add_argument(
        "--compression-codec",
        nargs="?",
        const="gzip",
        choices=["none", "gzip", "snappy", "lz4", "zstd"],
        default="none",
    )
    for flag in FLAGS:
        parser.add_argument(f"--{flag}")
    parser.add_argument("--socket-buffer-size", help="accepted; has no effect")
    parser.add_argument("--line-reader", metavar="CLASS", help="only Kafka's own, LineMessageReader")
    parser.add_argument("--reader-config", metavar="FILE", help="as --reader-property, name=value lines")
    parser.add_argument(
        "--property",
        "--reader-property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
        "headers.key.separator, ignore.error, null.marker",
    )
    parser.add_argument(
        "--producer-property", "--command-property", action="append", default=[], metavar="NAME=VALUE"
    )
    parser.add_argument("--producer.config", dest="producer_config", metavar="FILE")


def run(arguments: argparse.Namespace) -> int:
    arguments.command_config = arguments.command_config or arguments.producer_config
    config = settings(arguments, client_id="console-producer")
    config["compression.type"] = arguments.compression_codec
    for flag, name in FLAGS.items():
        value = getattr(arguments, flag.replace("-", "_"))
        if value is not None:
            config[name] = value
    config |= pairs(arguments.producer_property)
    reader = _reader(arguments)
    failures = _Failures()
    with Producer(config) as producer:
        for number, line in enumerate(_lines(), 1):
            _send(producer, arguments, reader.read(line, number), failures)
    return 0


def _reader(arguments: argparse.Namespace) -> "LineReader":
    if arguments.line_reader and arguments.line_reader.rpartition(".")[2] != "LineMessageReader":
        raise UsageError(f"the line reader {arguments.line_reader} is not known here")
    properties: dict[str, str] = {}
    if arguments.reader_config:
        properties |= read_properties(Path(arguments.reader_config).read_text())
    return LineReader(properties | pairs(arguments.property))


class Line(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class LineReader:
    """What a line means: headers, key, value, in this order, as far as they are to be parsed."""

    def __init__(self, properties: dict[str, str]) -> None:
        self._key = _flag(properties, "parse.key")
        self._headers = _flag(properties, "parse.headers")
        self._lenient = _flag(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t").encode().replace(rb"\t", b"\t")
        self._headers_end = properties.get("headers.delimiter", "\t").encode().replace(rb"\t", b"\t")
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._header_separator = properties.get("headers.key.separator", ":").encode()
        null = properties.get("null.marker")
        self._null = None if null is None else null.encode()

    def read(self, line: bytes, number: int) -> Line:
        headers: Headers = ()
        key: bytes | None = None
        if self._headers:
            head, separator, rest = line.partition(self._headers_end)
            if separator:
                headers = () if head == self._null else self._parse_headers(head, number)
                line = rest
            elif not self._lenient:
                raise UsageError(f"No headers delimiter found on line number {number}: '{line.decode()}'")
        if self._key:
            head, separator, rest = line.partition(self._key_separator)
            if separator:
                key, line = self._or_null(head), rest
            elif not self._lenient:
                raise UsageError(f"No key separator found on line number {number}: '{line.decode()}'")
        return Line(key, self._or_null(line), headers)

    def _parse_headers(self, text: bytes, number: int) -> Headers:
        headers: list[tuple[str, bytes | None]] = []
        for pair in text.split(self._headers_separator):
            name, separator, value = pair.partition(self._header_separator)
            if not separator and not self._lenient:
                raise UsageError(
                    f"No header key separator found in pair '{pair.decode()}' on line number {number}"
                )
            headers.append((name.decode(), self._or_null(value) if separator else None))
        return tuple(headers)

    def _or_null(self, text: bytes) -> bytes | None:
        return None if text == self._null else text


class _Failures:
    """What Kafka's tool logs when a record could not be delivered; it goes on."""

    def __call__(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        if error is not None:
            say(f"ERROR Error when sending message to topic: {error}")


def _send(producer: Producer, arguments: argparse.Namespace, line: Line, failures: _Failures) -> None:
    delivery = producer.send(
        arguments.topic,
        line.value,
        line.key,
        headers=line.headers,
        callback=None if arguments.sync else failures,
    )
    if arguments.sync:
        producer.flush()
        delivery.result()


def _lines() -> Iterator[bytes]:
    prompt = sys.stdin.isatty()
    while True:
        if prompt:
            sys.stdout.write(">")
            sys.stdout.flush()
        line = sys.stdin.buffer.readline()
        if not line:
            return
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _flag(properties: dict[str, str], name: str) -> bool:
    return properties.get(name, "false").strip().lower() == "true"
