"""Share groups under kills: every record is accepted, and none comes again after its acceptance was confirmed.

    python -m tests.soak.shares [--kills 100] [--seed N]

Members take records, accept, release or forget them, come and go; the broker gets SIGKILL at random moments and starts
again on its folder. A history of deliveries and confirmed acceptances is checked while it is written.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Producer

from ottla import Acknowledge, Admin, ShareConsumer
from ottla.errors import OttlaError
from tests.oracle.ottla import Ottla
from tests.soak.kills import make_topic

TOPIC, GROUP = "shared-work", "sharers"
PARTITIONS, MEMBERS = 2, 4
_STUCK_S = 180
# Nobody waits half a minute for what a member forgot; a record is not given up before everybody had it.
SETTINGS = {
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.max.delivery.count.limit": 1000,
}
OF_GROUP = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": "2000",
    "share.delivery.count.limit": "1000",
}


@dataclass(slots=True)
class Report:
    kills: int = 0
    sent: int = 0
    delivered: int = 0
    accepted: int = 0
    unknown: int = 0
    came_again: int = 0
    missing: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.came_again or self.missing or self.failures) and self.accepted > 0


class History:
    """What members were given, and which acceptances a broker has confirmed."""

    def __init__(self, report: Report) -> None:
        self._report, self._lock = report, threading.Lock()
        self.accepted: set[bytes] = set()
        self.unknown: set[bytes] = (
            set()
        )  # accepted, and the answer got lost: they may be done with, or come again

    def decided(self) -> int:
        with self._lock:
            return len(self.accepted | self.unknown)

    def on_delivered(self, values: list[bytes]) -> None:
        with self._lock:
            self._report.delivered += len(values)
            self._report.came_again += sum(value in self.accepted for value in values)

    def on_accepted(self, values: list[bytes]) -> None:
        with self._lock:
            self.accepted.update(values)

    def on_unknown(self, values: list[bytes]) -> None:
        with self._lock:
            self.unknown.update(values)


class Member(threading.Thread):
    """Takes records until it is told to stop; now and then it leaves, and comes back as another member."""

    def __init__(self, bootstrap: str, seed: int, history: History) -> None:
        super().__init__(daemon=True)
        self._address, self._chance, self._history = bootstrap, random.Random(seed), history
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            try:
                self._one_life()
            except OttlaError:
                self._over.wait(0.2)  # the broker is away

    def stop(self) -> None:
        self._over.set()
        self.join()

    def _one_life(self) -> None:
        settings = {
            "bootstrap.servers": self._address,
            "group.id": GROUP,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 20,
            "default.api.timeout.ms": 10_000,
        }
        with ShareConsumer(settings) as consumer:
            consumer.subscribe(TOPIC)
            for _ in range(self._chance.randint(10, 60)):
                if self._over.is_set():
                    return
                self._work(consumer)

    def _work(self, consumer: ShareConsumer) -> None:
        records = consumer.poll(0.3)
        self._history.on_delivered([record.value for record in records])
        accepted = []
        for record in records:
            kind = Acknowledge.RELEASE if self._chance.random() < 0.2 else Acknowledge.ACCEPT
            consumer.acknowledge(record, kind)
            if kind is Acknowledge.ACCEPT:
                accepted.append(record.value)
        if records:
            try:
                consumer.commit()
            except OttlaError:
                self._history.on_unknown(accepted)
                raise
            self._history.on_accepted(accepted)


def run(kills: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Report:
    chance, report = random.Random(seed), Report()
    history = History(report)
    with Ottla(settings=SETTINGS) as broker:
        make_topic(broker.bootstrap, TOPIC, PARTITIONS)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.alter_configs("group", GROUP, set_=OF_GROUP)
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0}
            | {"message.timeout.ms": 300_000, "error_cb": lambda _: None}
        )
        members = [Member(broker.bootstrap, seed + number, history) for number in range(MEMBERS)]
        for member in members:
            member.start()
        try:
            for _ in range(kills):
                for _ in range(chance.randint(50, 200)):
                    producer.produce(TOPIC, b"%d" % report.sent)
                    report.sent += 1
                producer.poll(0)
                time.sleep(chance.uniform(0.3, 2))
                broker.kill()
                broker.restart()
                report.kills += 1
                say(f"kill {report.kills}: {len(history.accepted)} of {report.sent} accepted")
            assert not producer.flush(120), "the records were not written"
            _wait_for_all(history, report)
        finally:
            for member in members:
                member.stop()
        report.accepted, report.unknown = len(history.accepted), len(history.unknown - history.accepted)
        report.missing = report.sent - history.decided()
    return report


def _wait_for_all(history: History, report: Report) -> None:
    deadline = time.monotonic() + _STUCK_S
    while history.decided() < report.sent:
        if time.monotonic() > deadline:
            report.failures.append(f"{report.sent - history.decided()} records were never accepted")
            return
        time.sleep(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    report = run(options.kills, options.seed, print)
    print(json.dumps({name: getattr(report, name) for name in Report.__slots__}))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
