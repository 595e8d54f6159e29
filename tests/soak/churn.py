"""Groups whose members join, leave, crash and fall silent: one owner at a time, nothing skipped, all settles.

    python -m tests.soak.churn [--steps 30] [--seed N] [--flavour "new protocol"] [--members 10]

Members are processes of the public clients (`member.py`, Java's `Member`); they say what they are given, read
and commit, and `judge` holds that against the rules. Prints a JSON summary; exits 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import Consumer, ConsumerGroupState, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.oracle import programs
from tests.oracle.ottla import Ottla
from tests.soak.kills import Server, make_topic
from tests.soak.ownership import Event, Judge

TOPIC, GROUP = "churn", "churners"
PARTITIONS = 6
SESSION_S = 6.0
_SETTLE_S = 120.0  # most of it to start processes on a busy machine
JAVA = "java"
_JAVA_ASSIGNORS = "org.apache.kafka.clients.consumer."
_CLASSIC = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.session.timeout.ms": 6000,
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 1000,
}


class Flavour(NamedTuple):
    """Which clients share the group, and what each of them is told."""

    clients: dict[str, dict[str, str]]
    static: bool = False


def _range(*clients: str) -> dict[str, dict[str, str]]:
    java = {**_CLASSIC, "partition.assignment.strategy": _JAVA_ASSIGNORS + "RangeAssignor"}
    other = {**_CLASSIC, "partition.assignment.strategy": "range"}
    return {each: java if each == JAVA else other for each in clients}


_COOPERATIVE = {
    "confluent-kafka": {**_CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    JAVA: {**_CLASSIC, "partition.assignment.strategy": _JAVA_ASSIGNORS + "CooperativeStickyAssignor"},
}
_NEW = {each: {"group.protocol": "consumer"} for each in ("confluent-kafka", JAVA)}
FLAVOURS = {
    "all clients, range": Flavour(_range("confluent-kafka", "kafka-python", "aiokafka", JAVA)),
    "cooperative": Flavour(_COOPERATIVE),
    "new protocol": Flavour(_NEW),
    "static members": Flavour(_range("confluent-kafka", JAVA), static=True),
    "new protocol, static members": Flavour(_NEW, static=True),
    **{each: Flavour(_range(each)) for each in ("confluent-kafka", "kafka-python", "aiokafka", JAVA)},
    **{f"{each}, cooperative": Flavour({each: _COOPERATIVE[each]}) for each in _COOPERATIVE},
    **{f"{each}, new protocol": Flavour({each: _NEW[each]}) for each in _NEW},
}


@dataclass(slots=True)
class Report:
    flavour: str = ""
    steps: int = 0
    joins: int = 0
    leaves: int = 0
    crashes: int = 0
    pauses: int = 0
    most_members: int = 0
    records: int = 0
    reads_again: int = 0
    overlaps: int = 0
    losses: int = 0
    commits: int = 0
    settle_median_s: float = 0.0
    settle_max_s: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.wrong


class Member:
    """A process and the thread that reads what it says."""

    def __init__(
        self,
        name: str,
        client: str,
        bootstrap: str,
        settings: dict[str, str],
        on_event: Callable[[Event], None],
    ) -> None:
        self.name, self._on_event = name, on_event
        told = [bootstrap, GROUP, TOPIC, *(f"{key}={value}" for key, value in settings.items())]
        command = [sys.executable, "-W", "ignore", "-m", "tests.soak.member", client, name, *told]
        if client == JAVA:
            command = programs.command("Member", name, *told)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read, name=name)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at, _, said = line.partition(" ")
            if not at.isdigit():  # of somebody else's, a virtual machine's, say
                at, said = str(time.monotonic_ns()), f"strange {line}"
            what, *rest = said.split()
            self._on_event(Event(int(at), self.name, what, tuple(rest)))

    def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def crash(self) -> None:
        self._process.kill()
        self._on_event(Event(time.monotonic_ns(), self.name, "crashed"))

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._on_event(Event(time.monotonic_ns(), self.name, "paused"))
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            self._on_event(Event(time.monotonic_ns(), self.name, "resumed"))
            os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


class Writer(threading.Thread):
    """Numbered records to every partition, slowly, all the while."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="writer")
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self.stop, self.written = threading.Event(), [0] * PARTITIONS

    def run(self) -> None:
        while not self.stop.wait(0.05):
            for partition in range(PARTITIONS):
                self._producer.produce(TOPIC, str(self.written[partition]).encode(), partition=partition)
                self.written[partition] += 1
            self._producer.poll(0)
        self._producer.flush(30)


