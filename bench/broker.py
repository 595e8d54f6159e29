"""The broker beside Apache Kafka: start, memory, throughput, latency, processor time, many of everything."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench import load
from bench.measure import (
    Benchmark,
    Measured,
    Metric,
    Peer,
    Scale,
    cpu_seconds,
    make_topic,
    memory_mb,
    percentile,
    stopwatch,
)

PARTITIONS = 4


def start(peer: Peer, scale: Scale) -> Measured:
    server = peer.make()
    server.prepare()  # formatting the folder is not part of the start
    with stopwatch() as seconds:
        server.start()
        producer = Producer(
            {
                "bootstrap.servers": server.bootstrap,
                "log_level": 0,
                "linger.ms": 0,
                "topic.metadata.refresh.fast.interval.ms": 10,
            }
        )
        producer.produce("first", b"record")
        if producer.flush(60):
            raise RuntimeError("the first record was not acknowledged")
        took = seconds()
    idle = memory_mb(server.pid())
    server.close()
    peer.clean()
    return {
        Metric("start to first acknowledged record", "s", "lower", "<= 0.1"): took,
        Metric("memory after start", "MB", "lower", "60 MB"): idle,
    }


def throughput_of(size: int, count: int, codec: str = "none") -> Benchmark:
    label = f"{size} B" if size < 1000 else "1 KB"
    label += "" if codec == "none" else f" {codec}"
    produce_target = ">= 1.0" if size == 100 else ">= 1.2"

    def run(peer: Peer, scale: Scale) -> Measured:
        records = scale(count, 20_000)
        gigabytes = records * size / 1e9
        with peer.running() as server:
            make_topic(server.bootstrap, "bench", PARTITIONS)
            load.produce(server.bootstrap, "bench", records // 10, size, PARTITIONS, codec)  # warm-up
            make_topic(server.bootstrap, "measured", PARTITIONS)
            before = cpu_seconds(server.pid())
            wrote = load.produce(server.bootstrap, "measured", records, size, PARTITIONS, codec)
            between = cpu_seconds(server.pid())
            read = load.consume(server.bootstrap, "measured", records, PARTITIONS)
            after = cpu_seconds(server.pid())
            used = memory_mb(server.pid())
        return {
            Metric(f"produce {label}", "k msg/s", "higher", produce_target): records / wrote / 1000,
            Metric(f"produce {label}, broker CPU per GB", "s", "lower", "<= 0.7"): (between - before)
            / gigabytes,
            Metric(f"consume {label}", "k msg/s", "higher", ">= 1.0"): records / read / 1000,
            Metric(f"consume {label}, broker CPU per GB", "s", "lower", "<= 0.7"): (after - between)
            / gigabytes,
            Metric(f"memory after {label}", "MB", "lower", "120 MB"): used,
        }

    return Benchmark(f"throughput-{label.replace(' ', '').lower()}", run)


def synchronous(peer: Peer, scale: Scale) -> Measured:
    count = scale(5000, 500)
    with peer.running() as server:
        make_topic(server.bootstrap, "sync", 1)
        load.synchronous_sends(server.bootstrap, "sync", count // 5)  # warm-up
        before = cpu_seconds(server.pid())
        took = load.synchronous_sends(server.bootstrap, "sync", count)
        used = cpu_seconds(server.pid()) - before
    return {
        Metric("one synchronous send p50", "ms", "lower", "<= 1.0"): percentile(took, 0.5) * 1000,
        Metric("one synchronous send p99", "ms", "lower", "<= 0.7"): percentile(took, 0.99) * 1000,
        Metric("one synchronous send, broker CPU", "ms", "lower", "<= 0.5"): used / count * 1000,
    }


def end_to_end(peer: Peer, scale: Scale) -> Measured:
    """1,000 records a second from a producer to a consumer that is waiting for them."""
    count = scale(20_000, 3000)
    with peer.running() as server:
        make_topic(server.bootstrap, "warm-up", 1)
        load.synchronous_sends(server.bootstrap, "warm-up", scale(10_000, 2000))  # a cold JVM cannot keep up
        make_topic(server.bootstrap, "e2e", 1)
        took: list[float] = []
        producer = Producer(
            {"bootstrap.servers": server.bootstrap, "log_level": 0, "acks": "all", "linger.ms": 0}
        )
        producer.produce("e2e", b"0")
        producer.flush(30)
        is_reading = threading.Event()
        reader = threading.Thread(target=_read_times, args=(server.bootstrap, count, took, is_reading))
        reader.start()
        is_reading.wait(60)
        before, begun = cpu_seconds(server.pid()), time.perf_counter()
        for i in range(count):
            while (wait := begun + i / 1000 - time.perf_counter()) > 0:
                producer.poll(wait)
            producer.produce("e2e", str(time.perf_counter()).encode())
            producer.poll(0)
        producer.flush(30)
        reader.join()
        share = (cpu_seconds(server.pid()) - before) / (time.perf_counter() - begun)
    settled = took[len(took) // 10 :]
    return {
        Metric("end to end at 1,000 msg/s p50", "ms", "lower"): percentile(settled, 0.5) * 1000,
        Metric("end to end at 1,000 msg/s p99", "ms", "lower", "<= 0.5"): percentile(settled, 0.99) * 1000,
        Metric("end to end at 1,000 msg/s, broker CPU", "% of a core", "lower", "<= 0.4"): share * 100,
    }


def _read_times(bootstrap: str, count: int, took: list[float], is_reading: threading.Event) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "log_level": 0, "group.id": "e2e", "fetch.wait.max.ms": 500}
    )
    consumer.assign([TopicPartition("e2e", 0, 0)])
    while len(took) < count:
        message = consumer.poll(30)
        if message is None:
            raise RuntimeError(f"only {len(took)} of {count} records came")
        if message.error():
            continue
        if is_reading.is_set():
            took.append(time.perf_counter() - float(message.value()))
        is_reading.set()
    consumer.close()


def slow_producers(peer: Peer, scale: Scale) -> Measured:
    """200 producers, each with a record every 100 ms: the price of many small requests."""
    producers, seconds = scale(200, 40), 10
    with peer.running() as server:
        make_topic(server.bootstrap, "slow", PARTITIONS)
        config = {
            "bootstrap.servers": server.bootstrap,
            "log_level": 0,
            "linger.ms": 0,
            "enable.idempotence": True,
        }
        clients = [Producer(config) for _ in range(producers)]
        took: list[float] = []

        def send(client: Producer) -> None:
            begun = time.perf_counter()
            client.produce(
                "slow", b"v" * 100, on_delivery=lambda *_: took.append(time.perf_counter() - begun)
            )

        for client in clients:
            send(client)
        for client in clients:
            client.flush(30)
        took.clear()
        before, begun = cpu_seconds(server.pid()), time.perf_counter()
        for tick in range(seconds * 10):
            for i, client in enumerate(clients):
                send(client)
                client.poll(0)
                due = begun + tick / 10 + i / producers / 10
                if (wait := due - time.perf_counter()) > 0.001:
                    time.sleep(wait)
        for client in clients:
            client.flush(30)
        share = (cpu_seconds(server.pid()) - before) / (time.perf_counter() - begun)
        memory = memory_mb(server.pid())
    return {
        Metric(f"{producers} slow producers, broker CPU", "% of a core", "lower"): share * 100,
        Metric(f"{producers} slow producers, ack p50", "ms", "lower"): percentile(took, 0.5) * 1000,
        Metric(f"{producers} slow producers, memory", "MB", "lower"): memory,
    }


def idle_connections(peer: Peer, scale: Scale) -> Measured:
    count = scale(2000, 500)
    with peer.running({"max.connections": 100_000}) as server, contextlib.ExitStack() as stack:
        make_topic(server.bootstrap, "idle", 1)
        before = memory_mb(server.pid())
        host, port = server.bootstrap.split(":")
        with stopwatch() as seconds:
            for _ in range(count):
                stack.enter_context(socket.create_connection((host, int(port)), 10))
            opened = seconds()
        took = load.synchronous_sends(server.bootstrap, "idle", 200)
        grown = memory_mb(server.pid()) - before
        used = cpu_seconds(server.pid())
        time.sleep(3)
        idle_share = (cpu_seconds(server.pid()) - used) / 3
    return {
        Metric(f"{count} idle connections, opened", "per s"): count / opened,
        Metric(f"{count} idle connections, memory each", "KB", "lower"): max(grown, 0.0) * 1024 / count,
        Metric(f"{count} idle connections, send p50 beside them", "ms", "lower"): percentile(took, 0.5)
        * 1000,
        Metric(f"{count} idle connections, broker CPU", "% of a core", "lower"): idle_share * 100,
    }


def partitions_of(total: int) -> Benchmark:
    def run(peer: Peer, scale: Scale) -> Measured:
        count = scale(total, 200)
        with peer.running() as server:
            before = memory_mb(server.pid())
            admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
            with stopwatch() as seconds:
                for i in range(0, count, 500):
                    name, part = f"many-{i}", min(500, count - i)
                    admin.create_topics([NewTopic(name, part, 1)])[name].result(300)
                _wait_for_leaders(admin, count)
                created = seconds()
            grown = memory_mb(server.pid()) - before
            server.stop()
            with stopwatch() as seconds:
                server.start()
                _wait_for_leaders(AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0}), count)
                restarted = seconds()
        return {
            Metric(f"{count} partitions, creation", "s", "lower"): created,
            Metric(f"{count} partitions, memory", "MB", "lower"): grown,
            Metric(f"{count} partitions, restart", "s", "lower"): restarted,
        }

    return Benchmark(f"partitions-{total}", run, rounds=3)


def _wait_for_leaders(admin: AdminClient, count: int) -> None:
    while True:
        topics = admin.list_topics(timeout=60).topics.values()
        if sum(part.leader >= 0 for topic in topics for part in topic.partitions.values()) >= count:
            return


def recovery(peer: Peer, scale: Scale) -> Measured:
    """Kill after gigabytes of log, none of it flushed in good order; until a record is acknowledged again."""
    size, count = 1000, scale(5_000_000, 200_000)
    with peer.running({"log.flush.offset.checkpoint.interval.ms": 600_000}) as server:
        make_topic(server.bootstrap, "big", PARTITIONS)
        load.produce(server.bootstrap, "big", count, size, PARTITIONS)
        server.kill()
        with stopwatch() as seconds:
            server.start()
            load.synchronous_sends(server.bootstrap, "big", 1)
            took = seconds()
    gigabytes = count * size / 1e9
    return {Metric(f"back after kill -9 with {gigabytes:.1f} GB of log", "s", "lower", "<= 0.2"): took}


def back_in_service(peer: Peer, scale: Scale) -> Measured:
    """Kill under load; until a record is acknowledged again."""
    with peer.running() as server:
        make_topic(server.bootstrap, "service", PARTITIONS)
        load.produce(server.bootstrap, "service", scale(500_000, 50_000), 100, PARTITIONS)
        server.kill()
        with stopwatch() as seconds:
            server.start()
            load.synchronous_sends(server.bootstrap, "service", 1)
            took = seconds()
    return {Metric("back in service after kill -9", "s", "lower", "<= 0.2"): took}


def append_beside_disk(peer: Peer, scale: Scale) -> Measured:
    """How much of what the disk takes in sequence gets through the broker."""
    size, count = 100_000, scale(20_000, 2000)
    with peer.running() as server:
        make_topic(server.bootstrap, "append", PARTITIONS)
        took = load.produce(server.bootstrap, "append", count, size, PARTITIONS)
        raw = _sequential_write(os.fspath(server.data), count * size)
    megabytes = count * size / 1e6
    return {
        Metric("append of 100 KB records", "MB/s"): megabytes / took,
        Metric("raw sequential write beside it", "MB/s"): megabytes / raw,
    }


def _sequential_write(folder: str, total: int) -> float:
    chunk, path = b"v" * (1 << 20), os.path.join(folder, "raw-write")  # noqa: PTH118
    with stopwatch() as seconds:
        with open(path, "wb", buffering=0) as file:  # noqa: PTH123
            for _ in range(total // len(chunk)):
                file.write(chunk)
        took = seconds()
    os.unlink(path)  # noqa: PTH108
    return took


def fetch_at_size(peer: Peer, scale: Scale) -> Measured:
    """Reading the same amount from a log of 0.1, 1 and 10 GB: the rate must not fall."""
    size, measured = 1000, Measured()
    with peer.running() as server:
        make_topic(server.bootstrap, "grow", 1)
        written = 0
        for gigabytes in (0.1, 1.0, 10.0):
            wanted = scale(int(gigabytes * 1e9 / size), int(gigabytes * 20_000))
            load.produce(server.bootstrap, "grow", wanted - written, size, 1)
            written = wanted
            read = min(scale(100_000, 2000), written)
            took = _read_tail(server.bootstrap, written - read, read)
            measured[Metric(f"fetch 1 KB at the end of {gigabytes:g} GB", "MB/s")] = read * size / took / 1e6
    return measured


def _read_tail(bootstrap: str, offset: int, count: int) -> float:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": "tail",
            "max.partition.fetch.bytes": 8 << 20,
        }
    )
    begun = time.perf_counter()
    consumer.assign([TopicPartition("grow", 0, offset)])
    read = 0
    while read < count:
        messages = consumer.consume(10_000, 30)
        if not messages:
            raise RuntimeError(f"only {read} of {count} records came")
        read += len(messages)
    took = time.perf_counter() - begun
    consumer.close()
    return took


BENCHMARKS = (
    Benchmark("start", start, rounds=5),
    throughput_of(100, 3_000_000),
    throughput_of(1000, 1_000_000),
    throughput_of(100, 3_000_000, "lz4"),
    throughput_of(1000, 1_000_000, "zstd"),
    Benchmark("synchronous", synchronous),
    Benchmark("end-to-end", end_to_end),
    Benchmark("slow-producers", slow_producers),
    Benchmark("idle-connections", idle_connections),
    partitions_of(1000),
    partitions_of(5000),
    Benchmark("back-in-service", back_in_service),
    Benchmark("recovery", recovery),
    Benchmark("append", append_beside_disk),
    Benchmark("fetch-at-size", fetch_at_size),
)
