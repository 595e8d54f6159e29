"""Runs a link in this process, with a thread for each task: for tests, and where there is no Spark."""

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from ottla.client.columnar.reader import DataLost
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.mirror.driver import Driver
from ottla.mirror.errors import FINAL
from ottla.mirror.link import Link
from ottla.mirror.positions import Position
from ottla.mirror.task import Work
from ottla.mirror.worker import Stepping, stepping

log = logging.getLogger(__name__)
_LOOK_S = 0.2
_WAIT_S = 1.0


class LocalRunner:
    """`run` copies until it is stopped; `run_once` copies the records of now."""

    def __init__(self, link: Link) -> None:
        self.driver = Driver(link)
        self._link = link
        self._workers: dict[int, Stepping] = {}
        self._pool = ThreadPoolExecutor(max_workers=max(1, link.tasks), thread_name_prefix="mirror")
        self._positions: dict[TopicPartition, Position] = {}  # what this process has committed
        self._stopped, self._failed = threading.Event(), threading.Event()
        self._retried = True  # the first step takes over

    def start(self) -> None:
        self.driver.start()

    def round(self) -> int:
        """One step of every task that has something to do; how many had."""
        works = self.driver.plan(self._positions)
        member = self.driver.member()
        retried, self._retried = self._retried, True
        steps = [
            self._pool.submit(self._worker(work.task).run, work, member, retried=retried) for work in works
        ]
        failures = [error for step in steps if (error := step.exception()) is not None]
        if failures:
            self._positions.clear()
            raise failures[0]
        for step in steps:
            self._positions |= step.result()
        self._retried = False
        if not self.driver.keeps_on:
            self.driver.keep()
        return len(works)

    def run_once(self) -> None:
        self.driver.freeze()
        while self.round() or (self.driver.behind_frozen() and not self._stopped.is_set()):
            if self.driver.behind_frozen():
                self.driver.rest()
        self.driver.keep(whole=True)

    def run(self) -> None:
        """Each task by itself: a record waits neither for the others' steps nor for a look at all partitions."""
        self.driver.keep_on()
        steps = [self._pool.submit(self._follow, task) for task in range(max(1, self._link.tasks))]
        failures = [error for step in steps if (error := step.exception()) is not None]
        if failures:
            raise failures[0]

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self._pool.shutdown()
        for worker in self._workers.values():
            worker.close()
        self.driver.close()

    def _follow(self, task: int) -> None:
        try:
            worker, known = self._worker(task), dict[TopicPartition, Position]()
            retried = True  # the first step takes over
            while not (self._stopped.is_set() or self._failed.is_set()):
                work = self._next(task, worker, known)
                if work is not None:
                    known |= worker.run(work, self.driver.member(), retried=retried)
                    retried = False
        except BaseException:
            self._failed.set()
            raise

    def _next(self, task: int, worker: Stepping, known: dict[TopicPartition, Position]) -> Work | None:
        """What the source has beyond the positions, if it is worth a step of its own; None after a second without, and
        while the link rests."""
        partitions = self.driver.partitions_of(task)
        if not partitions:
            self._stopped.wait(_LOOK_S)
            return None
        copied = {where: known[where] for where in partitions if where in known}
        ends: Mapping[TopicPartition, int] | None = {}
        if len(copied) == len(partitions):
            ends = worker.follow(copied, self._planned, _WAIT_S)
            known |= copied
            if ends is None:
                return None
        if ends:
            work = self.driver.plan_followed(copied, ends)
        else:
            works = self.driver.plan(known, task=task)
            positions = self.driver.positions
            known |= {
                where: positions[where] for where in partitions if where not in known and where in positions
            }
            work = works[0] if works else None
        if work is None:
            self.driver.rest()
        return work

    def _planned(
        self, known: Mapping[TopicPartition, Position], ends: Mapping[TopicPartition, int]
    ) -> tuple[Work, GroupMetadata] | None:
        work = self.driver.plan_followed(known, ends)
        return None if work is None else (work, self.driver.member())

    def _worker(self, task: int) -> Stepping:
        if task not in self._workers:
            self._workers[task] = stepping(self._link, task, alone=True)
        return self._workers[task]


def run(
    link: Link, *, once: bool = False, restarts_max: int = 1_000, stopped: threading.Event | None = None
) -> None:
    """Runs a link here, and again when it fails for a reason that may pass."""
    stopped = stopped or threading.Event()
    for restart in range(restarts_max + 1):
        runner = LocalRunner(link)
        runner._stopped = stopped
        try:
            runner.start()
            runner.run_once() if once else runner.run()
            runner.driver.leave()
            return
        except OttlaError as error:
            if isinstance(error, (*FINAL, DataLost)) or restart == restarts_max or stopped.is_set():
                raise
            pause_s = min(10.0, 0.2 * 2 ** min(restart, 8))
            log.warning("mirror %s failed and is started again in %.1f s: %s", link.name, pause_s, error)
            stopped.wait(pause_s)
        finally:
            runner.close()
