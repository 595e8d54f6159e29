"""Transactions and plain sends under kills, every operation written down and checked as Jepsen does it.

    python -m tests.soak.histories [--seconds 600] [--seed N] [--keep FOLDER]

Producers of both transaction versions (confluent-kafka, Java) and a plain idempotent one write to a topic;
consumers read committed and uncommitted, from start to end and here and there; broker and Java producer get
SIGKILL. `ottla.testing.histories` looks for what must never be. Prints a JSON summary; exits 1 if anything is.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ottla.testing.histories import Recorder, check, load
from ottla.testing.histories.recorder import Pending
from tests.oracle import programs
from tests.oracle.ottla import Ottla
from tests.soak.kills import Server, kill_and_restart, make_topic

TOPIC = "history"
PARTITIONS = 3
_ABORTS = 0.25
_PATIENCE_S = 60
_QUICK = {"reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50, "log_level": 0}


@dataclass(slots=True)
class Report:
    seconds: float = 0.0
    kills: int = 0
    producer_kills: int = 0
    sends: int = 0
    reads: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.wrong and self.sends > 0 and self.reads > 0


class Plain(threading.Thread):
    """An idempotent producer without transactions; one record at a time."""

    def __init__(self, bootstrap: str, history: Recorder, seed: int) -> None:
        super().__init__(name=f"plain-{seed}")
        self._config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, **_QUICK}
        self._history, self._chance, self.stop = history, random.Random(seed), threading.Event()

    def run(self) -> None:
        producer, count = Producer(self._config), 0
        while not self.stop.wait(self._chance.uniform(0, 0.02)):
            count += 1
            value, partition = f"{self.name}-{count}", self._chance.randrange(PARTITIONS)
            pending = self._history.send(self.name, TOPIC, value, partition=partition)
            producer.produce(TOPIC, value, partition=partition, on_delivery=_told(pending))
            producer.flush(_PATIENCE_S)


class Transactor(threading.Thread):
    """Transaction version 1. What fails for good starts again as a new process with the same id."""

    def __init__(self, bootstrap: str, history: Recorder, number: int, seed: int) -> None:
        super().__init__(name=f"transactor-{number}")
        self._address, self._history, self._chance = bootstrap, history, random.Random(seed)
        self.stop, self._process, self._lives = threading.Event(), self.name, 0

    def run(self) -> None:
        while not self.stop.is_set():
            self._lives += 1
            self._process = f"{self.name}-{self._lives}"
            with contextlib.suppress(KafkaException):
                self._live(transactional_producer(self._address, self.name))

    def _live(self, producer: Producer) -> None:
        count = 0
        while not self.stop.is_set():
            count += 1
            self._transact(producer, f"{self._process}-{count}")

    def _transact(self, producer: Producer, name: str) -> None:
        producer.begin_transaction()
        for k in range(self._chance.randint(1, 5)):
            value, partition = f"{name}-{k}", self._chance.randrange(PARTITIONS)
            pending = self._history.send(self._process, TOPIC, value, partition=partition, transaction=name)
            producer.produce(TOPIC, value, partition=partition, on_delivery=_told(pending))
        producer.flush(_PATIENCE_S)
        if self._chance.random() >= _ABORTS:
            commit = self._history.commit(self._process, name)
            try:
                _until_told(producer.commit_transaction)
                commit.ok()
                return
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise  # unknown: the next life goes on
                commit.fail()
        abort = self._history.abort(self._process, name)
        _until_told(producer.abort_transaction)
        abort.ok()


class Reader(threading.Thread):
    """Reads all partitions in order; a restless one jumps now and then."""

    def __init__(self, bootstrap: str, history: Recorder, name: str, committed: bool, jumps: float) -> None:
        super().__init__(name=name)
        level = "read_committed" if committed else "read_uncommitted"
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": name, "enable.auto.commit": False, **_QUICK}
            | {"isolation.level": level, "auto.offset.reset": "error", "fetch.wait.max.ms": 50}
            | {"enable.partition.eof": True}
        )
        self._history, self._committed, self._jumps = history, committed, jumps
        self._chance, self.stop = random.Random(name), threading.Event()
        self.ends = [0] * PARTITIONS  # where it last found nothing more

    def run(self) -> None:
        self._consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
        self._history.assign(self.name, [(TOPIC, each, 0) for each in range(PARTITIONS)])
        while not self.stop.is_set():
            read = []
            for each in self._consumer.consume(100, 0.1):
                if (error := each.error()) is None:
                    read.append((TOPIC, each.partition(), each.offset(), each.value()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    self.ends[each.partition()] = each.offset()
            if read:
                self._history.poll(self.name, read, committed_only=self._committed)
            if self._chance.random() < self._jumps:
                partition = self._chance.randrange(PARTITIONS)
                offset = self._chance.randint(0, self.ends[partition])
                self._consumer.seek(TopicPartition(TOPIC, partition, offset))
                self._history.seek(self.name, TOPIC, partition, offset)
        self._consumer.close()


class JavaTransactor:
    """Transaction version 2; a process that is killed, and then another one with its transactional id."""

    def __init__(self, bootstrap: str, folder: Path, seed: int) -> None:
        self._address, self._folder, self._seed, self._lives = bootstrap, folder, seed, 0
        self._process = self._start()

    def kill(self) -> None:
        self._process.kill()
        self._gone()
        self._process = self._start()

    def revive(self) -> None:
        if self._process.poll() is not None:
            self._gone()
            self._process = self._start()

    def close(self) -> None:
        self._process.kill()
        self._gone()

    def _gone(self) -> None:
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _start(self) -> subprocess.Popen[str]:
        self._lives += 1
        name = f"java-{self._lives}"
        told = [str(self._folder / f"{name}.jsonl"), self._address, TOPIC, str(PARTITIONS), "java", name]
        return programs.start(
            "Transactor", *told, str(self._seed + self._lives),
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


def run(
    seconds: float,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
    server: Callable[..., Server] = Ottla,
    java: bool = True,
    keep: Path | None = None,
) -> Report:
    """The whole story once."""
    report = Report(seconds)
    with tempfile.TemporaryDirectory(prefix="ottla-history-") as own, server() as broker:
        folder = keep or Path(own)
        make_topic(broker.bootstrap, TOPIC, PARTITIONS)
        with Recorder(folder / "python.jsonl") as history:
            _run(broker, history, folder, seed, report, say, java)
        found = check(load(*folder.glob("*.jsonl")), drained=True)
    report.sends, report.reads = found.sends, found.reads
    report.wrong += [str(each) for each in found.anomalies[:20]]
    return report


def _run(
    broker: Server,
    history: Recorder,
    folder: Path,
    seed: int,
    report: Report,
    say: Callable[[str], None],
    java: bool,
) -> None:
    chance, address = random.Random(seed), broker.bootstrap
    writers = [Plain(address, history, seed), *(Transactor(address, history, i, seed + i) for i in range(2))]
    readers = [
        Reader(address, history, "committed", True, 0),
        Reader(address, history, "uncommitted", False, 0),
        Reader(address, history, "restless", True, 0.1),
    ]
    foreign = JavaTransactor(address, folder, seed) if java else None
    for each in (*writers, *readers):
        each.start()
    try:
        deadline = time.monotonic() + report.seconds
        while time.monotonic() < deadline:
            time.sleep(chance.uniform(0.5, 5.0))
            if foreign is not None and chance.random() < 0.3:
                foreign.kill()
                report.producer_kills += 1
            else:
                report.kills += 1
                say(f"kill {report.kills}: back after {kill_and_restart(broker):.2f} s")
            if foreign is not None:
                foreign.revive()
    finally:
        for writer in writers:
            writer.stop.set()  # type: ignore[attr-defined]
        for writer in writers:
            writer.join()
        if foreign is not None:
            foreign.close()
        try:
            _drain(address, readers[:2], report)
        finally:
            for reader in readers:
                reader.stop.set()
            for reader in readers:
                reader.join()


def _drain(bootstrap: str, readers: list[Reader], report: Report) -> None:
    """Whatever a killed producer left open is aborted; then everything is read to the end."""
    for name in ("java", "transactor-0", "transactor-1"):
        transactional_producer(bootstrap, name)
    asker = Consumer({"bootstrap.servers": bootstrap, "group.id": "asker", **_QUICK})
    ends = [asker.get_watermark_offsets(TopicPartition(TOPIC, each), 30)[1] for each in range(PARTITIONS)]
    asker.close()
    deadline = time.monotonic() + _PATIENCE_S
    for reader in readers:
        while any(at < end for at, end in zip(reader.ends, ends, strict=True)):
            if time.monotonic() > deadline:
                report.wrong.append(f"{reader.name} never came to the end: {reader.ends} of {ends}")
                return
            time.sleep(0.05)


def transactional_producer(bootstrap: str, name: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 10_000}
        | {"linger.ms": 0, **_QUICK}
    )
    _until_told(producer.init_transactions)
    return producer


def _until_told(step: Callable[[float], None]) -> None:
    """A time-out of these calls says nothing yet: they are to be called again."""
    deadline = time.monotonic() + 2 * _PATIENCE_S
    while True:
        try:
            step(_PATIENCE_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def _told(pending: Pending) -> Callable[[KafkaError | None, Message], None]:
    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            pending.ok(message.partition(), message.offset())
        else:
            pending.unknown()

    return on_delivery


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--keep", type=Path, help="an empty folder for the history")
    options = parser.parse_args()
    report = run(options.seconds, options.seed, lambda line: print(line, file=sys.stderr), keep=options.keep)
    summary = {name: getattr(report, name) for name in Report.__slots__}
    print(json.dumps({"seed": options.seed, **summary}, indent=1))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
