"""Connectors in threads of this process: no JVM. For small things and for tests."""

import threading
import time
import uuid
from collections.abc import Mapping

from ottla.client.admin import Admin
from ottla.connect.running.base import (
    Looking,
    Run,
    await_topics,
    lanes_of,
    leave_group,
    prepare_sink,
    sink_topics,
)
from ottla.connect.spi import Limit
from ottla.connect.tasks.sink import close_runs, pipeline
from ottla.connect.tasks.source import SourceWorker
from ottla.connect.tasks.spec import Spec
from ottla.pipelines.driver import Driver
from ottla.pipelines.worker import Worker

_PAUSE_S = (0.005, 0.1)  # between reads that found nothing: from, to


class ThreadRunner:
    def start(self, spec: Spec, stopping: threading.Event) -> Run | None:
        if spec.kind == "source":
            return SourceRun(spec)
        admin = Admin(spec.client("admin"))
        try:
            topics = await_topics(spec, admin, stopping)
            if not topics:
                return None
            topic_ids = prepare_sink(spec, admin, topics)
        finally:
            admin.close()
        return SinkRun(spec, topics, topic_ids)

    def close(self) -> None: ...


class SourceRun:
    def __init__(self, spec: Spec, limit: Limit | None = None) -> None:
        self._worker = SourceWorker(spec)
        self._limit = limit or Limit()
        self._lanes = lanes_of(list(self._worker.source.partitions()))
        self.has_stepped = False

    def wait(self, stopping: threading.Event) -> bool:
        looking, pause_s = Looking(), _PAUSE_S[0]
        while not stopping.is_set():
            if self.step():
                pause_s = _PAUSE_S[0]
            else:
                stopping.wait(pause_s)
                pause_s = min(_PAUSE_S[1], 2 * pause_s)
            if looking.is_due():
                self._lanes = lanes_of(list(self._worker.source.partitions()))
        return True

    def step(self) -> int:
        """How many partitions had something."""
        count = sum(
            self._worker.run(lane, partitions, self._limit).partitions
            for lane, partitions in self._lanes.items()
        )
        self.has_stepped = self.has_stepped or count > 0
        return count

    def stop(self) -> None:
        self._worker.close()


class SinkRun:
    def __init__(self, spec: Spec, topics: list[str], topic_ids: Mapping[str, str]) -> None:
        self._spec, self._topics = spec, topics
        self._pipeline = pipeline(spec, topics, uuid.uuid4().hex, topic_ids)
        self._admin = Admin(spec.client("admin"))
        self._driver = Driver(self._pipeline)
        self._worker: Worker | None = None
        self.has_stepped = False
        try:
            self._driver.start()
        except BaseException:
            self._close()
            raise

    def wait(self, stopping: threading.Event) -> bool:
        looking = Looking()
        while not stopping.is_set():
            if not self.step():
                begun = time.monotonic()
                self._driver.wait()
                if time.monotonic() - begun < 0.005:
                    stopping.wait(0.005)  # there is something, but an open transaction hides it
            if looking.is_due() and sink_topics(self._spec, self._admin) != self._topics:
                return False
        return True

    def step(self) -> int:
        works = self._driver.plan()
        if works:
            if self._worker is None:
                self._worker = Worker(self._pipeline)
            self._worker.run(works, self._driver.member(), retried=False)
            self.has_stepped = True
        return len(works)

    def stop(self) -> None:
        self._close()
        try:
            with Admin(self._spec.client("admin")) as admin:
                leave_group(admin, self._spec.group)
        finally:
            close_runs(self._spec.name)

    def _close(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._driver.close()
        self._admin.close()
