"""`ottla perf produce|consume|latency`: how fast it goes, with the words of Kafka's perf tools."""

import argparse
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.cli.options import UsageError, add_command, client_settings

if TYPE_CHECKING:
    from ottla.client import Producer

REPORT_S = 5.0
MEGABYTE = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    produce = add_command(commands, "produce", "send records as fast as asked")
    _add_records(produce, 1_000_000)
    produce.add_argument(
        "--throughput", "--rate", type=float, default=-1, help="records a second; -1: all you can"
    )
    produce.add_argument("--acks", choices=["0", "1", "all", "-1"])
    consume = add_command(commands, "consume", "read records and count them")
    consume.add_argument("topic")
    consume.add_argument("-n", "--messages", "--num-records", type=int, default=1_000_000)
    consume.add_argument("-g", "--group", help="as a member of this group (default: one of its own)")
    consume.add_argument("--idle", type=float, default=10, help="stop when nothing came for so many seconds")
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
    from ottla.client import Producer

    value = os.urandom(arguments.record_size)
    latencies: list[float] = []
    failures: list[Exception] = []
    with Producer(client_settings(arguments, acks=arguments.acks)) as producer:
        began = told = time.perf_counter()
        for number, now in paced(arguments.num_records, arguments.throughput):
            producer.send(arguments.topic, value, callback=_timed(now, latencies, failures))
            if now - told >= REPORT_S:
                told = now
                _tell(number + 1, arguments.record_size, now - began, latencies)
            if failures:
                raise failures[0]
        producer.flush()
        _tell(arguments.num_records, arguments.record_size, time.perf_counter() - began, latencies)
    if failures:
        raise failures[0]


def _timed(sent: float, latencies: list[float], failures: list[Exception]) -> Any:
    def delivered(_: object, error: Exception | None) -> None:
        if error is not None:
            failures.append(error)
        latencies.append((time.perf_counter() - sent) * 1000)

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


def _tell(count: int, size: int, seconds: float, latencies: list[float]) -> None:
    rate = count / seconds if seconds else 0.0
    parts = [f"{count} records sent, {rate:.1f} records/sec ({rate * size / MEGABYTE:.2f} MB/sec)"]
    if latencies:
        known = sorted(latencies)
        parts.append(f"{sum(known) / len(known):.2f} ms avg latency, {known[-1]:.2f} ms max latency")
        parts += [f"{_percentile(known, share):.2f} ms {name}" for share, name in _SHARES]
    print(", ".join(parts) + ".", flush=True)


_SHARES = ((0.5, "50th"), (0.95, "95th"), (0.99, "99th"), (0.999, "99.9th"))


def _percentile(known: list[float], share: float) -> float:
    return known[min(len(known) - 1, int(len(known) * share))]


def _consume(arguments: argparse.Namespace) -> None:
    from ottla.client import Consumer

    group = arguments.group or f"perf-consumer-{os.getpid()}"
    settings = client_settings(arguments, group_id=group, auto_offset_reset="earliest")
    count = size = 0
    with Consumer(settings) as consumer:
        consumer.subscribe([arguments.topic])
        began = last = time.perf_counter()
        first: float | None = None
        while count < arguments.messages and time.perf_counter() - last < arguments.idle:
            for record in consumer.poll(timeout_ms=100):
                first = first or time.perf_counter()
                last = time.perf_counter()
                count += 1
                size += len(record.value or b"") + len(record.key or b"")
        seconds = max(last - began, 1e-9)
        reading = max(last - (first or last), 1e-9)
    print(
        f"{count} records, {size / MEGABYTE:.2f} MB in {seconds:.2f} s: {count / seconds:.1f} records/sec, "
        f"{size / MEGABYTE / seconds:.2f} MB/sec; from the first record on {count / reading:.1f} records/sec"
    )


def _latency(arguments: argparse.Namespace) -> None:
    from ottla.client import Consumer, Producer

    settings = client_settings(arguments, acks=arguments.acks, linger_ms=0)
    latencies: list[float] = []
    with Producer(settings) as producer, Consumer(client_settings(arguments)) as consumer:
        _place_at_end(consumer, producer, arguments.topic)
        for _ in range(arguments.num_records):
            value = os.urandom(arguments.record_size)
            began = time.perf_counter()
            producer.send(arguments.topic, value).result()
            while not any(record.value == value for record in consumer.poll(timeout_ms=1000)):
                if time.perf_counter() - began > arguments.timeout:
                    raise UsageError(f"a record did not come back in {arguments.timeout} s")
            latencies.append((time.perf_counter() - began) * 1000)
    known = sorted(latencies)
    told = ", ".join(f"{name} {_percentile(known, share):.2f} ms" for share, name in _SHARES)
    print(f"{len(known)} records, average {sum(known) / len(known):.2f} ms, {told}")


def _place_at_end(consumer: Any, producer: "Producer", topic: str) -> None:
    from ottla.client.values import TopicPartition

    partitions = [TopicPartition(topic, index) for index in producer.partitions_for(topic)]
    consumer.assign(partitions)
    consumer.seek_to_end(partitions)
    consumer.poll(timeout_ms=100)
