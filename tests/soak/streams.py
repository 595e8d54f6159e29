"""Kafka Streams with exactly_once_v2 counts words while broker and application get SIGKILL: the counts are exact.

    python -m tests.soak.streams [--kills 20] [--seed N] [--protocol classic|streams]

The last count of every word in the committed output must be how often it was written. Prints a JSON summary;
exits 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.oracle import programs
from tests.oracle.ottla import Ottla
from tests.soak.kills import Server, kill_and_restart, make_topic

INPUT, OUTPUT, APPLICATION = "lines", "counts", "word-count"
PARTITIONS = 2
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_SETTLE_S = 120
# A killed member of a streams group is missed when its session ends, which the broker says.
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.min.session.timeout.ms": 6000,
    "group.streams.session.timeout.ms": 6000,
    "group.streams.min.heartbeat.interval.ms": 500,
    "group.streams.heartbeat.interval.ms": 500,
}


@dataclass(slots=True)
class Report:
    kills: int = 0
    application_kills: int = 0
    words: int = 0
    output: int = 0
    settle_seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.wrong


class Application:
    """The Streams program; a killed one starts again on its state folder, as under any supervisor."""

    def __init__(self, bootstrap: str, protocol: str = "classic") -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-streams-"))
        self._bootstrap, self._protocol = bootstrap, protocol
        self._process = self._start()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        self.kill()
        self._process = self._start()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> subprocess.Popen[str]:
        arguments = (self._bootstrap, APPLICATION, INPUT, OUTPUT, str(self._folder), self._protocol)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return programs.start("WordCount", *arguments, **quiet)


def run(
    kills: int,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
    server: Callable[..., Server] = Ottla,
    protocol: str = "classic",
) -> Report:
    """The whole story once: kills in turn of the broker and of the application."""
    chance, report, written = random.Random(seed), Report(kills), Counter[str]()
    with server(settings=SETTINGS) as broker:
        for topic in (INPUT, OUTPUT):
            make_topic(broker.bootstrap, topic, PARTITIONS)
        source = Producer(
            {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0}
            | {"reconnect.backoff.max.ms": 200}
        )
        application = Application(broker.bootstrap, protocol)
        try:
            _write(source, written, chance)
            _wait_until(lambda: bool(counts(broker.bootstrap)[0]), "the first count", report)
            for number in range(kills):
                _write(source, written, chance)
                time.sleep(chance.uniform(0.2, 3.0))
                if number % 2:
                    application.restart()
                    report.application_kills += 1
                else:
                    say(f"kill {number + 1}/{kills}: back after {kill_and_restart(broker):.2f} s")
            source.flush(60)
            begun = time.monotonic()
            _wait_until(lambda: counts(broker.bootstrap)[0] == written, "all counts", report)
            report.settle_seconds = round(time.monotonic() - begun, 2)
            _judge(broker.bootstrap, written, report)
        finally:
            application.close()
    return report


def counts(bootstrap: str) -> tuple[dict[str, int], list[tuple[str, int]]]:
    """Of each word the last committed count, and all of them in order."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "counts-reader", "enable.auto.commit": False}
        | {"isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0}
    )
    consumer.assign([TopicPartition(OUTPUT, each, 0) for each in range(PARTITIONS)])
    ended, found, deadline = 0, [], time.monotonic() + 30
    while ended < PARTITIONS and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.5):
            if (error := message.error()) is None:
                found.append((message.key().decode(), int.from_bytes(message.value(), "big")))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
    consumer.close()
    return dict(found), found


def _write(source: Producer, written: Counter[str], chance: random.Random) -> None:
    for _ in range(50):
        words = chance.choices(WORDS, k=5)
        source.produce(INPUT, " ".join(words).encode())
        written.update(words)
    source.poll(0)


def _wait_until(holds: Callable[[], bool], what: str, report: Report) -> None:
    deadline = time.monotonic() + _SETTLE_S
    while not holds():
        if time.monotonic() > deadline:
            report.wrong.append(f"not within {_SETTLE_S} s: {what}")
            return
        time.sleep(0.2)


def _judge(bootstrap: str, written: Counter[str], report: Report) -> None:
    """Exact at the end, and on the way there: a count may be skipped, but never comes down or again."""
    last, history = counts(bootstrap)
    report.words, report.output = written.total(), len(history)
    for word, count in written.items():
        if last.get(word) != count:
            report.wrong.append(f"{word}: {last.get(word)} counted, {count} written")
    seen: dict[str, int] = {}
    for word, count in history:
        if count <= seen.get(word, 0):
            report.wrong.append(f"{word}: {count} was counted after {seen[word]}")
        seen[word] = count


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--protocol", choices=("classic", "streams"), default="classic")
    options = parser.parse_args()
    say = partial(print, file=sys.stderr)
    report = run(options.kills, options.seed, say, protocol=options.protocol)
    summary = {name: getattr(report, name) for name in Report.__slots__}
    print(json.dumps({"seed": options.seed, **summary}, indent=1))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
