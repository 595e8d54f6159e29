"""Kill -9 in the middle of rebalances and commits: no acknowledged commit is lost, no group stays stuck.

    python -m tests.soak.groups [--kills 50] [--seed N]

Members of a classic and of a new-protocol group join, leave and crash while the broker is killed. Each member
commits synchronously and notes what was acknowledged. Prints a JSON summary; exits 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.oracle.ottla import Ottla
from tests.soak.kills import Server, kill_and_restart, make_topic

TOPIC = "shared"
PARTITIONS = 6
_SETTLE_S = 90


@dataclass(slots=True)
class Report:
    kills: int = 0
    members_started: int = 0
    commits: int = 0
    wrong: list[str] = field(default_factory=list)
    settle_seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        return not self.wrong


class Ledger:
    """What a group was told is committed, and what it has seen; shared by its members."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.committed: dict[int, int] = {}
        self.seen: dict[int, set[int]] = {}
        self.commits = 0

    def saw(self, partition: int, offset: int) -> None:
        with self._lock:
            self.seen.setdefault(partition, set()).add(offset)

    def acknowledged(self, offsets: list[TopicPartition]) -> None:
        with self._lock:
            self.commits += 1
            for each in offsets:
                if each.error is None and each.offset >= 0:
                    self.committed[each.partition] = max(each.offset, self.committed.get(each.partition, 0))


class Member(threading.Thread):
    """One consumer; `leave` ends it in good order, `crash` without a word to the group."""

    def __init__(self, bootstrap: str, group: str, protocol: str, ledger: Ledger) -> None:
        super().__init__(name=group)
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        if protocol == "consumer":
            config["group.protocol"] = "consumer"
        else:
            config |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
        self._config, self._ledger = config, ledger
        self.leave, self.crash = threading.Event(), threading.Event()

    def run(self) -> None:
        consumer = Consumer(self._config)
        consumer.subscribe([TOPIC])
        while not (self.leave.is_set() or self.crash.is_set()):
            messages = [each for each in consumer.consume(50, 0.1) if not each.error()]
            for each in messages:
                self._ledger.saw(each.partition(), each.offset())
            if messages:
                with contextlib.suppress(KafkaException):  # not acknowledged: it may count or not
                    self._ledger.acknowledged(consumer.commit(asynchronous=False) or [])
        if self.crash.is_set():
            return  # dropped without closing: the session has to run out
        consumer.close()


def run(
    kills: int,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
    server: Callable[..., Server] = Ottla,
) -> Report:
    """The whole story once."""
    chance, report, written = random.Random(seed), Report(kills), 0
    groups = {"classic-group": ("classic", Ledger()), "consumer-group": ("consumer", Ledger())}
    settings = {"group.initial.rebalance.delay.ms": 0, "group.consumer.session.timeout.ms": 45_000}
    with server(settings=settings) as broker:
        make_topic(broker.bootstrap, TOPIC, PARTITIONS)
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        members: dict[str, list[Member]] = {name: [] for name in groups}

        def join(group: str) -> None:
            protocol, ledger = groups[group]
            members[group].append(Member(broker.bootstrap, group, protocol, ledger))
            members[group][-1].start()
            report.members_started += 1

        for name in groups:
            join(name)
        try:
            for number in range(kills):
                for _ in range(200):
                    producer.produce(TOPIC, b"x", partition=written % PARTITIONS)
                    written += 1
                producer.poll(0)
                for name, present in members.items():
                    if len(present) < 2 or (len(present) < 4 and chance.random() < 0.6):
                        join(name)
                    else:
                        present.pop(chance.randrange(len(present))).leave.set()
                time.sleep(chance.uniform(0.1, 2.5))
                say(f"kill {number + 1}/{kills}: back after {kill_and_restart(broker):.2f} s")
            producer.flush(60)
            _wait_until_all_is_read({name: ledger for name, (_, ledger) in groups.items()}, written, report)
        finally:
            for each in [member for present in members.values() for member in present]:
                each.leave.set()
            for thread in threading.enumerate():
                if isinstance(thread, Member):
                    thread.join(60)
        for name, (_, ledger) in groups.items():
            _judge(broker.bootstrap, name, ledger, report)
    return report


def _wait_until_all_is_read(ledgers: dict[str, Ledger], written: int, report: Report) -> None:
    begun = time.monotonic()
    for name, ledger in ledgers.items():
        while (seen := sum(map(len, ledger.seen.values()))) < written:
            if time.monotonic() - begun > _SETTLE_S:
                report.wrong.append(f"{name} is stuck: read {seen} of {written}")
                return
            time.sleep(0.1)
    report.settle_seconds = round(time.monotonic() - begun, 2)


def _judge(bootstrap: str, group: str, ledger: Ledger, report: Report) -> None:
    report.commits += ledger.commits
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    stored = reader.committed([TopicPartition(TOPIC, each) for each in range(PARTITIONS)], 30)
    reader.close()
    for each in stored:
        acknowledged = ledger.committed.get(each.partition, 0)
        if each.offset < acknowledged:
            report.wrong.append(
                f"{group}/{each.partition}: {acknowledged} was acknowledged, {each.offset} is stored"
            )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    report = run(options.kills, options.seed, lambda line: print(line, file=sys.stderr))
    print(
        json.dumps(
            {"seed": options.seed, **{name: getattr(report, name) for name in Report.__slots__}}, indent=1
        )
    )
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
