"""`ottla perf produce|consume|latency`: how fast it goes, with the words of Kafka's perf tools."""

import argparse
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla.cli.options import PRODUCE_TIMEOUT_S, UsageError, add_command, client_settings, producer_settings
from ottla.client import Consumer, Producer
from ottla.client.values import TopicPartition
from ottla.frozen import frozen

REPORT_S = 5.0
MEGABYTE = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    produce = add_command(commands, "produce", "send records as fast as asked", PRODUCE_TIMEOUT_S)
    _add_records(produce, 1_000_000)
    produce.add_argument(
        "--throughput", "--rate", type=float, default=-1, help="records a second; -1: all you can"
    )
    produce.add_argument("--acks", choices=["0", "1", "all", "-1"])
    consume = add_command(commands, "consume", "read records and count them")
    consume.add_argument("topic")
    consume.add_argument("-n", "--messages", "--num-records", type=int, default=1_000_000)
    consume.add_argument("-g", "--group", help="consume as a member of this group (default: a new group)")
    consume.add_argument(
        "--idle", type=float, default=10, help="stop after this many seconds without a record"
    )
    latency = add_command(commands, "latency", "from send to poll, one record at a time")
    _add_records(latency, 1000)
    latency.add_argument("--acks", choices=["1", "all", "-1"], default="all")


def _add_records(parser: argparse.ArgumentParser, count: int) -> None:
    parser.add_argument("topic")
    parser.add_argument("-n", "--num-records", type=int, default=count)
    parser.add_argument("-s", "--record-size", type=int, default=100, help="bytes")


def run(arguments: argparse.Namespace) -> int:
    if getattr(arguments, "record_size", 1) < 1 or getattr(arguments, "num_records", 1) < 1:
        raise UsageError("at least one record of at least one byte")
    {"produce": _produce, "consume": _consume, "latency": _latency}[arguments.command](arguments)
    return 0


def _produce(arguments: argparse.Namespace) -> None:
    chosen = producer_settings(arguments, acks=arguments.acks)
    values = payloads(arguments.record_size)
    produce(chosen, arguments.topic, arguments.num_records, values, arguments.throughput)


def _consume(arguments: argparse.Namespace) -> None:
    chosen = client_settings(arguments, group_id=arguments.group or own_group(), auto_offset_reset="earliest")
    counted = consume(chosen, arguments.topic, arguments.messages, arguments.idle)
    rate, megabytes = counted.records / counted.seconds, counted.megabytes
    print(
        f"{counted.records} records, {megabytes:.2f} MB in {counted.seconds:.2f} s: {rate:.1f} records/sec, "
        f"{megabytes / counted.seconds:.2f} MB/sec; from the first record on "
        f"{counted.records / counted.reading_s:.1f} records/sec"
    )


def _latency(arguments: argparse.Namespace) -> None:
    known = latencies(
        producer_settings(arguments, acks=arguments.acks, linger_ms=0),
        client_settings(arguments),
        arguments.topic,
        arguments.num_records,
        arguments.record_size,
        arguments.timeout,
    )
    percentiles = ", ".join(f"{name} {percentile(known, share):.2f} ms" for share, name in _SHARES)
    print(f"{len(known)} records, average {sum(known) / len(known):.2f} ms, {percentiles}")


# -- measuring -----------------------------------------------------------------------------------------------


def payloads(size: int, file: str | None = None) -> list[bytes]:
    """What is sent: the lines of a file, or random bytes."""
    if file is None:
        return [os.urandom(size)]
    lines = [line for line in Path(file).read_bytes().splitlines() if line]
    if not lines:
        raise UsageError(f"{file} has no lines to send")
    return lines


def produce(chosen: Mapping[str, Any], topic: str, count: int, values: Sequence[bytes], rate: float) -> None:
    taken: list[float] = []
    failures: list[Exception] = []
    size = 0
    with Producer(chosen) as producer:
        began = reported = time.perf_counter()
        for number, now in paced(count, rate):
            value = values[0] if len(values) == 1 else random.choice(values)
            size += len(value)
            producer.send(topic, value, callback=_timed(now, taken, failures))
            if now - reported >= REPORT_S:
                reported = now
                _tell(number + 1, size, now - began, taken)
            if failures:
                break
        producer.flush()
    if failures:
        raise failures[0]
    _tell(count, size, time.perf_counter() - began, taken)


