"""Spark drivers killed at random moments: the committed output equals the input, and the group's offsets agree.

    python -m tests.soak.spark_exactly_once [--kills 50] [--seed N] [--kafka]

A producer writes numbered records; a query copies them in transactions. The driver and its JVM get SIGKILL (half
of the time its Python workers live on), also before, between and after the ends of a micro-batch's transactions;
tasks fail at random; the broker is killed now and then.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla
from tests.soak.kills import make_topic, read_all
from tests.soak.processes import descendants, kill
from tests.soak.spark_driver import MOMENTS

INPUT, OUTPUT, PARTITIONS = "spark-in", "spark-out", 3
_ROOT = Path(__file__).parents[2]
_STUCK_S = 300
SERVERS: tuple[Callable[[], Ottla | Oracle], ...] = (Ottla, lambda: Oracle(heap="512M"))


@dataclass(slots=True)
class Report:
    server: str = ""
    kills: int = 0
    moments: dict[str, int] = field(default_factory=dict)
    broker_kills: int = 0
    starts: int = 0
    input: int = 0
    output: int = 0
    missing: int = 0
    doubled: int = 0
    aborted_copies: int = 0
    lag: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.doubled or self.lag or self.failures) and self.output == self.input


class Driver:
    """One life of the query's process. It starts Spark, and does nothing until `order` tells what."""

    def __init__(self, bootstrap: str, checkpoint: Path) -> None:
        command = [sys.executable, "-m", "tests.soak.spark_driver", bootstrap, INPUT, OUTPUT, str(checkpoint)]
        self._lines: queue.Queue[str] = queue.Queue()
        self.jvm = 0
        self.log = checkpoint.with_suffix(".log")
        environment = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONUNBUFFERED": "1"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=_ROOT,
                env=environment,
            )
        threading.Thread(target=self._read, daemon=True).start()

    def order(self, *options: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # dead already: whoever waits for it will see
            self.process.stdin.write(" ".join(options) + "\n")
            self.process.stdin.flush()

    def wait_for(self, word: str, timeout_s: float = _STUCK_S) -> bool:
        """Until it says `word`; False if it has ended before."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                line = self._lines.get(timeout=0.2)
            except queue.Empty:
                if self.process.poll() is not None and self._lines.empty():
                    return False
                continue
            if line.startswith("jvm "):
                self.jvm = int(line.split()[1])
            if line.startswith(word):
                return True
        self.kill(workers=True)
        raise RuntimeError(f"the query said nothing for {timeout_s} s; see {self.log}: {self.tail()}")

    def kill(self, *, workers: bool) -> None:
        """SIGKILL for the driver and its JVM; `workers`: for all that they have started, too."""
        family = descendants(self.process.pid) if workers else []
        for pid in (self.process.pid, self.jvm, *family):
            if pid:
                kill(pid)
        self.process.wait()

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.strip())


class Drivers:
    """One works, the next one starts its session meanwhile: that takes longer than most of them live."""

    def __init__(self, bootstrap: str, checkpoint: Path) -> None:
        self._bootstrap = bootstrap
        self.checkpoint = checkpoint
        self._spare: Driver | None = None

    def next(self, *, spare: bool = True) -> Driver:
        found = self._spare or Driver(self._bootstrap, self.checkpoint)
        self._spare = Driver(self._bootstrap, self.checkpoint) if spare else None
        return found

    def close(self) -> None:
        if self._spare is not None:
            self._spare.kill(workers=True)


class Load(threading.Thread):
    """Numbered records, until it is told to stop."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
            | {"message.timeout.ms": 300_000, "error_cb": lambda _: None}
        )
        self._stop_asked = threading.Event()
        self.sent = 0
        self.failed: list[str] = []

    def run(self) -> None:
        while not self._stop_asked.wait(0.1):  # slow enough for a query that is dead most of the time
            for _ in range(20):
                self._producer.produce(
                    INPUT, b"%d" % self.sent, b"k%d" % (self.sent % 997), on_delivery=self._delivered
                )
                self.sent += 1
            self._producer.poll(0)

    def finish(self) -> None:
        self._stop_asked.set()
        self.join()
        if self._producer.flush(120):
            self.failed.append("the input was not written")

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self.failed.append(str(error))


