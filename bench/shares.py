"""Share groups beside Apache Kafka: twenty members take what one partition holds."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from bench.measure import Benchmark, Measured, Metric, Peer, Scale, cpu_seconds, make_topic, memory_mb

_MEMBERS, _RECORDS, _BYTES = 20, 200_000, 100
_TOPIC, _GROUP = "work", "sharers"
_PATIENCE_S = 180


def run(peer: Peer, scale: Scale) -> Measured:
    records = scale(_RECORDS)
    with peer.running() as server:
        make_topic(server.bootstrap, _TOPIC, 1)
        _begin_at_the_start(server.bootstrap)
        _fill(server.bootstrap, records)
        taken = _Taken(records)
        busy = cpu_seconds(server.pid())
        begun = time.perf_counter()
        members = [
            threading.Thread(target=_take, args=(server.bootstrap, taken), daemon=True)
            for _ in range(_MEMBERS)
        ]
        for member in members:
            member.start()
        if not taken.all.wait(_PATIENCE_S):
            raise TimeoutError(f"{taken.count} of {records} records were taken")
        first_s, took_s = taken.first_s - begun, taken.last_s - taken.first_s
        busy = cpu_seconds(server.pid()) - busy
        memory = memory_mb(server.pid())
        for member in members:
            member.join()
    name = f"share group of {_MEMBERS} on one partition"
    return {
        Metric(f"{name}, first record", "s", "lower", "< 1 s"): first_s,
        Metric(name, "k msg/s", "higher", ">= 2"): records / took_s / 1000,
        Metric(f"{name}, broker CPU per million records", "s", "lower"): busy * 1e6 / records,
        Metric(f"{name}, memory", "MB", "lower"): memory,
    }


def _begin_at_the_start(bootstrap: str) -> None:
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    group = ConfigResource(ResourceType.GROUP, _GROUP, incremental_configs=[earliest])
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for changed in admin.incremental_alter_configs([group]).values():
        changed.result(60)


def _fill(bootstrap: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
    for number in range(records):
        producer.produce(_TOPIC, b"%0*d" % (_BYTES, number))
        if number % 10_000 == 0:
            producer.poll(0)
    assert not producer.flush(60)


class _Taken:
    def __init__(self, records: int) -> None:
        self.count = 0
        self.first_s = self.last_s = 0.0
        self.all = threading.Event()
        self._records, self._lock = records, threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self.last_s = time.perf_counter()
            self.first_s = self.first_s or self.last_s
            self.count += count
            if self.count >= self._records:
                self.all.set()


def _take(bootstrap: str, taken: _Taken) -> None:
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": _GROUP, "log_level": 0})
    consumer.subscribe([_TOPIC])
    while not taken.all.is_set():
        records = [one for one in consumer.poll(0.2) if one.error() is None]
        if records:
            taken.add(len(records))
    consumer.close()


BENCHMARKS = (Benchmark("shares", run),)
