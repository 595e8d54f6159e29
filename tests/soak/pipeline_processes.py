"""The protocol of pipelines under kills, without a JVM: driver and workers are plain processes on two "hosts".

    python -m tests.soak.pipeline_processes [--story counts|joins] [--kills 50] [--seed N] [--kafka] [--seconds 600]

Spark plans nothing in a pipeline: it hands out shares of work, runs one again when its worker died, and starts workers.
Here some lines do that, so a kill costs a second instead of half a minute, and full counts fit into minutes. What takes
over, restores, steps and commits is the same code as in Spark's workers. The hosts have state files of their own, and a
share goes to either, so that catching up from the changelog is the rule. Workers whose driver died go on with their
step, as Spark's do: their commits race with the next driver's.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import queue
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from ottla.errors import OttlaError
from ottla.pipelines.driver import Driver
from ottla.pipelines.errors import PipelineError, StateLost, TakenOver
from ottla.pipelines.planning import spread
from ottla.pipelines.state.spec import StoreChanged
from ottla.pipelines.topology import Pipeline
from ottla.pipelines.worker import worker
from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla
from tests.soak import pipeline_driver, pipelines, stream_driver, stream_joins
from tests.soak.kills import make_topic
from tests.soak.pipelines import CHANCE, MOMENTS, SERVERS, Load, Report, Story

HOSTS, WORKERS = 2, 2  # workers of each host
ATTEMPTS = 4  # as Spark's spark.task.maxFailures
_SOON_S = 60
_FORKING = multiprocessing.get_context("forkserver")  # with everything imported: a start takes milliseconds
STORIES: dict[str, tuple[Callable[[], Story], Callable[[str, str, float], Pipeline]]] = {
    "counts": (pipelines.counting, pipeline_driver.pipeline),
    "joins": (stream_joins.story, stream_driver.pipeline),
}


def make_pipeline(story: str, bootstrap: str, folder: str, host: int) -> Pipeline:
    plain = STORIES[story][1](bootstrap, folder, CHANCE)
    return replace(plain, state_dir=f"{folder}/host-{host}")


# -- the driver's process ------------------------------------------------------------------------------------


class Pool:
    """Workers that have connected. A share goes to any of them."""

    def __init__(self, address: str) -> None:
        Path(address).unlink(missing_ok=True)
        self._listener = Listener(address)
        self._idle: queue.Queue[Connection[Any, Any]] = queue.Queue()
        threading.Thread(target=self._accept, daemon=True).start()

    def run(self, share: Any) -> None:
        """Again when it fails, as Spark does."""
        failure = "its workers died"
        for attempt in range(ATTEMPTS):
            try:
                connection = self._idle.get(timeout=_SOON_S)
                connection.send((*share, attempt > 0))
                failure = connection.recv()
            except queue.Empty:
                raise PipelineError("no worker came") from None
            except (EOFError, OSError):
                continue
            self._idle.put(connection)
            if not failure:
                return
        raise PipelineError(failure)

    def _accept(self) -> None:
        while True:
            self._idle.put(self._listener.accept())


def drive(story: str, bootstrap: str, folder: str, tasks: int) -> None:
    """Until it dies; ends by itself only for what no new start can mend."""
    pool, pipeline = Pool(f"{folder}/driver"), make_pipeline(story, bootstrap, folder, 0)
    while True:
        try:
            _run(pool, pipeline, tasks)
        except (TakenOver, StateLost, StoreChanged) as error:
            print(f"the driver ends: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
        except OttlaError as error:
            if any(kind in str(error) for kind in ("StateLost", "StoreChanged", "BadChange")):
                print(f"the driver ends: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            time.sleep(0.25)


def _run(pool: Pool, pipeline: Pipeline, tasks: int) -> None:
    run_id, driver = uuid.uuid4().hex, Driver(pipeline)
    try:
        driver.start()
        with ThreadPoolExecutor(tasks) as shares:
            while True:
                works = driver.plan()
                if not works:
                    driver.wait()
                    continue
                member = driver.member()
                todo = [(run_id, group, member) for group in spread(works, tasks)]
                list(shares.map(pool.run, todo))
    finally:
        driver.close()


# -- a worker's process --------------------------------------------------------------------------------------


def work(story: str, bootstrap: str, folder: str, host: int) -> None:
    """For one driver after the other."""
    pipeline = make_pipeline(story, bootstrap, folder, host)
    while True:
        try:
            connection = Client(f"{folder}/driver")
            while True:
                run_id, works, member, retried = connection.recv()
                connection.send(_failure(pipeline, run_id, works, member, retried))
        except (EOFError, OSError):
            time.sleep(0.05)


def _failure(pipeline: Pipeline, run_id: str, works: Any, member: Any, retried: bool) -> str:
    try:
        worker(pipeline, run_id).run(works, member, retried=retried)
    except OttlaError as error:
        return f"{type(error).__name__}: {error}"
    return ""


# -- what is killed ------------------------------------------------------------------------------------------


@dataclass
class Fleet:
    """The processes. Workers that died are started again at once, drivers by the one who killed them."""

    story: str
    bootstrap: str
    folder: Path
    chance: random.Random
    driver: Any = None
    workers: dict[int, list[Any]] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self.workers = {host: [self._worker(host) for _ in range(WORKERS)] for host in range(HOSTS)}
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()
        self.start_driver()

    @property
    def is_alive(self) -> bool:
        return bool(self.driver.is_alive())

    def start_driver(self) -> None:
        arguments = (self.story, self.bootstrap, str(self.folder), self.chance.randint(1, 3))
        self.driver = _FORKING.Process(target=drive, args=arguments, daemon=True)
        self.driver.start()

    def kill_driver(self, moment: str) -> str:
        """At a moment of a commit, if one comes; when it died."""
        trap = self.folder / "trap"
        if moment != "any":
            prepared = trap.with_suffix(".tmp")
            prepared.write_text(f"{moment} {self.driver.pid}")
            prepared.rename(trap)
            self.driver.join(_SOON_S)
        if self.driver.is_alive():
            moment = "any"
            self.driver.kill()
        self.driver.join()
        trap.unlink(missing_ok=True)
        if self.driver.exitcode != -signal.SIGKILL:
            raise RuntimeError(f"the driver ended by itself with {self.driver.exitcode}")
        return moment

    def kill_workers(self, count: int) -> None:
        """Some of one host."""
        host = self.chance.randrange(HOSTS)
        for process in self.chance.sample(self.workers[host], count):
            process.kill()

    def lose_files(self) -> None:
        shutil.rmtree(self.folder / f"host-{self.chance.randrange(HOSTS)}", ignore_errors=True)

    def close(self) -> None:
        self.over.set()
        self._watching.join()
        for process in [self.driver, *(each for mine in self.workers.values() for each in mine)]:
            process.kill()
            process.join()

    def _worker(self, host: int) -> Any:
        arguments = (self.story, self.bootstrap, str(self.folder), host)
        process = _FORKING.Process(target=work, args=arguments, daemon=True)
        process.start()
        return process

    def _watch(self) -> None:
        while not self.over.wait(0.1):
            for host, mine in self.workers.items():
                for place, process in enumerate(mine):
                    if not process.is_alive():
                        mine[place] = self._worker(host)


def run(
    kills: int,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
    server: Callable[[], Ottla | Oracle] = Ottla,
    story: str = "counts",
    seconds: float = math.inf,
    broker_kills: int | None = None,
) -> Report:
    """`kills` of each kind, or as many as the seconds allow. A start of Apache Kafka takes a minute on a busy machine:
    of its broker there may be fewer."""
    told = STORIES[story][0]()
    chance, report = random.Random(seed), Report()
    _FORKING.set_forkserver_preload([__spec__.name if __name__ == "__main__" else __name__])
    with (
        tempfile.TemporaryDirectory(prefix="ottla-soak-", ignore_cleanup_errors=True) as name,
        server() as broker,
    ):
        report.server, folder = f"{broker.name}, no Spark, {story}", Path(name)
        for topic in told.topics:
            make_topic(broker.bootstrap, topic, 3)
        told.prepare(broker.bootstrap)
        load = Load(broker.bootstrap, seed, told.words)
        load.start()
        fleet = Fleet(story, broker.bootstrap, folder, chance)
        fleet.start()
        begun = time.monotonic()
        try:
            pipelines.wait_for_progress(broker.bootstrap, told.name, fleet)
            for kind in pipelines.kill_order(kills, chance, broker_kills):
                if time.monotonic() - begun > seconds:
                    break
                if chance.random() < 0.5:  # else it strikes a pipeline that still recovers
                    pipelines.wait_for_progress(broker.bootstrap, told.name, fleet)
                time.sleep(chance.uniform(0, 1))
                _strike(kind, report, broker, fleet)
                report.kills[kind] = report.kills.get(kind, 0) + 1
                say(f"{time.monotonic() - begun:.0f} s: {kind} {report.kills[kind]}")
            pipelines.wait_for_progress(broker.bootstrap, told.name, fleet)
            load.finish()
            report.words = load.sent.total()
            pipelines.drain(broker.bootstrap, told.name, fleet)
            told.judge(report, broker.bootstrap, load)
        except (RuntimeError, OttlaError) as error:
            report.failures.append(str(error))
        finally:
            fleet.close()
    return report


def _strike(kind: str, report: Report, broker: Ottla | Oracle, fleet: Fleet) -> None:
    match kind:
        case "worker":
            fleet.kill_workers(1)
        case "executor":
            fleet.kill_workers(WORKERS)
        case "broker":
            broker.kill()
            broker.restart()
        case _:
            moment = fleet.kill_driver(MOMENTS[report.kills.get(kind, 0) % len(MOMENTS)])
            report.moments[moment] = report.moments.get(moment, 0) + 1
            if fleet.chance.random() < 0.3:
                fleet.lose_files()
                report.lost_files += 1
            fleet.start_driver()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--story", choices=list(STORIES), default="counts")
    parser.add_argument("--kills", type=int, default=50, help="of each kind (50)")
    parser.add_argument("--broker-kills", type=int, help="of the broker, if not as many")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--kafka", action="store_true", help="on Apache Kafka")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which nothing more is killed")
    options = parser.parse_args()
    server = SERVERS[options.kafka]
    report = run(
        options.kills,
        options.seed,
        lambda line: print(line, flush=True),
        server,
        options.story,
        options.seconds,
        options.broker_kills,
    )
    print(json.dumps({name: getattr(report, name) for name in Report.__slots__}))
    return 0 if report.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
