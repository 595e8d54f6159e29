"""`ottla consume`: records from anywhere to anywhere, alone or in a group, printed as asked."""

import argparse
import base64
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from ottla.cli import ranges
from ottla.cli.formats import LETTERS, compile_format
from ottla.cli.leaving import leave_on_sigterm
from ottla.cli.options import UsageError, add_client_options, client_settings
from ottla.cli.progress import Progress
from ottla.cli.screen.frames import short
from ottla.client import Consumer
from ottla.client.values import ConsumerRecord, TopicPartition


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", nargs="+", help="topics; with --regex one pattern")
    parser.add_argument("-o", "--offset", action="append", default=[], metavar="OFFSET", help=ranges.GRAMMAR)
    parser.add_argument("--from-beginning", action="store_true", help="the same as -o start")
    parser.add_argument("-p", "--partition", type=int, action="append", help="default: all")
    parser.add_argument(
        "-n", "-c", "--count", "--max-messages", type=int, metavar="N", help="stop after N records"
    )
    parser.add_argument(
        "-e", "--exit", action="store_true", help="stop at the end instead of waiting for more"
    )
    parser.add_argument("-f", "--format", help=LETTERS.replace("%", "%%"))
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object a line")
    parser.add_argument(
        "--decode", metavar="URL", help="decode values by the schemas of this registry, to JSON"
    )
    parser.add_argument("-g", "--group", help="read as a member of this group, and commit")
    parser.add_argument(
        "-r", "--regex", action="store_true", help="the topic is a regular expression (groups)"
    )
    parser.add_argument(
        "--read-committed", action="store_true", help="leave out aborted and open transactions"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="with --group: report every rebalance on standard error"
    )
    parser.add_argument("--timeout-ms", type=int, help="stop when nothing came for so long")
    parser.add_argument("-u", "--unbuffered", action="store_true", help="flush after every record")
    add_client_options(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.from_beginning:
        arguments.offset.append("start")
    wanted = ranges.parse_all(
        arguments.offset or (["stored"] if arguments.group else ["start"]), int(time.time() * 1000)
    )
    settings = client_settings(
        arguments,
        group_id=arguments.group,
        isolation_level="read_committed" if arguments.read_committed else None,
        auto_offset_reset="latest" if wanted.start == ranges.END else "earliest",
    )
    leave_on_sigterm()
    render = _renderer(arguments)
    if arguments.decode:
        render = _decoding(arguments.decode, render)
    with Consumer(settings) as consumer:
        if arguments.group:
            if wanted.end is not None or wanted.start not in (ranges.START, ranges.END, ranges.STORED):
                raise UsageError("a group begins where it has committed; use groups reset-offsets to move it")
            ends = _join(consumer, arguments)
        else:
            ends = _assign(consumer, arguments, wanted)
        try:
            _print(consumer, arguments, render, ends)
        except KeyboardInterrupt:
            pass  # the usual end
        finally:
            sys.stdout.buffer.flush()
    return 0


def _decoding(url: str, render: Callable[[Any, int], bytes]) -> Callable[[Any, int], bytes]:
    """The same with values as JSON, by the schemas that they or their headers name."""
    from ottla.serialization.decoding import AnyDeserializer, text
    from ottla.serialization.framing import BadValue
    from ottla.serialization.registry_client import RegistryClient

    decode = AnyDeserializer(RegistryClient(url))

    def decoded(record: Any, count: int) -> bytes:
        if record.value is None:
            return render(record, count)
        try:
            value = text(decode(record.value, record.headers))
        except BadValue as error:
            raise BadValue(f"{record.topic}-{record.partition}, offset {record.offset}: {error}") from error
        return render(record._replace(value=value), count)

    return decoded


def _assign(
    consumer: Consumer, arguments: argparse.Namespace, wanted: ranges.Range
) -> dict[TopicPartition, int] | None:
    """Places the consumer; where to stop in each partition, if anywhere."""
    if arguments.regex:
        raise UsageError("--regex needs --group")
    partitions = [
        TopicPartition(topic, p)
        for topic in arguments.topic
        for p in consumer.partitions_for(topic)
        if arguments.partition is None or p in arguments.partition
    ]
    if not partitions:
        raise UsageError(f"{', '.join(arguments.topic)} has no partition {arguments.partition}")
    starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    at_times: dict[int, Any] = {}
    for stamp in wanted.times():
        positions = consumer.offsets_for_times(dict.fromkeys(partitions, stamp))
        at_times[stamp] = {p: at.offset for p, at in positions.items() if at is not None}
    begin = ranges.resolve(wanted.start, starts, ends, at_times)
    stop: dict[TopicPartition, int] | None = None
    if wanted.end is not None or arguments.exit:
        resolved = ranges.resolve(wanted.end or ranges.END, starts, ends, at_times)
        # Beyond the present end nothing may ever come: stop there only if told to wait for it.
        stop = {
            TopicPartition(*p): min(at, ends[TopicPartition(*p)]) if arguments.exit else at
            for p, at in resolved.items()
        }
    consumer.assign(partitions)
    for partition, offset in begin.items():
        consumer.seek(partition, offset)
    return stop


def _join(consumer: Consumer, arguments: argparse.Namespace) -> dict[TopicPartition, int] | None:
    listeners = _told_of_rebalances() if arguments.verbose else {}
    if arguments.regex:
        consumer.subscribe(pattern=arguments.topic[0], **listeners)
        return None
    consumer.subscribe(arguments.topic, **listeners)
    if not arguments.exit:
        return None
    return consumer.end_offsets(
        (topic, p) for topic in arguments.topic for p in consumer.partitions_for(topic)
    )


def _told_of_rebalances() -> dict[str, Any]:
    """Lines on standard error, so that the records can still be piped."""

    def teller(word: str) -> Callable[[Any], None]:
        def tell(partitions: Any) -> None:
            names = ", ".join(f"{partition.topic}-{partition.partition}" for partition in sorted(partitions))
            clock = time.strftime("%H:%M:%S")
            print(f"{clock} {word}: {names or 'nothing'}", file=sys.stderr, flush=True)

        return tell

    return {"on_assigned": teller("assigned"), "on_revoked": teller("revoked"), "on_lost": teller("lost")}


def _print(
    consumer: Consumer,
    arguments: argparse.Namespace,
    render: Callable[[ConsumerRecord, int], bytes],
    ends: dict[TopicPartition, int] | None,
) -> None:
    count = read_bytes = 0
    # Beside records on the same terminal nobody could read it.
    progress = Progress("read", " records", is_shown=sys.stderr.isatty() and not sys.stdout.isatty())
    quiet_since = time.monotonic()
    while not _finished(consumer, ends):
        remaining = None if arguments.count is None else arguments.count - count
        if remaining is not None and remaining <= 0:
            break
        polled = consumer.poll(
            0.5, max_records=remaining if remaining is not None and remaining < 500 else None
        )
        # A group commits all that it was given, so all of that is printed.
        records = polled if arguments.group else _before(ends, polled)
        read_bytes += _write(consumer, arguments, render, records, count)
        count += len(records)
        if polled:
            quiet_since = time.monotonic()
            progress.at(count, arguments.count, f"{short(read_bytes, 1024)}B")
        elif (
            arguments.timeout_ms is not None
            and (time.monotonic() - quiet_since) * 1000 >= arguments.timeout_ms
        ):
            break
    progress.done()


def _before(ends: dict[TopicPartition, int] | None, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
    if ends is None:
        return records
    return [
        record
        for record in records
        if record.offset < ends.get(TopicPartition(record.topic, record.partition), 1 << 63)
    ]


def _write(
    consumer: Consumer,
    arguments: argparse.Namespace,
    render: Callable[[ConsumerRecord, int], bytes],
    records: list[ConsumerRecord],
    count: int,
) -> int:
    """How many bytes. What could not be written is not committed: the group's next reader gets it."""
    out = sys.stdout.buffer
    written = size = 0
    try:
        for record in records:
            size += out.write(render(record, count + written))
            written += 1
            if arguments.unbuffered:
                out.flush()
        out.flush()
    except BaseException as error:
        # Of a pipe that was closed nobody knows how far its reader came.
        rest = records if isinstance(error, OSError) else records[written:]
        if arguments.group:
            _give_back(consumer, rest)
        raise
    return size


def _give_back(consumer: Consumer, records: list[ConsumerRecord]) -> None:
    mine = consumer.assignment()
    firsts = {TopicPartition(record.topic, record.partition): record.offset for record in reversed(records)}
    for partition, offset in firsts.items():
        if partition in mine:
            consumer.seek(partition, offset)


def _finished(consumer: Consumer, ends: dict[TopicPartition, int] | None) -> bool:
    """Whether every partition that is ours has been read up to its end."""
    if ends is None:
        return False
    mine = consumer.assignment()
    if not mine and any(ends.values()):
        return False
    return all(
        at == 0 or (partition in mine and consumer.position(partition) >= at)
        for partition, at in ends.items()
    )


def _renderer(arguments: argparse.Namespace) -> Callable[[ConsumerRecord, int], bytes]:
    if arguments.json:
        return _json_line
    return compile_format(arguments.format if arguments.format is not None else "%v\\n")


def _json_line(record: ConsumerRecord, count: int) -> bytes:
    line = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _readable(record.key),
        "value": _readable(record.value),
        "headers": [[name, _readable(value)] for name, value in record.headers],
    }
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def _readable(data: bytes | None) -> Any:
    """Text where it is text; else base64, marked, so that `produce --input json` gets it back."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
