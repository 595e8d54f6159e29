"""Kill -9 under idempotent load: nothing acknowledged may be missing, doubled or out of order.

    python -m tests.soak.kills [--kills 100] [--seed N] [--producers 4]

Several producers write numbered records, each to partitions of its own order; the broker is killed at random
moments and started again on the same folder and port; in the end everything is read back and held against
what was acknowledged. Prints a JSON summary; exits 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla

Server = Ottla | Oracle  # the harness itself is shown right on Apache Kafka
TOPIC = "kills"
PARTITIONS = 3
_STUCK_S = 60
_PAYLOAD = b"." * 200


@dataclass(slots=True)
class Load:
    """One idempotent producer, in a thread of its own, that numbers its records by partition."""

    bootstrap: str
    name: str
    stop: threading.Event
    sent: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    acknowledged: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    failures: list[str] = field(default_factory=list)
    _thread: threading.Thread | None = None

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.copy().values()))

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self.name)
        self._thread.start()

    def join(self) -> None:
        assert self._thread is not None
        self._thread.join()

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "queue.buffering.max.messages": 2000,  # short, so that every kill meets fresh records
                "message.timeout.ms": 300_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "error_cb": self._on_error,
                "log_level": 0,
            }
        )
        partition = 0
        while not self.stop.is_set():
            partition = (partition + 1) % PARTITIONS
            number = self.sent[partition]
            value = f"{self.name} {number} ".encode() + _PAYLOAD
            try:
                producer.produce(
                    TOPIC, value, partition=partition, on_delivery=self._on_delivery(partition, number)
                )
                self.sent[partition] = number + 1
            except BufferError:
                producer.poll(0.05)
            producer.poll(0)
            if number % 50 == 0:
                producer.poll(0.002)  # leaves the processor to the broker now and then
        if (left := producer.flush(120)) > 0:
            self.failures.append(f"{left} records were neither acknowledged nor refused")

    def _on_delivery(self, partition: int, number: int) -> Callable[[KafkaError | None, Message], None]:
        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.acknowledged[partition].append(number)
            else:
                self.failures.append(f"record {number} of partition {partition}: {error}")

        return on_delivery

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.failures.append(f"fatal: {error}")


@dataclass(slots=True)
class Report:
    kills: int = 0
    acknowledged: int = 0
    read: int = 0
    unacknowledged_but_there: int = 0
    missing: int = 0
    doubled: int = 0
    out_of_order: int = 0
    failures: list[str] = field(default_factory=list)
    restart_seconds_median: float = 0.0
    restart_seconds_max: float = 0.0

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.doubled or self.out_of_order or self.failures)


def run(
    kills: int,
    seed: int,
    producers: int = 4,
    say: Callable[[str], None] = lambda _: None,
    server: Callable[[], Server] = Ottla,
) -> Report:
    """The whole story once."""
    chance, report, stop, restarts = random.Random(seed), Report(kills), threading.Event(), []
    with server() as broker:
        make_topic(broker.bootstrap, TOPIC, PARTITIONS)
        loads = [Load(broker.bootstrap, f"p{i}", stop) for i in range(producers)]
        for load in loads:
            load.start()
        try:
            seen = 0
            for number in range(kills):
                seen = wait_for_progress(loads, beyond=seen)
                time.sleep(chance.choice((0.0, 0.05, 0.3, 1.0)) * chance.uniform(0.2, 1.5))
                restarts.append(kill_and_restart(broker))
                say(f"kill {number + 1}/{kills}: back after {restarts[-1]:.2f} s")
            time.sleep(0.5)
        finally:
            stop.set()
            for load in loads:
                load.join()
        found = [read_all(broker.bootstrap, TOPIC, partition) for partition in range(PARTITIONS)]
    report.restart_seconds_median = round(sorted(restarts)[len(restarts) // 2], 3) if restarts else 0.0
    report.restart_seconds_max = round(max(restarts, default=0.0), 3)
    judge(report, loads, found)
    return report


def wait_for_progress(loads: list[Load], beyond: int) -> int:
    """A kill tells something only while records are being acknowledged; gives how many are by now."""
    deadline = time.monotonic() + _STUCK_S
    while (count := sum(load.count for load in loads)) <= beyond:
        if time.monotonic() > deadline:
            raise RuntimeError(f"nothing was acknowledged for {_STUCK_S} s")
        time.sleep(0.005)
    return count


def kill_and_restart(broker: Server) -> float:
    """SIGKILL, start again on the same folder and port; the seconds until it serves."""
    broker.kill()
    begun = time.monotonic()
    broker.start()
    return time.monotonic() - begun


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def read_all(bootstrap: str, topic: str, partition: int, **settings: Any) -> list[bytes]:
    """Every value of a partition, from the first to the end as it is now."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "soak-reader", "enable.auto.commit": False, **settings}
        | {"enable.partition.eof": True, "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    try:
        while True:
            for message in consumer.consume(10_000, 1.0):
                error = message.error()
                if error is None:
                    values.append(message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    return values
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()


def judge(report: Report, loads: list[Load], found: list[list[bytes]]) -> None:
    """Hold what is there against what was acknowledged."""
    for load in loads:
        report.failures += load.failures
    for partition, values in enumerate(found):
        by_producer: dict[str, list[int]] = defaultdict(list)
        for value in values:
            name, number, _ = value.split(b" ", 2)
            by_producer[name.decode()].append(int(number))
        report.read += len(values)
        for load in loads:
            numbers, acknowledged = by_producer[load.name], set(load.acknowledged[partition])
            report.acknowledged += len(acknowledged)
            report.missing += len(acknowledged - set(numbers))
            report.doubled += len(numbers) - len(set(numbers))
            report.out_of_order += sum(b < a for a, b in itertools.pairwise(numbers))
            report.unacknowledged_but_there += len(set(numbers) - acknowledged)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--producers", type=int, default=4)
    options = parser.parse_args()
    report = run(options.kills, options.seed, options.producers, lambda line: print(line, file=sys.stderr))
    print(
        json.dumps(
            {"seed": options.seed, **{name: getattr(report, name) for name in Report.__slots__}}, indent=1
        )
    )
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
