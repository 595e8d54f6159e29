"""Groups and transactions beside Apache Kafka."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer

from bench.groups import many_groups
from bench.measure import (
    Benchmark,
    Measured,
    Metric,
    Peer,
    Scale,
    make_topic,
    percentile,
)

_MEMBERS = 5
_PARTITIONS = 10
_QUIET_S = 60


def settle_of(label: str, config: dict[str, object], target: str) -> Benchmark:
    """Five members join, each as soon as the ones before share evenly; until all five do."""

    def run(peer: Peer, scale: Scale) -> Measured:
        with peer.running() as server:
            make_topic(server.bootstrap, "spread", _PARTITIONS)
            group = _Group(server.bootstrap, config)
            begun = time.perf_counter()
            try:
                for size in range(1, _MEMBERS + 1):
                    group.add()
                    group.wait_until_even(size)
                took = time.perf_counter() - begun
            finally:
                group.close()
        return {Metric(f"group of 5 joining one by one, {label}", "s", "lower", target): took}

    return Benchmark(f"group-{label.replace(' ', '-')}", run)


class _Group:
    """Consumers in threads; who owns how many partitions."""

    def __init__(self, bootstrap: str, config: dict[str, object]) -> None:
        self._config = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": "settle",
            "auto.offset.reset": "earliest",
            **config,
        }
        self._stop = threading.Event()
        self._owned: list[int] = []
        self._threads: list[threading.Thread] = []

    def add(self) -> None:
        self._owned.append(0)
        thread = threading.Thread(target=self._run, args=(len(self._owned) - 1,))
        self._threads.append(thread)
        thread.start()

    def wait_until_even(self, size: int) -> None:
        deadline = time.monotonic() + _QUIET_S
        while sum(self._owned) != _PARTITIONS or min(self._owned) < _PARTITIONS // size:
            if time.monotonic() > deadline:
                raise RuntimeError(f"never even: {self._owned}")
            time.sleep(0.01)

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, index: int) -> None:
        consumer = Consumer(self._config)
        consumer.subscribe(["spread"])
        while not self._stop.is_set():
            consumer.poll(0.02)
            self._owned[index] = len(consumer.assignment())
        consumer.close()


def transactions(peer: Peer, scale: Scale) -> Measured:
    """One after another, 100 records each, over four partitions."""
    count = scale(500, 50)
    with peer.running() as server:
        make_topic(server.bootstrap, "txn", 4)
        producer = Producer(
            {
                "bootstrap.servers": server.bootstrap,
                "log_level": 0,
                "transactional.id": "bench",
                "linger.ms": 0,
            }
        )
        while True:
            try:
                producer.init_transactions(30)
                break
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
        took = [_one_transaction(producer) for _ in range(count + 20)][20:]
    return {
        Metric("transactions of 100 records", "per s", "higher", ">= 2"): count / sum(took),
        Metric("transaction, begin to commit p50", "ms", "lower"): percentile(took, 0.5) * 1000,
        Metric("transaction, begin to commit p99", "ms", "lower"): percentile(took, 0.99) * 1000,
    }


def _one_transaction(producer: Producer) -> float:
    begun = time.perf_counter()
    producer.begin_transaction()
    for i in range(100):
        producer.produce("txn", b"v" * 100, partition=i % 4)
    producer.commit_transaction(60)
    return time.perf_counter() - begun


BENCHMARKS = (
    settle_of("classic range", {"partition.assignment.strategy": "range"}, "<= 0.85"),
    settle_of("classic cooperative", {"partition.assignment.strategy": "cooperative-sticky"}, "<= 0.85"),
    settle_of("new protocol", {"group.protocol": "consumer"}, "<= 0.33"),
    Benchmark("many-groups", many_groups),
    Benchmark("transactions", transactions),
)