def _timed(sent: float, taken: list[float], failures: list[Exception]) -> Any:
    def delivered(_: object, error: Exception | None) -> None:
        if error is not None:
            failures.append(error)
        taken.append((time.perf_counter() - sent) * 1000)

    return delivered


def paced(count: int, rate: float) -> Iterator[tuple[int, float]]:
    """Numbers and the time, `rate` a second; below 0 as fast as they are taken."""
    began = time.perf_counter()
    for number in range(count):
        now = time.perf_counter()
        if rate > 0 and (ahead := number / rate - (now - began)) > 0:
            time.sleep(ahead)
            now = time.perf_counter()
        yield number, now


def _tell(count: int, size: int, seconds: float, taken: list[float]) -> None:
    rate, megabytes = count / seconds, size / MEGABYTE / seconds
    parts = [f"{count} records sent, {rate:.1f} records/sec ({megabytes:.2f} MB/sec)"]
    if taken:
        known = sorted(taken)
        parts.append(f"{sum(known) / len(known):.2f} ms avg latency, {known[-1]:.2f} ms max latency")
        parts += [f"{percentile(known, share):.2f} ms {name}" for share, name in _SHARES]
    print(", ".join(parts) + ".", flush=True)


_SHARES = ((0.5, "50th"), (0.95, "95th"), (0.99, "99th"), (0.999, "99.9th"))


def percentile(known: Sequence[float], share: float) -> float:
    """Of sorted numbers."""
    return known[min(len(known) - 1, int(len(known) * share))]


@frozen
class Counted:
    """What a consumer read. `joining_s` is the time until the first record, `reading_s` from there to the last."""

    records: int
    megabytes: float
    began: str
    ended: str
    joining_s: float
    reading_s: float

    @property
    def seconds(self) -> float:
        return self.joining_s + self.reading_s


def own_group() -> str:
    return f"perf-consumer-{os.getpid()}"


def consume(chosen: Mapping[str, Any], topic: str, count: int, idle_s: float) -> Counted:
    records = size = 0
    with Consumer(chosen) as consumer:
        consumer.subscribe([topic])
        began_at = _clock()
        began = first = last = time.perf_counter()
        while records < count and time.perf_counter() - last < idle_s:
            for record in consumer.poll(timeout_ms=100):
                last = time.perf_counter()
                first = last if not records else first
                records += 1
                size += len(record.value or b"") + len(record.key or b"")
    least = 1e-9  # a division by nothing read
    return Counted(
        records, size / MEGABYTE, began_at, _clock(), max(first - began, least), max(last - first, least)
    )


def _clock() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S") + f":{int(time.time() * 1000) % 1000:03d}"


def latencies(
    producing: Mapping[str, Any],
    consuming: Mapping[str, Any],
    topic: str,
    count: int,
    size: int,
    timeout_s: float,
) -> list[float]:
    """Milliseconds from send to poll, one record at a time, sorted."""
    taken: list[float] = []
    with Producer(producing) as producer, Consumer(consuming) as consumer:
        _place_at_end(consumer, producer, topic)
        for _ in range(count):
            value = os.urandom(size)
            began = time.perf_counter()
            producer.send(topic, value).result()
            while not any(record.value == value for record in consumer.poll(timeout_ms=1000)):
                if time.perf_counter() - began > timeout_s:
                    raise UsageError(f"a record did not come back in {timeout_s:g} s")
            taken.append((time.perf_counter() - began) * 1000)
    return sorted(taken)


def _place_at_end(consumer: Consumer, producer: Producer, topic: str) -> None:
    partitions = [TopicPartition(topic, index) for index in producer.partitions_for(topic)]
    consumer.assign(partitions)
    consumer.seek_to_end(partitions)
    consumer.poll(timeout_ms=100)
