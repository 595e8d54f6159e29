"""How long nobody leads: three brokers, replication factor 3, acks=all, a leader is killed. Beside Apache Kafka.

python -m bench.cluster [--rounds N] [--partitions N] [--kafka]
"""

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

PROBED = 12


class Probe:
    """A record every few milliseconds to each of some partitions; the longest silence of each."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self.acks: dict[int, list[float]] = {index: [] for index in range(partitions)}
        self.failed = 0
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "log_level": 0,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.max.ms": 200,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(60)

    def longest_silence(self, partition: int, since: float) -> float:
        times = [since, *(each for each in self.acks[partition] if each >= since)]
        return max((b - a for a, b in pairwise(times)), default=0.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            for index in range(self._partitions):
                self._producer.produce(self._topic, b"x" * 100, partition=index, on_delivery=self._on_ack)
            self._producer.poll(0.005)

    def _on_ack(self, error: object, message: object) -> None:
        if error is not None:
            self.failed += 1
        else:
            self.acks[message.partition()].append(time.monotonic())  # type: ignore[attr-defined]


def leaders(bootstrap: str, topic: str) -> dict[int, int]:
    metadata = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(topic, timeout=20)
    return {index: each.leader for index, each in metadata.topics[topic].partitions.items()}


@contextmanager
def ottla():
    """With the defaults that `ottla start` has."""

    from tests.cluster.processes import ProcessCluster

    with ProcessCluster(3, session_ms=6000, proxied=False, replica_lag_time_max_ms=30_000) as cluster:
        yield cluster.bootstrap, cluster.kill, cluster.start


@contextmanager
def kafka():
    from tests.oracle.cluster import Oracle

    with Oracle(brokers=3, heap="512M", settings={"min.insync.replicas": 2}) as cluster:
        yield cluster.bootstrap, cluster.kill, cluster.restart


def measure(name: str, make: Callable, rounds: int, partitions: int) -> None:
    with make() as (bootstrap, kill, restart):
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", partitions, 3)])["t"].result(120)
        probed = min(partitions, PROBED)
        dead, others = [], []
        for number in range(rounds):
            probe = Probe(bootstrap, "t", probed)
            time.sleep(4)
            lead = leaders(bootstrap, "t")
            victim = lead[number % probed]
            began = time.monotonic()
            kill(victim)
            time.sleep(15 if name == "kafka" else 8)
            probe.stop()
            silences = {index: probe.longest_silence(index, began) for index in range(probed)}
            dead.append(max(silences[index] for index in range(probed) if lead[index] == victim))
            others += [silences[index] for index in range(probed) if lead[index] != victim]
            restart(victim)
            time.sleep(6)
            print(f"  {name} round {number + 1}: {dead[-1]:.2f} s, others {max(others):.2f} s", flush=True)
        print(
            f"{name:6} {partitions} partitions: led by the dead {statistics.median(dead):.2f} s (worst "
            f"{max(dead):.2f}), the others {statistics.median(others):.2f} s (worst {max(others):.2f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.cluster", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka too")
    arguments = parser.parse_args()
    measure("ottla", ottla, arguments.rounds, arguments.partitions)
    if arguments.kafka:
        measure("kafka", kafka, arguments.rounds, arguments.partitions)


if __name__ == "__main__":
    main()
