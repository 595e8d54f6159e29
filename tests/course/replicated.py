"""Three brokers whose followers can be held and whose leaders can be lost: Ottla's, and Apache Kafka's."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import confluent_kafka
import confluent_kafka.admin
import pytest

import ottla
from ottla.replication.fetcher import Fetcher
from tests.cluster.local import LocalCluster
from tests.course.faces import DEADLINE_S
from tests.oracle.cluster import Oracle, signal_oracle

# In this order brokers lead: 2, after its loss 3, at last 1, which in Apache Kafka is the controller as well.
REPLICAS = [2, 3, 1]
FETCH_WAIT_MS = 100
ACKS = ("0", "1", "all")
CLIENTS = ("ottla", "confluent")


class Servers(NamedTuple):
    ports: list[int]
    kill: Callable[[int], object]
    replicate: Callable[[bool], object]  # False: followers take nothing in, until True

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)


@contextmanager
def three_ottlas() -> Iterator[Servers]:
    real, running = Fetcher._on_data, [True]

    def take_in(self: Fetcher, *arguments: object) -> None:
        if running[0]:
            real(self, *arguments)  # type: ignore[arg-type]

    with LocalCluster(3) as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fetcher, "_on_data", take_in)
        yield Servers(list(cluster.ports.values()), cluster.kill, lambda on: running.__setitem__(0, on))


@contextmanager
def three_kafkas() -> Iterator[Servers]:
    settings = {
        "broker.session.timeout.ms": 10_000,  # followers are held for a part of it
        "broker.heartbeat.interval.ms": 500,
        "replica.fetch.wait.max.ms": FETCH_WAIT_MS,
    }
    with Oracle(brokers=3, controllers=1, heap="256M", settings=settings) as oracle:

        def replicate(on: bool) -> None:
            for broker in REPLICAS[1:]:
                signal_oracle(oracle, signal.SIGCONT if on else signal.SIGSTOP, broker)
            if not on:
                # What a follower had asked for before it stood still is answered yet, if only with nothing. A
                # record in that answer would be found in the socket later: it would not be lost.
                time.sleep(10 * FETCH_WAIT_MS / 1000)

        yield Servers([oracle.port + i for i in range(3)], oracle.kill, replicate)


SERVERS = {"ottla": three_ottlas, "kafka": three_kafkas}


class Sender:
    """A client's producers, one for each acks. Opened early: a broker that stands still answers no newcomer."""

    def __init__(self, client: str, bootstrap: str, **more: Any) -> None:
        self.client = client
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "retry.backoff.ms": 20, **more}
        self._producers: dict[str, Any] = {
            acks: (ottla.Producer if client == "ottla" else _confluent)({**settings, "acks": acks})
            for acks in ACKS
        }

    def begin(self, topic: str, value: str, acks: str) -> Sent:
        sent = Sent()
        producer = self._producers[acks]
        if self.client == "ottla":
            producer.send(topic, value, callback=sent.told)
        else:
            producer.produce(topic, value, on_delivery=lambda error, message: sent.told(message, error))
            sent.look = producer.poll
        return sent

    def send(self, topic: str, value: str, acks: str = "all") -> int:
        """The offset, once it is acknowledged."""
        sent = self.begin(topic, value, acks)
        assert sent.is_told(DEADLINE_S), f"{self.client}: {value} was not acknowledged"
        assert sent.error is None, sent.error
        return sent.offset

    def close(self) -> None:
        for producer in self._producers.values():
            producer.close(0) if self.client == "ottla" else producer.purge()


class Sent:
    """What became of a record."""

    def __init__(self) -> None:
        self.done = False
        self.offset: Any = -1
        self.error: Any = None
        self.look: Callable[[float], object] = time.sleep

    def told(self, where: Any, error: Any) -> None:
        if error is None:
            self.offset = where.offset if isinstance(where.offset, int) else where.offset()
        self.error, self.done = error, True

    def is_told(self, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while not self.done and time.monotonic() < deadline:
            self.look(0.01)
        return self.done


def _confluent(settings: dict[str, Any]) -> Any:
    more = {"reconnect.backoff.max.ms": 200, "log_level": 0}
    if settings["acks"] != "all":
        more["enable.idempotence"] = False
    return confluent_kafka.Producer({**settings, **more})


class Watching:
    """A consumer of each client at the end of a topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._ours = ottla.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        self._ours.assign([(topic, 0)])
        self._theirs = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "watching", "log_level": 0}
        )
        self._theirs.assign([confluent_kafka.TopicPartition(topic, 0, 0)])

    def read(self, within_s: float, count: int = 1) -> dict[str, list[str]]:
        """What each sees: as soon as it is so many records, at the latest when the time is over."""
        seen: dict[str, list[str]] = {name: [] for name in CLIENTS}
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline and any(len(each) < count for each in seen.values()):
            seen["ottla"] += [record.value.decode() for record in self._ours.poll(0.05)]
            found = self._theirs.consume(10, 0.05)
            seen["confluent"] += [message.value().decode() for message in found if not message.error()]
        return seen

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