def run(
    kills: int,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
    server: Callable[[], Ottla | Oracle] = Ottla,
) -> Report:
    """The whole story once."""
    chance, report = random.Random(seed), Report()
    folder = Path(tempfile.mkdtemp(prefix="ottla-spark-soak-"))
    with server() as broker:
        report.server = broker.name
        for topic in (INPUT, OUTPUT):
            make_topic(broker.bootstrap, topic, PARTITIONS)
        load = Load(broker.bootstrap)
        load.start()
        drivers = Drivers(broker.bootstrap, folder / "checkpoint")
        try:
            _story(kills, chance, report, broker, drivers, say)
        except RuntimeError as error:
            report.failures.append(str(error))
        finally:
            load.finish()
        report.failures += load.failed
        if not report.failures:
            _drain(drivers.next(spare=False), report)
        drivers.close()
        _judge(report, broker.bootstrap, load.sent)
    if report.is_clean:
        shutil.rmtree(folder, ignore_errors=True)
    return report


def _story(
    kills: int,
    chance: random.Random,
    report: Report,
    broker: Ottla | Oracle,
    drivers: Drivers,
    say: Callable[[str], None],
) -> None:
    order = [("outside", *MOMENTS)[i % 4] for i in range(kills)]
    chance.shuffle(order)
    batch, begun = 0, time.monotonic()
    while report.kills < kills:
        moment = order[report.kills]
        options = ["--fail", "0.05"]
        if moment != "outside":
            options += ["--die", moment, "--at", str(batch + chance.randrange(1, 4))]
        driver = drivers.next()
        driver.order(*options)
        report.starts += 1
        lived = driver.wait_for("batch ")
        if lived and chance.random() < 0.2:
            time.sleep(chance.uniform(0, 1))
            broker.kill()
            broker.restart()
            report.broker_kills += 1
        if moment == "outside" and lived:
            time.sleep(chance.choice((0.0, 0.1, 0.5, 2.0)) * chance.uniform(0.2, 1.5))
            driver.kill(workers=chance.random() < 0.5)
        elif lived:
            _wait_dead(driver)
        died = driver.process.wait() == -signal.SIGKILL
        batch = _last_batch(drivers.checkpoint)
        if died:
            report.kills += 1
            report.moments[moment] = report.moments.get(moment, 0) + 1
        say(
            f"{time.monotonic() - begun:.0f} s: start {report.starts}: {moment}, "
            f"{'killed' if died else 'failed by itself'}, at batch {batch}"
        )
        if report.starts > 3 * kills + 10:
            raise RuntimeError(f"too many failures without a kill: {driver.tail()}")


def _wait_dead(driver: Driver) -> None:
    deadline = time.monotonic() + _STUCK_S
    while driver.process.poll() is None:
        if time.monotonic() > deadline:
            driver.kill(workers=True)
            raise RuntimeError(f"the query did not reach its last moment: {driver.tail()}")
        time.sleep(0.05)


def _last_batch(checkpoint: Path) -> int:
    names = [int(each.name) for each in (checkpoint / "offsets").glob("*") if each.name.isdigit()]
    return max(names, default=0)


def _drain(driver: Driver, report: Report) -> None:
    """Undisturbed to the end."""
    driver.order("--drain", "--limit", "100000")
    try:
        ended = driver.process.wait(_STUCK_S)
    except subprocess.TimeoutExpired:
        driver.kill(workers=True)
        ended = -1
    if ended != 0:
        report.failures.append(f"the last run failed: {driver.tail()}")


def _judge(report: Report, bootstrap: str, sent: int) -> None:
    report.input = sent
    committed = Counter(
        value
        for partition in range(PARTITIONS)
        for value in read_all(bootstrap, OUTPUT, partition, **{"isolation.level": "read_committed"})
    )
    everything = sum(
        len(read_all(bootstrap, OUTPUT, p, **{"isolation.level": "read_uncommitted"}))
        for p in range(PARTITIONS)
    )
    report.output = sum(committed.values())
    report.missing = sum(b"%d" % number not in committed for number in range(sent))
    report.doubled = sum(count - 1 for count in committed.values())
    report.aborted_copies = everything - report.output
    report.lag = _lag(bootstrap)


def _lag(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"copy-{INPUT}", "log_level": 0})
    try:
        found = consumer.committed([TopicPartition(INPUT, p) for p in range(PARTITIONS)], timeout=30)
        return sum(consumer.get_watermark_offsets(each)[1] - max(each.offset, 0) for each in found)
    finally:
        consumer.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--kafka", action="store_true", help="on Apache Kafka")
    options = parser.parse_args()
    server = SERVERS[options.kafka]
    report = run(options.kills, options.seed, lambda line: print(line, file=sys.stderr, flush=True), server)
    summary = {name: getattr(report, name) for name in report.__slots__}
    print(json.dumps({"seed": options.seed, "clean": report.is_clean, **summary}))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