class Crowd:
    """The members that live, and what to do with them."""

    def __init__(self, bootstrap: str, flavour: Flavour, judge: Judge, chance: random.Random) -> None:
        self._bootstrap, self._flavour, self._judge, self._chance = bootstrap, flavour, judge, chance
        self.living: dict[str, tuple[Member, str | None]] = {}
        self._all: list[Member] = []
        self._clients = list(flavour.clients)

    def join(self, instance: str | None = None) -> None:
        client = self._clients[len(self._all) % len(self._clients)]
        settings, name = dict(self._flavour.clients[client]), f"m{len(self._all)}"
        if self._flavour.static:
            instance = instance or f"static-{name}"
            settings["group.instance.id"] = instance
        member = Member(name, client, self._bootstrap, settings, self._judge.on_event)
        self._all.append(member)
        self.living[name] = member, instance

    def leave(self) -> None:
        """A static member does not say goodbye: its place is kept until the session is over."""
        self._taken()[0].leave()

    def crash(self) -> None:
        """A static member that crashed comes back under its instance id.

        In the new protocol not before its session is over: UNRELEASED_INSTANCE_ID is the end of a client.
        """
        member, instance = self._taken()
        member.crash()
        if instance is not None:
            if self._flavour.clients == _NEW:
                time.sleep(SESSION_S + 1.5)
            self.join(instance)

    def pause(self, seconds: float) -> None:
        member, _ = self.living[self._chance.choice(sorted(self.living))]
        with member.paused():
            time.sleep(seconds)

    def close(self) -> None:
        for member, _ in self.living.values():
            member.leave()
        for member in self._all:
            member.close()

    def _taken(self) -> tuple[Member, str | None]:
        return self.living.pop(self._chance.choice(sorted(self.living)))


def run(
    flavour: str,
    steps: int,
    seed: int,
    most: int = 10,
    say: Callable[[str], None] = lambda _: None,
    server: Callable[..., Server] = Ottla,
) -> Report:
    """The whole story once."""
    chance, report, judge, settled = random.Random(seed), Report(flavour, steps), Judge(), []
    with server(settings=SETTINGS) as broker:
        make_topic(broker.bootstrap, TOPIC, PARTITIONS)
        writer, crowd = Writer(broker.bootstrap), Crowd(broker.bootstrap, FLAVOURS[flavour], judge, chance)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        writer.start()
        try:
            for number in range(steps):
                _step(number, crowd, chance, most, report)
                if number + 1 == steps or chance.random() < 0.6:  # else the next one meets a rebalance
                    settled.append(_settle(admin, crowd, judge, report))
                    say(
                        f"{flavour}: step {number + 1}/{steps}, {len(crowd.living)} members, {settled[-1]:.1f} s"
                    )
            writer.stop.set()
            writer.join()
            _wait(lambda: judge.has_read(writer.written), "everything is read", report)
            _wait(
                lambda: judge.committed == dict(enumerate(writer.written)), "everything is committed", report
            )
        finally:
            writer.stop.set()
            crowd.close()
            writer.join()
        judge = judge.in_order()
        report.wrong += judge.wrong[:20]
        report.wrong += _lost_commits(broker.bootstrap, judge)
        if report.wrong:
            print(*_evidence(judge, broker), sep="\n", file=sys.stderr)
    report.records, report.commits, report.overlaps = sum(writer.written), judge.commits, judge.overlaps
    report.losses = judge.losses
    report.reads_again = judge.reads_again
    report.settle_median_s, report.settle_max_s = round(statistics.median(settled), 2), round(max(settled), 2)
    return report


