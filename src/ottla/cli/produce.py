"""`ottla produce`: records from standard input or files; kcat's and rpk's habits."""

import argparse
import base64
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from ottla.cli.formats import Parsed, compile_parser, parse_line
from ottla.cli.leaving import reader_may_leave
from ottla.cli.options import PRODUCE_TIMEOUT_S, UsageError, add_client_options, producer_settings
from ottla.cli.progress import Progress
from ottla.cli.tables import show_json
from ottla.client import Producer
from ottla.client.values import RecordMetadata


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "topic", nargs="?", help="not needed when every record names its own (%%t, --input json)"
    )
    parser.add_argument("file", nargs="*", help="files to read instead of standard input")
    parser.add_argument(
        "-f", "--format", help="how input looks: letters %%k %%v %%t %%p %%T %%h (default: %%v\\n)"
    )
    parser.add_argument("-K", "--key-delimiter", metavar="D", help="separates key and value in a line")
    parser.add_argument("-D", "--delimiter", metavar="D", help="ends a record (default: new line)")
    parser.add_argument(
        "--input", choices=["text", "json"], default="text", help="json: what consume --json prints"
    )
    parser.add_argument(
        "--schema",
        metavar="FILE",
        help="values are JSON and are written with this schema (.avsc: Avro, .json: JSON Schema)",
    )
    parser.add_argument(
        "--registry", metavar="URL", help="where the schema is registered (http://127.0.0.1:8081)"
    )
    parser.add_argument("--whole-files", action="store_true", help="each file is one record")
    parser.add_argument("-k", "--key", help="one key for all records")
    parser.add_argument("-p", "--partition", type=int, help="one partition for all records")
    parser.add_argument("-H", "--header", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("-Z", "--null", action="store_true", help="empty values (and keys) become null")
    parser.add_argument("-z", "--compression", choices=["none", "gzip", "snappy", "lz4", "zstd"])
    parser.add_argument("-a", "--acks", choices=["0", "1", "all", "-1"])
    parser.add_argument("--rate", type=float, metavar="N", default=-1, help="at most N records a second")
    parser.add_argument("-T", "--tee", action="store_true", help="print the values too")
    parser.add_argument("-v", "--verbose", action="store_true", help="print where each record went")
    parser.add_argument("--json", action="store_true", help="as --verbose, in JSON lines")
    add_client_options(parser, PRODUCE_TIMEOUT_S)


def run(arguments: argparse.Namespace) -> int:
    settings = producer_settings(arguments, compression_type=arguments.compression, acks=arguments.acks)
    if arguments.format and arguments.key_delimiter:
        raise UsageError("-f says how keys and values are parted; leave -K out")
    headers = tuple(_header(header) for header in arguments.header)
    if arguments.schema:
        settings["value.serializer"] = _with_schema(arguments)
    outcome = _Outcome(arguments)
    with Producer(settings) as producer:
        transactional = producer.settings.transactional_id is not None
        if transactional:  # as kcat: all of the input is one transaction
            producer.init_transactions()
            producer.begin_transaction()
        for record in _at_rate(_records(arguments, outcome.on_read), arguments.rate):
            topic = record.topic or arguments.topic
            if not topic:
                raise UsageError("which topic? name it, or read it with %t")
            producer.send(
                topic,
                _maybe_null(record.value, arguments.null),
                key=_maybe_null(_key(record, arguments), arguments.null),
                partition=record.partition if record.partition is not None else arguments.partition,
                headers=record.headers + headers,
                timestamp=record.timestamp,
                callback=outcome.on_delivery,
            )
            outcome.sent += 1
            outcome.tell()
            if outcome.error is not None:
                break
            if arguments.tee:
                with reader_may_leave():
                    sys.stdout.buffer.write((record.value or b"") + b"\n")
        producer.flush()
        if transactional and outcome.error is None:
            producer.commit_transaction()
    outcome.progress.done()
    with reader_may_leave():
        sys.stdout.flush()
    if outcome.error is not None:
        raise outcome.error
    return 0


def _with_schema(arguments: argparse.Namespace) -> Callable[[bytes | None], bytes | None]:
    """From a line of JSON to a value with its schema's id."""
    from ottla.serialization import AvroSerializer, JsonSchemaSerializer, RegistryClient

    if not arguments.topic:
        raise UsageError("--schema needs the topic: it is part of the schema's subject")
    registry = RegistryClient(arguments.registry or "http://127.0.0.1:8081")
    kind = JsonSchemaSerializer if arguments.schema.endswith(".json") else AvroSerializer
    serializer = kind(registry, Path(arguments.schema).read_text(), topic=arguments.topic)

    def serialize(line: bytes | None) -> bytes | None:
        return None if line is None else serializer(json.loads(line))

    return serialize


def _at_rate(records: "Iterator[Parsed]", rate: float) -> "Iterator[Parsed]":
    if rate <= 0:
        yield from records
        return
    began = time.monotonic()
    for number, record in enumerate(records):
        ahead = number / rate - (time.monotonic() - began)
        if ahead > 0:
            time.sleep(ahead)
        yield record


class _Outcome:
    """What became of the records; the first error ends the run."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._verbose, self._json = arguments.verbose, arguments.json
        self.error: Exception | None = None
        self.sent = 0
        files = [] if arguments.whole_files else arguments.file
        self._file_bytes = sum(Path(name).stat().st_size for name in files if Path(name).is_file())
        self.read_bytes = 0
        self.progress = Progress("sending", "B" if self._file_bytes else " records")

    def on_read(self, count: int) -> None:
        self.read_bytes += count

    def tell(self) -> None:
        """Of files it is known how much is left."""
        if self._file_bytes:
            self.progress.at(self.read_bytes, self._file_bytes, f"{self.sent:,} records")
        else:
            self.progress.at(self.sent)

    def on_delivery(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        if metadata is None:
            self.error = self.error or error
        elif self._json or self._verbose:
            with reader_may_leave():
                self._print(metadata)

    def _print(self, metadata: RecordMetadata) -> None:
        if self._json:
            show_json(metadata._asdict())
        else:
            topic, partition, offset, timestamp = metadata
            print(f"{topic}-{partition} offset {offset} timestamp {timestamp}")


def _records(arguments: argparse.Namespace, on_read: Callable[[int], None]) -> Iterator[Parsed]:
    if arguments.whole_files:
        for name in arguments.file:
            yield Parsed(value=Path(name).read_bytes())
        return
    parse, ending = _parser(arguments)
    if not arguments.file:
        yield from map(parse, split(sys.stdin.buffer, ending))
    for name in arguments.file:
        with Path(name).open("rb") as stream:
            yield from map(parse, split(stream, ending, on_read=on_read))


def _parser(arguments: argparse.Namespace) -> tuple[Callable[[bytes], Parsed], bytes]:
    delimiter = _unescaped(arguments.delimiter) if arguments.delimiter is not None else b"\n"
    if arguments.input == "json":
        return _from_json, delimiter
    if arguments.format:
        pattern, ending = compile_parser(arguments.format)
        return lambda line: parse_line(pattern, line), ending or delimiter
    if arguments.key_delimiter:
        between = _unescaped(arguments.key_delimiter)
        return lambda line: _keyed(line, between), delimiter
    return lambda line: Parsed(value=line), delimiter


def split(
    stream: IO[bytes],
    ending: bytes,
    *,
    piece_bytes: int = 65536,
    on_read: Callable[[int], None] = lambda count: None,
) -> Iterator[bytes]:
    """Records between endings; the last one need not have any. Memory holds one record at a time."""
    rest = b""
    # read1 returns without waiting for a full piece: an interactive user's line is sent when it is typed.
    read = getattr(stream, "read1", stream.read)
    while piece := read(piece_bytes):
        on_read(len(piece))
        *whole, rest = (rest + piece).split(ending)
        yield from whole
    if rest:
        yield rest


def _from_json(line: bytes) -> Parsed:
    """A line of `consume --json`. Bytes that are no text come as `{"base64": ...}`."""
    try:
        record = json.loads(line)
        topic, timestamp, pairs = record.get("topic"), record.get("timestamp"), record.get("headers") or []
        if not isinstance(topic, str | None) or not isinstance(timestamp, int | None):
            raise TypeError("the topic is a text, the timestamp a number of milliseconds")
        if not isinstance(pairs, list):
            raise TypeError("headers are a list of [name, value]")
        headers = tuple((str(name), _bytes(value)) for name, value in pairs)
        key, value = _bytes(record.get("key")), _bytes(record.get("value"))
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"{line[:80]!r} is no record in JSON: {error}") from None
    return Parsed(key, value, topic, timestamp=timestamp, headers=headers)


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict) and set(value) == {"base64"}:
        return base64.b64decode(value["base64"])
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _keyed(line: bytes, between: bytes) -> Parsed:
    key, separator, value = line.partition(between)
    return Parsed(key, value) if separator else Parsed(None, line)


def _key(record: Parsed, arguments: argparse.Namespace) -> bytes | None:
    if record.key is not None or arguments.key is None:
        return record.key
    return bytes(arguments.key.encode())


def _maybe_null(data: bytes | None, empty_is_null: bool) -> bytes | None:
    return None if empty_is_null and not data else data


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    return name, value.encode() if equals else None


def _unescaped(text: str) -> bytes:
    return text.encode().decode("unicode_escape").encode("latin-1")
