"""Share groups under kills: every record is accepted, and none comes again without a reason.

    python -m tests.soak.shares [--kills 100] [--seed N] [--brokers 3]

Members take records, accept, release or forget them, leave, crash and come back; the broker gets SIGKILL at random
moments and starts again on its folder, with three brokers one of them, so that leaders change. `share_history` judges
what was delivered to whom, and how often.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import Producer

from ottla import Acknowledge, Admin, ShareConsumer
from ottla.errors import OttlaError
from tests.cluster.processes import ProcessCluster
from tests.oracle.ottla import Ottla
from tests.soak.kills import make_topic
from tests.soak.share_history import ACCEPT, RELEASE, History

TOPIC, GROUP = "shared-work", "sharers"
PARTITIONS, MEMBERS = 2, 4
LOCK_S = 2.0
_STUCK_S = 180
# Nobody waits half a minute for what a member forgot; a record is not given up before everybody had it.
SETTINGS = {
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.max.delivery.count.limit": 1000,
    "group.share.session.timeout.ms": 6000,
    "group.share.heartbeat.interval.ms": 1000,
}
OF_GROUP = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": "2000",
    "share.delivery.count.limit": "1000",
}


@dataclass(slots=True)
class Report:
    brokers: int = 1
    kills: int = 0
    sent: int = 0
    delivered: int = 0
    accepted: int = 0
    unknown: int = 0
    crashes: int = 0
    missing: int = 0
    anomalies: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.anomalies or self.missing or self.failures) and self.accepted > 0


class Member(threading.Thread):
    """Takes records until it is told to stop; now and then it leaves or crashes, and comes back as another member."""

    def __init__(self, bootstrap: str, seed: int, history: History) -> None:
        super().__init__(daemon=True)
        self._address, self._chance, self._history = bootstrap, random.Random(seed), history
        self._name, self._lives = f"member-{seed}", 0
        self._over = threading.Event()
        self.crashes = 0

    def run(self) -> None:
        while not self._over.is_set():
            self._lives += 1
            try:
                self._one_life(f"{self._name}.{self._lives}")
            except OttlaError:
                self._over.wait(0.2)  # the broker is away

    def stop(self) -> None:
        self._over.set()
        self.join()

    def _one_life(self, name: str) -> None:
        settings = {
            "bootstrap.servers": self._address,
            "group.id": GROUP,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 20,
            "default.api.timeout.ms": 10_000,
        }
        consumer = ShareConsumer(settings)
        try:
            consumer.subscribe(TOPIC)
            for _ in range(self._chance.randint(5, 30)):
                if self._over.is_set():
                    break
                self._work(name, consumer)
            if self._chance.random() < 0.5 and not self._over.is_set():
                self.crashes += 1
                self._history.on_ended(name)
                consumer._engine.close()  # its connections end, and nobody says good-bye
                return
        finally:
            self._history.on_ended(name)
            consumer.close()

    def _work(self, name: str, consumer: ShareConsumer) -> None:
        asked_s = time.monotonic()
        records = consumer.poll(0.3)
        taken = [(record.value, consumer.delivery_count(record)) for record in records]
        deliveries = self._history.on_delivered(name, asked_s, taken)
        for record, delivery in zip(records, deliveries, strict=True):
            delivery.kind = RELEASE if self._chance.random() < 0.2 else ACCEPT
            delivery.decided_s = time.monotonic()
            kind = Acknowledge.RELEASE if delivery.kind == RELEASE else Acknowledge.ACCEPT
            consumer.acknowledge(record, kind)
        if records:
            consumer.commit()
            for delivery in deliveries:
                delivery.confirmed = True


class Target(NamedTuple):
    bootstrap: str
    kill: Callable[[random.Random, History], None]  # one broker; it is back when this returns


@contextmanager
def _one_broker() -> Iterator[Target]:
    with Ottla(settings=SETTINGS) as broker:

        def kill(_: random.Random, history: History) -> None:
            broker.kill()
            history.on_death()
            broker.restart()

        yield Target(broker.bootstrap, kill)


@contextmanager
def _cluster(brokers: int) -> Iterator[Target]:
    # Leaders that change although nobody died would free locks without a reason that the judge knows.
    settings: dict[str, Any] = {"auto.leader.rebalance.enable": "false", **SETTINGS}
    with ProcessCluster(brokers, **settings) as cluster:

        def kill(chance: random.Random, history: History) -> None:
            killed = chance.choice(cluster.ids)
            cluster.kill(killed)
            history.on_death()
            time.sleep(chance.uniform(0, 5))  # with a session of 3 s some leaders change, some come back
            cluster.start(killed)
            history.on_death()  # a leader that came back within its session has another epoch

        yield Target(cluster.bootstrap, kill)


def run(kills: int, seed: int, say: Callable[[str], None] = lambda _: None, brokers: int = 1) -> Report:
    chance, report = random.Random(seed), Report(brokers)
    history = History(LOCK_S)
    with _one_broker() if brokers == 1 else _cluster(brokers) as target:
        make_topic(target.bootstrap, TOPIC, PARTITIONS)
        with Admin(bootstrap_servers=target.bootstrap) as admin:
            admin.alter_configs("group", GROUP, set_=OF_GROUP)
        producer = Producer(
            {"bootstrap.servers": target.bootstrap, "enable.idempotence": True, "log_level": 0}
            | {"message.timeout.ms": 300_000, "error_cb": lambda _: None}
        )
        members = [Member(target.bootstrap, seed + number, history) for number in range(MEMBERS)]
        for member in members:
            member.start()
        try:
            for _ in range(kills):
                for _ in range(chance.randint(50, 200)):
                    producer.produce(TOPIC, b"%d" % report.sent)
                    report.sent += 1
                producer.poll(0)
                time.sleep(chance.uniform(0.3, 2))
                target.kill(chance, history)
                report.kills += 1
                say(f"kill {report.kills}: {len(history.accepted())} of {report.sent} accepted")
            assert not producer.flush(120), "the records were not written"
            _wait_for_all(history, report)
        finally:
            for member in members:
                member.stop()
        report.crashes = sum(member.crashes for member in members)
    judge(history, report)
    return report


def judge(history: History, report: Report) -> None:
    accepted, unknown = history.accepted(), history.unknown()
    report.accepted, report.unknown = len(accepted), len(unknown)
    report.delivered = sum(map(len, history.deliveries.values()))
    report.missing = report.sent - len(accepted | unknown)
    anomalies = list(history.anomalies())
    report.anomalies, report.failures = len(anomalies), report.failures + anomalies[:5]


def _wait_for_all(history: History, report: Report) -> None:
    deadline = time.monotonic() + _STUCK_S
    while (left := report.sent - len(history.accepted() | history.unknown())) > 0:
        if time.monotonic() > deadline:
            report.failures.append(f"{left} records were never accepted")
            return
        time.sleep(0.5)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--brokers", type=int, default=1)
    options = parser.parse_args()
    report = run(options.kills, options.seed, print, options.brokers)
    print(json.dumps({name: getattr(report, name) for name in Report.__slots__}))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