def _step(number: int, crowd: Crowd, chance: random.Random, most: int, report: Report) -> None:
    count = len(crowd.living)
    grows = number < most // 2 and number % 2 == 0  # a crowd first, or there is nothing to see
    what = "join" if count < 2 or grows else chance.choice(("join", "join", "leave", "crash", "pause"))
    if what == "join" and count >= most:
        what = "leave"
    match what:
        case "join":
            for _ in range(chance.randint(1, min(3, most - count))):
                crowd.join()
                report.joins += 1
        case "leave":
            crowd.leave()
            report.leaves += 1
        case "crash":
            crowd.crash()
            report.crashes += 1
        case _:
            crowd.pause(chance.choice((1.0, SESSION_S + 2.5)))
            report.pauses += 1
    report.most_members = max(report.most_members, len(crowd.living))


def _settle(admin: AdminClient, crowd: Crowd, judge: Judge, report: Report) -> float:
    """Until every partition has an owner among the living, evenly, and the others are idle."""
    names = set(crowd.living)
    begun = time.monotonic()
    _wait(lambda: judge.is_spread(names, PARTITIONS), f"{len(names)} members share evenly", report)
    _wait(lambda: _is_stable(admin, len(names)), f"a stable group of {len(names)}", report)
    _wait(lambda: judge.is_spread(names, PARTITIONS), f"{len(names)} members still share evenly", report)
    return time.monotonic() - begun


def _is_stable(admin: AdminClient, members: int) -> bool:
    described = admin.describe_consumer_groups([GROUP])[GROUP].result(30)
    return described.state == ConsumerGroupState.STABLE and len(described.members) == members


def _wait(holds: Callable[[], bool], what: str, report: Report) -> None:
    deadline = time.monotonic() + _SETTLE_S
    while not holds():
        if time.monotonic() > deadline:
            report.wrong.append(f"not within {_SETTLE_S} s: {what}")
            return
        time.sleep(0.01)


def _lost_commits(bootstrap: str, judge: Judge) -> Iterable[str]:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    stored = reader.committed([TopicPartition(TOPIC, each) for each in range(PARTITIONS)], 30)
    reader.close()
    for each in stored:
        if each.offset < judge.committed.get(each.partition, 0):
            yield f"partition {each.partition}: {judge.committed} was acknowledged, {each.offset} is stored"


def _evidence(judge: Judge, broker: Server) -> Iterator[str]:
    """What went on, for whoever looks for the cause; gone with the broker otherwise."""
    for each in judge.events[-5000:]:
        if each.what not in ("read", "committed"):
            yield f"{each.at_ns / 1e9:.3f} {each.member} {each.what} {' '.join(each.rest)}"
    if isinstance(broker, Ottla):
        yield f"now {time.monotonic():.3f}"
        yield broker.log_tail(500)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--flavour", choices=FLAVOURS, action="append")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--kafka", action="store_true", help="on Apache Kafka: the harness itself is right")
    options = parser.parse_args()
    clean = True
    for flavour in options.flavour or FLAVOURS:
        server: Callable[..., Server] = Ottla
        if options.kafka:
            from tests.oracle.cluster import Oracle as server
        report = run(
            flavour,
            options.steps,
            options.seed,
            options.members,
            lambda line: print(line, file=sys.stderr),
            server,
        )
        summary = {name: getattr(report, name) for name in Report.__slots__}
        print(json.dumps({"seed": options.seed, **summary}), flush=True)
        clean = clean and report.is_clean
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
