"""Pipelines killed in every way: counts are exact, and no count goes back or comes twice.

    python -m tests.soak.pipelines [--kills 50] [--seed N] [--kafka] [--seconds 1800]

A producer writes words; a pipeline of two stages counts them, on two executors. Workers, executors, the driver with its
JVM and the broker get SIGKILL. The driver dies before, inside or after a commit, by turns, or at a random moment; the
others at random moments, half of them while the pipeline still recovers from the last kill. Workers also kill
themselves around commits; state files and the number of Spark tasks change between starts. When the seconds are over,
no more is killed, and what happened by then is judged.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
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
from functools import partial
from pathlib import Path
from typing import Protocol

from confluent_kafka import Producer

from ottla.client.admin import Admin
from ottla.errors import OttlaError
from ottla.pipelines.status import status
from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla
from tests.soak.kills import make_topic, read_all
from tests.soak.pipeline_driver import AFTER, BEFORE, COUNTS, INSIDE, NAME, WORDS
from tests.soak.processes import descendants, kill
from tests.spark.standalone import standalone

_ROOT = Path(__file__).parents[2]
_STUCK_S = 300
CHANCE = 0.004  # of a worker's death around each call
_SOON_S = 60  # within which a worker is there to be killed, and a trap is sprung
MOMENTS = (BEFORE, INSIDE, AFTER, "any")  # when the driver dies
SERVERS: tuple[Callable[[], Ottla | Oracle], ...] = (Ottla, lambda: Oracle(heap="512M"))


@dataclass(slots=True)
class Report:
    server: str = ""
    kills: dict[str, int] = field(default_factory=dict)
    moments: dict[str, int] = field(default_factory=dict)
    lost_files: int = 0
    words: int = 0
    results: int = 0
    wrong: int = 0
    went_back: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.wrong or self.went_back or self.failures) and self.results > 0


class Load(threading.Thread):
    """Words, each under its number, until it is told to stop."""

    def __init__(self, bootstrap: str, seed: int, topic: str) -> None:
        super().__init__(daemon=True)
        self._topic = topic
        self._chance, self._over = random.Random(seed), threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
            | {"message.timeout.ms": 300_000, "error_cb": lambda _: None}
        )
        self.sent: Counter[str] = Counter()

    def run(self) -> None:
        while not self._over.wait(0.1):
            for _ in range(50):
                word = f"w{self._chance.randint(0, 299)}"
                self._producer.produce(self._topic, word.encode(), b"i%d" % self.sent.total())
                self.sent[word] += 1
            self._producer.poll(0)

    def finish(self) -> None:
        self._over.set()
        self.join()
        assert not self._producer.flush(120), "the words were not written"


class Alive(Protocol):
    """What may end by itself, which it must not."""

    @property
    def is_alive(self) -> bool: ...


class Driver:
    """The process of the query, and all that it starts."""

    def __init__(self, bootstrap: str, folder: Path, module: str, master: str) -> None:
        self.module = module
        self._trap = folder / "trap"
        self._trap.unlink(missing_ok=True)
        command = [sys.executable, "-m", module, bootstrap, str(folder), str(CHANCE), master]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONUNBUFFERED": "1"}
        self.log = folder / "driver.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=_ROOT, env=environment)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        for pid in self._pids():
            kill(pid)
        self.process.wait()

    def kill_at(self, moment: str) -> bool:
        """A worker does it when it comes to this moment of a commit. Whether one came; dead it is in any case."""
        prepared = self._trap.with_suffix(".tmp")
        prepared.write_text(" ".join([moment, *map(str, self._pids())]))
        prepared.rename(self._trap)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_SOON_S)
        sprung = self.process.poll() == -signal.SIGKILL
        self.kill()
        return sprung

    def _pids(self) -> list[int]:
        return [self.process.pid, *descendants(self.process.pid)]


def kill_one(what: bytes, chance: random.Random) -> bool:
    """One of the processes below this one whose command line has these words; whether there was one."""
    running = [pid for pid in descendants(os.getpid()) if what in _command(pid)]
    if running:
        kill(chance.choice(running))
    return bool(running)


@dataclass(frozen=True)
class Story:
    """What is killed: a pipeline's name, the module of its driver, its topics (the words come to the first named), and
    what must be true in the end."""

    name: str
    driver: str
    words: str
    topics: tuple[str, ...]
    judge: Callable[[Report, str, Load], None]
    prepare: Callable[[str], None] = lambda _: None


def counting() -> Story:
    return Story(NAME, "tests.soak.pipeline_driver", WORDS, (WORDS, COUNTS), judge_counts)


def run(
    kills: int,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
    server: Callable[[], Ottla | Oracle] = Ottla,
    story: Story | None = None,
    seconds: float = math.inf,
) -> Report:
    """`kills` of each kind, or as many as the seconds allow."""
    story = story or counting()
    chance, report = random.Random(seed), Report()
    folder = Path(tempfile.mkdtemp(prefix="ottla-pipeline-soak-"))
    with standalone(folder, "1g") as master, server() as broker:
        report.server = broker.name
        for topic in story.topics:
            make_topic(broker.bootstrap, topic, 3)
        story.prepare(broker.bootstrap)
        load = Load(broker.bootstrap, seed, story.words)
        load.start()
        driver = Driver(broker.bootstrap, folder, story.driver, master)
        begun = time.monotonic()
        try:
            wait_for_progress(broker.bootstrap, story.name, driver)
            for kind in kill_order(kills, chance):
                if time.monotonic() - begun > seconds:
                    break
                if chance.random() < 0.5:  # else it strikes a pipeline that still recovers
                    wait_for_progress(broker.bootstrap, story.name, driver)
                time.sleep(chance.uniform(0, 1.5))
                driver = _strike(kind, chance, report, broker, driver, folder, master)
                report.kills[kind] = report.kills.get(kind, 0) + 1
                say(f"{time.monotonic() - begun:.0f} s: {kind} {report.kills[kind]}")
            wait_for_progress(broker.bootstrap, story.name, driver)
            load.finish()
            report.words = load.sent.total()
            drain(broker.bootstrap, story.name, driver)
            story.judge(report, broker.bootstrap, load)
        except (RuntimeError, OttlaError) as error:
            report.failures.append(f"{error}; {driver.log} ends with {_tail(driver.log)}")
        finally:
            driver.kill()
    if report.is_clean:
        shutil.rmtree(folder, ignore_errors=True)
    return report


def kill_order(kills: int, chance: random.Random, broker_kills: int | None = None) -> list[str]:
    counts = {"worker": kills, "executor": kills, "driver": kills, "broker": kills}
    if broker_kills is not None:
        counts["broker"] = broker_kills
    order = [kind for kind, count in counts.items() for _ in range(count)]
    chance.shuffle(order)
    return order


def _strike(
    kind: str,
    chance: random.Random,
    report: Report,
    broker: Ottla | Oracle,
    driver: Driver,
    folder: Path,
    master: str,
) -> Driver:
    match kind:
        case "worker":
            _kill_soon(b"daemon\0pyspark.worker", chance, driver)
        case "executor":
            _kill_soon(b"CoarseGrainedExecutorBackend", chance, driver)
        case "broker":
            broker.kill()
            broker.restart()
        case _:
            moment = MOMENTS[report.kills.get(kind, 0) % len(MOMENTS)]
            if moment == "any" or not driver.kill_at(moment):
                moment = "any"
                driver.kill()
            report.moments[moment] = report.moments.get(moment, 0) + 1
            if chance.random() < 0.3:
                shutil.rmtree(folder / "state", ignore_errors=True)
                report.lost_files += 1
            return Driver(broker.bootstrap, folder, driver.module, master)
    return driver


def _kill_soon(what: bytes, chance: random.Random, driver: Driver) -> None:
    """After a kill there may be none of the kind for some seconds."""
    deadline = time.monotonic() + _STUCK_S
    while not kill_one(what, chance):
        if time.monotonic() > deadline or not driver.is_alive:
            raise RuntimeError(f"there is no process with {what!r}")
        time.sleep(0.1)


def _records(bootstrap: str, name: str) -> tuple[int, int]:
    """Read so far by all stages, and the lag. Before the first step there is no pipeline."""
    with contextlib.suppress(OttlaError), Admin(bootstrap_servers=bootstrap) as admin:
        tasks = status(admin, name)
        return sum(task.commit.figures.records for task in tasks), sum(task.lag for task in tasks)
    return -1, -1


def wait_for_progress(bootstrap: str, name: str, driver: Alive) -> None:
    before, deadline = _records(bootstrap, name)[0], time.monotonic() + _STUCK_S
    while _records(bootstrap, name)[0] <= before:
        if time.monotonic() > deadline or not driver.is_alive:
            raise RuntimeError("the pipeline does not go on")
        time.sleep(0.2)


def drain(bootstrap: str, name: str, driver: Alive) -> None:
    """Markers of transactions count as lag until the next step, so a lag that stays small and still is none."""
    deadline, still = time.monotonic() + _STUCK_S, 0
    before = (-1, -1)
    while still < 30:
        seen = _records(bootstrap, name)
        still = still + 1 if seen == before and seen[0] > 0 and seen[1] < 20 else 0
        before = seen
        if time.monotonic() > deadline or not driver.is_alive:
            raise RuntimeError(f"the pipeline does not come to its end: {seen}")
        time.sleep(0.5)


def judge_counts(report: Report, bootstrap: str, load: Load) -> None:
    found: dict[str, list[int]] = {}
    for partition in range(3):
        for value in read_all(bootstrap, COUNTS, partition, **{"isolation.level": "read_committed"}):
            word, count = value.decode().split()
            found.setdefault(word, []).append(int(count))
    report.results = sum(map(len, found.values()))
    report.wrong = sum(found.get(word, [0])[-1] != count for word, count in load.sent.items())
    report.went_back = sum(counts != sorted(set(counts)) for counts in found.values())


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-1500:]


def main(run: Callable[..., Report] = run, text: str | None = __doc__) -> int:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="of each kind (50)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--kafka", action="store_true", help="on Apache Kafka")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which nothing more is killed")
    options = parser.parse_args()
    say = partial(print, flush=True)
    report = run(options.kills, options.seed, say, SERVERS[options.kafka], seconds=options.seconds)
    print(json.dumps({name: getattr(report, name) for name in Report.__slots__}))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
