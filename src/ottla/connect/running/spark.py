"""Connectors as Spark queries, all in one session that starts with the first of them."""

import logging
import shutil
import tempfile
import threading
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ottla.client.admin import Admin
from ottla.connect import errors
from ottla.connect.errors import ConnectError
from ottla.connect.running import formats
from ottla.connect.running.base import Looking, Run, await_topics, leave_group, prepare_sink, sink_topics
from ottla.connect.tasks.sink import pipeline
from ottla.connect.tasks.spec import Spec
from ottla.pipelines import running as pipelines
from ottla.spark.plain import reason

log = logging.getLogger(__name__)
_POLL_S = 0.2
_OURS = (errors.ConfigError, errors.DataError, errors.RetriableError)


class SparkRunner:
    """Settings `spark.*` of the worker go to the session: `spark.master` for a cluster."""

    def __init__(self, worker: Mapping[str, Any], session: Any = None) -> None:
        self._settings = {name: str(value) for name, value in worker.items() if name.startswith("spark.")}
        self._session, self._own = session, session is None
        # Spark looks for the session, and with it for our formats, in the thread that starts a query: always this one.
        self._thread = ThreadPoolExecutor(1, "connect-spark")

    def start(self, spec: Spec, stopping: threading.Event) -> Run | None:
        if formats.is_format(spec):
            if not formats.prepare(spec, stopping):
                return None
            return QueryRun(spec, self._thread.submit(self._start_format, spec).result(), None)
        if spec.kind == "source":
            return QueryRun(spec, self._thread.submit(self._start_source, spec).result(), None)
        with Admin(spec.client("admin")) as admin:
            topics = await_topics(spec, admin, stopping)
            if not topics:
                return None
            topic_ids = prepare_sink(spec, admin, topics)
        query = self._thread.submit(self._start_sink, spec, topics, topic_ids).result()
        return QueryRun(spec, query, topics)

    def close(self) -> None:
        self._thread.submit(self._end).result()
        self._thread.shutdown()

    # -- in the thread -------------------------------------------------------------------------------

    def _end(self) -> None:
        if self._session is not None and self._own:
            self._session.stop()
            self._session = None

    def _start_format(self, spec: Spec) -> Any:
        return formats.start(spec, self._spark())

    def _start_sink(self, spec: Spec, topics: list[str], topic_ids: Mapping[str, str]) -> Any:
        trigger = spec.config.get("trigger.interval")
        flow = pipeline(spec, topics, uuid.uuid4().hex, topic_ids)
        return pipelines.start(flow, self._spark(), tasks=spec.tasks_max, trigger=trigger)

    def _start_source(self, spec: Spec) -> Any:
        from ottla.connect.running.source_query import format_of

        run_id = uuid.uuid4().hex[:12]
        folder = Path(tempfile.mkdtemp(prefix="ottla-source-"))
        stop_file = folder / "stop"
        name = f"ottla-source-{run_id}"
        spark = self._spark()
        spark.dataSource.register(format_of(spec, run_id, spec.tasks_max, str(stop_file)))
        writer = spark.readStream.format(name).load().writeStream.format(name)
        writer = writer.queryName(f"connect-{spec.name}").option(
            "checkpointLocation", str(folder / "checkpoint")
        )
        return SourceQuery(writer.start(), folder)

    def _spark(self) -> Any:
        if self._session is None:
            import ottla.spark

            self._session = ottla.spark.session("ottla connect", settings=self._settings)
        return self._session


class SourceQuery:
    """As `pipelines.Running`: stops between two micro-batches."""

    def __init__(self, query: Any, folder: Path) -> None:
        self.query, self._folder = query, folder

    def stop(self, timeout_s: float = 60) -> None:
        (self._folder / "stop").touch()  # from here on the reader offers nothing more
        ending = threading.Thread(target=self._finish, daemon=True)
        ending.start()
        ending.join(timeout_s)
        self.query.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _finish(self) -> None:
        try:
            self.query.processAllAvailable()
        except Exception as error:  # a query that has failed has nothing left to finish
            log.debug("the query has ended: %s", error)


class QueryRun:
    """A query of Spark's, watched over."""

    def __init__(self, spec: Spec, running: Any, topics: list[str] | None) -> None:
        self._spec, self._running, self._topics = spec, running, topics
        self._looking = Looking()

    def wait(self, stopping: threading.Event) -> bool:
        while not stopping.wait(_POLL_S):
            query = self._running.query
            if not query.isActive:
                raise _of_ours(query.exception())
            if self._topics is not None and self._looking.is_due() and self._has_new_topics():
                return False
        return True

    @property
    def has_stepped(self) -> bool:
        return any(progress["numInputRows"] for progress in self._running.query.recentProgress)

    def stop(self) -> None:
        self._running.stop()
        if self._topics is not None:
            with Admin(self._spec.client("admin")) as admin:
                leave_group(admin, self._spec.group)

    def _has_new_topics(self) -> bool:
        with Admin(self._spec.client("admin")) as admin:
            return sink_topics(self._spec, admin) != self._topics


def _of_ours(error: Any) -> Exception:
    """Spark tells errors of its workers as text."""
    if error is None:
        return ConnectError("the query has ended by itself")
    text = str(error)
    for kind in _OURS:
        if f"{kind.__module__}.{kind.__name__}" in text:
            return kind(reason(error))
    return pipelines._of_ours(error)
