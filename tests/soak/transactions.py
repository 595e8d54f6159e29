"""Exactly once under kills: copiers with random aborts; broker and copiers die by SIGKILL at random moments.

    python -m tests.soak.transactions [--kills 50] [--seed N] [--client confluent-kafka]

A read_committed reader watches the output all the time and in the end: it must be the input, in order, in
every partition, and the group's offsets must say the same. Prints a JSON summary; exits 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.oracle import programs
from tests.oracle.ottla import Ottla
from tests.soak import copier
from tests.soak.kills import Server, kill_and_restart, make_topic, read_all

Login = dict[str, str]  # what a client of a secured broker sets besides the address
INPUT, OUTPUT, GROUP = "copy-in", "copy-out", "copiers"
PARTITIONS = 3
_SETTLE_S = 300
_SILENT_S = {name: 60 if name == copier.JAVA else 20 for name in copier.COPIERS}  # a JVM takes its time
# A killed copier keeps its partitions until its session ends. Members of the new protocol have the broker's, 45 s:
# longer than a copier may be silent. Each pair that was replaced for its silence then waited for the pair before
# it, was replaced as well, and nobody was left who owned a partition and lived.
_SESSION_MS, _HEARTBEAT_MS = 6000, 500
_SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.session.timeout.ms": _SESSION_MS,
    "group.consumer.session.timeout.ms": _SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": _HEARTBEAT_MS,
    "group.consumer.heartbeat.interval.ms": _HEARTBEAT_MS,
}


@dataclass(slots=True)
class Report:
    client: str = ""
    kills: int = 0
    copier_kills: int = 0
    copier_exits: int = 0
    copiers_silent: int = 0
    input: int = 0
    output: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.wrong


class Copiers:
    """Copier processes that are started again whenever they end."""

    def __init__(
        self, client: str, bootstrap: str, seed: int, report: Report, login: Login | None = None
    ) -> None:
        self._client, self._bootstrap, self._seed, self._report = client, bootstrap, seed, report
        self._environment = {**os.environ, copier.LOGIN: json.dumps(login or {})}
        self._running: list[subprocess.Popen[bytes]] = [self._start(i) for i in range(copier.COPIERS[client])]

    def kill_one(self, chance: random.Random) -> None:
        index = chance.randrange(len(self._running))
        self._end(index)
        self._running[index] = self._start(index)
        self._report.copier_kills += 1

    def replace_all(self) -> None:
        for index in range(len(self._running)):
            self._end(index)
            self._running[index] = self._start(index)

    def revive(self) -> None:
        for index, process in enumerate(self._running):
            if process.poll() is not None:
                self._running[index] = self._start(index)
                self._report.copier_exits += 1

    def close(self) -> None:
        for index in range(len(self._running)):
            self._end(index)

    def _end(self, index: int) -> None:
        self._running[index].kill()
        self._running[index].wait()

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        self._seed += 1
        names = [self._bootstrap, INPUT, OUTPUT, GROUP, f"copier-{index}", str(self._seed)]
        command = [sys.executable, "-W", "ignore", "-m", "tests.soak.copier", self._client, *names]
        if self._client == copier.JAVA:
            command = programs.command("Copier", *names)
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, stdout=quiet, stderr=quiet, env=self._environment)


class Watcher(threading.Thread):
    """Reads the committed output all the while; whatever it sees must be the next of the input."""

    def __init__(self, bootstrap: str, report: Report, login: Login | None = None) -> None:
        super().__init__(name="watcher")
        self._login = login or {}
        self._address, self._report, self.stop = bootstrap, report, threading.Event()
        self.seen: dict[int, int] = defaultdict(int)

    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._address,
                "group.id": "watcher",
                "enable.auto.commit": False,
                "log_level": 0,
            }
            | {
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 200,
            }
            | self._login
        )
        consumer.assign([TopicPartition(OUTPUT, partition, 0) for partition in range(PARTITIONS)])
        while not self.stop.is_set():
            for message in consumer.consume(1000, 0.2):
                if message.error():
                    continue
                partition, number = message.partition(), int(message.value())
                if number != self.seen[partition] and len(self._report.wrong) < 20:
                    expected = self.seen[partition]
                    self._report.wrong.append(f"partition {partition}: {number} where {expected} was due")
                self.seen[partition] = number + 1
        consumer.close()


def run(
    kills: int,
    seed: int,
    client: str = "confluent-kafka",
    say: Callable[[str], None] = lambda _: None,
    server: Callable[..., Server] = Ottla,
) -> Report:
    """The whole story once."""
    chance, report, written = random.Random(seed), Report(client, kills), [0] * PARTITIONS
    with server(settings=_SETTINGS) as broker:
        for topic in (INPUT, OUTPUT):
            make_topic(broker.bootstrap, topic, PARTITIONS)
        source = Producer(
            {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0}
            | {"reconnect.backoff.max.ms": 200}
        )
        watcher, copiers = Watcher(broker.bootstrap, report), Copiers(client, broker.bootstrap, seed, report)
        watcher.start()
        try:
            for number in range(kills):
                _write(source, written, 300)
                time.sleep(chance.uniform(0.3, 3.0))
                if chance.random() < 0.4:
                    copiers.kill_one(chance)
                else:
                    say(f"kill {number + 1}/{kills}: back after {kill_and_restart(broker):.2f} s")
                copiers.revive()
            source.flush(60)
            _wait_until_copied(watcher, written, copiers, report)
        finally:
            copiers.close()
            watcher.stop.set()
            watcher.join()
        _judge(broker.bootstrap, written, report)
    return report


def _write(source: Producer, written: list[int], count: int) -> None:
    for i in range(count):
        partition = i % PARTITIONS
        source.produce(INPUT, str(written[partition]).encode(), partition=partition)
        written[partition] += 1
        source.poll(0)


def _wait_until_copied(watcher: Watcher, written: list[int], copiers: Copiers, report: Report) -> None:
    """librdkafka may wait for ever in send_offsets_to_transaction after a restart, with every request of its
    answered; such a copier is killed like any other that its owner finds silent, and counted."""
    deadline, seen, since = time.monotonic() + _SETTLE_S, 0, time.monotonic()
    while any(watcher.seen[partition] < count for partition, count in enumerate(written)):
        copiers.revive()
        if (now := sum(watcher.seen.values())) > seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > _SILENT_S[report.client]:
            report.copiers_silent += 1
            copiers.replace_all()
            since = time.monotonic()
        if time.monotonic() > deadline:
            report.wrong.append(f"stuck: {dict(watcher.seen)} of {written} were copied")
            return
        time.sleep(0.1)


def _judge(bootstrap: str, written: list[int], report: Report, login: Login | None = None) -> None:
    report.input = sum(written)
    for partition, count in enumerate(written):
        settings = {"isolation.level": "read_committed"} | (login or {})
        values = read_all(bootstrap, OUTPUT, partition, **settings)
        report.output += len(values)
        if values != [str(i).encode() for i in range(count)]:
            report.wrong.append(
                f"partition {partition}: {len(values)} records, not the {count} of the input in order"
            )
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP} | (login or {}))
    asked = [TopicPartition(INPUT, each) for each in range(PARTITIONS)]
    offsets = [each.offset for each in reader.committed(asked, 30)]
    reader.close()
    if offsets != written:
        report.wrong.append(f"{offsets} are the offsets of what was copied, not {written}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--client", choices=sorted(copier.COPIERS), default="confluent-kafka")
    options = parser.parse_args()
    report = run(options.kills, options.seed, options.client, lambda line: print(line, file=sys.stderr))
    print(
        json.dumps(
            {"seed": options.seed, **{name: getattr(report, name) for name in Report.__slots__}}, indent=1
        )
    )
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
