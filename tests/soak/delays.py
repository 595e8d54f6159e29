"""Delayed delivery: records that say when they are due, taken by a share group; the broker dies in the middle.

    python -m tests.soak.delays [--records 100000] [--seconds 300] [--kills 1] [--seed N]

Every record comes once it is due, never before; how late, is measured. Those that were due while the broker was away,
or that nobody had acknowledged when it died, are counted apart: they are late by that.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from ottla import Acknowledge, Admin, Producer, ShareConsumer
from ottla.errors import OttlaError
from tests.oracle.ottla import Ottla
from tests.soak.kills import make_topic

TOPIC, GROUP = "reminders", "delayed"
PARTITIONS, MEMBERS = 4, 2
LEAD_S = 10  # the first is due when all are written
AWAY_S = 3  # around a kill: what is due then is not judged by its lateness
_STUCK_S = 120
SETTINGS = {"group.share.min.record.lock.duration.ms": 1000}
OF_GROUP = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "5000"}


@dataclass(slots=True)
class Report:
    records: int = 0
    kills: int = 0
    delivered: int = 0
    early: int = 0
    missing: int = 0
    beside_a_kill: int = 0
    late_p50_ms: float = 0.0
    late_p99_ms: float = 0.0
    late_max_ms: float = 0.0
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.early or self.missing or self.failures) and self.delivered > 0


class Member(threading.Thread):
    def __init__(self, bootstrap: str, taken: dict[int, float], early: list[int]) -> None:
        super().__init__(daemon=True)
        self._address, self._taken, self._early = bootstrap, taken, early
        self._over = threading.Event()

    def run(self) -> None:
        settings = {
            "bootstrap.servers": self._address,
            "group.id": GROUP,
            "share.acknowledgement.mode": "explicit",
        }
        with suppress(OttlaError), ShareConsumer(settings) as consumer:
            consumer.subscribe(TOPIC)
            while not self._over.is_set():
                try:
                    self._take(consumer)
                except OttlaError:
                    self._over.wait(0.1)  # the broker is away

    def _take(self, consumer: ShareConsumer) -> None:
        records = consumer.poll(0.5)
        now_s = time.time()
        for record in records:
            due_ms = int(record.value)
            if now_s * 1000 < due_ms:
                self._early.append(due_ms)
            self._taken.setdefault(int(record.key), now_s)
            consumer.acknowledge(record, Acknowledge.ACCEPT)
        consumer.commit()

    def stop(self) -> None:
        self._over.set()
        self.join()


def run(
    records: int, seconds: float, kills: int, seed: int, say: Callable[[str], None] = lambda _: None
) -> Report:
    chance, report = random.Random(seed), Report(records)
    with Ottla(settings=SETTINGS) as broker:
        make_topic(broker.bootstrap, TOPIC, PARTITIONS)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.alter_configs("group", GROUP, set_=OF_GROUP)
        begin_s = time.time() + LEAD_S
        dues = [begin_s + chance.uniform(0, seconds) for _ in range(records)]
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number, due_s in enumerate(dues):
                at = str(int(due_s * 1000)).encode()
                producer.send(TOPIC, at, key=str(number), headers=[("ottla-deliver-at", at)])
        say(f"{records} records are written")
        taken: dict[int, float] = {}
        early: list[int] = []
        members = [Member(broker.bootstrap, taken, early) for _ in range(MEMBERS)]
        for member in members:
            member.start()
        deaths = []
        for number in range(kills):
            time.sleep(max(0.0, begin_s + seconds * (number + 1) / (kills + 1) - time.time()))
            deaths.append(time.time())
            broker.kill()
            broker.restart()
            report.kills += 1
            say(f"killed after {len(taken)} records")
        deadline = begin_s + seconds + _STUCK_S
        while len(taken) < records and time.time() < deadline:
            time.sleep(0.1)
        for member in members:
            member.stop()
    _judge(report, dues, taken, deaths)
    report.early = len(early)
    return report


def _judge(report: Report, dues: list[float], taken: dict[int, float], deaths: list[float]) -> None:
    report.delivered, report.missing = len(taken), len(dues) - len(taken)
    late = []
    for number, at_s in taken.items():
        if any(-AWAY_S < dues[number] - death_s < AWAY_S for death_s in deaths):
            report.beside_a_kill += 1
        else:
            late.append(1000 * (at_s - dues[number]))
    late.sort()
    if late:
        report.late_p50_ms, report.late_p99_ms = late[len(late) // 2], late[len(late) * 99 // 100]
        report.late_max_ms = late[-1]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    report = run(options.records, options.seconds, options.kills, options.seed, print)
    print(json.dumps({name: getattr(report, name) for name in Report.__slots__}))
    return 0 if report.is_clean and report.late_p99_ms < 500 else 1


if __name__ == "__main__":
    sys.exit(main())
