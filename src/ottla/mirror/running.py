"""Starts a link on Spark, watches over it, stops it."""

import contextlib
import logging
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ottla.errors import OttlaError
from ottla.mirror.errors import FINAL, BadLink, MirrorError, TakenOver
from ottla.mirror.link import Link
from ottla.spark.plain import reason

log = logging.getLogger(__name__)
_LOOK_S = 0.5


class Running:
    """A query that runs a link. `query` is Spark's own handle."""

    def __init__(self, link: Link, query: Any, stop_file: Path) -> None:
        self.link, self.query, self._stop_file = link, query, stop_file

    @property
    def is_active(self) -> bool:
        return bool(self.query.isActive)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until the query has ended; raises what ended it. Whether it has."""
        try:
            return bool(self.query.awaitTermination(timeout_s))
        except Exception as error:
            raise _of_ours(error) from error

    def stop(self, timeout_s: float = 60) -> None:
        """Lets the micro-batch end that is under way: a worker stopped inside a step leaves a transaction open."""
        self._stop_file.touch()
        ending = threading.Thread(target=self._finish, daemon=True)
        ending.start()
        ending.join(timeout_s)
        self.query.stop()

    def _finish(self) -> None:
        with contextlib.suppress(Exception):  # a query that has failed has nothing left to finish
            self.query.processAllAvailable()


def start(link: Link, spark: Any = None, *, once: bool = False) -> Running:
    """Runs it in a Spark session (a local one unless given). `once` ends when all that is there now is copied."""
    if spark is None:
        import ottla.spark

        spark = ottla.spark.session(link.group)
    if spark.conf.get("spark.speculation", "false") == "true":
        raise BadLink("spark.speculation runs a task twice at once, and both would step: turn it off")
    from ottla.mirror.query import format_of

    run_id = uuid.uuid4().hex[:12]
    folder = Path(tempfile.mkdtemp(prefix="ottla-mirror-"))
    stop_file = folder / "stop"
    spark.dataSource.register(format_of(link, run_id, str(stop_file)))
    name = f"ottla-mirror-{run_id}"
    rows = spark.readStream.format(name).load().filter("work IS NOT NULL")
    writer = (
        rows.writeStream.format(name)
        .queryName(link.group)
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
    if once:
        writer = writer.trigger(availableNow=True)
    return Running(link, writer.start(), stop_file)


def run(links: Sequence[Link], spark: Any = None, *, once: bool = False, restarts_max: int = 1_000) -> None:
    """Runs links side by side in one session, each again when it fails for a reason that may pass.

    Everything is started by this thread: Spark finds a registered format only from the thread of its session.
    """
    queries: dict[str, Running] = {link.name: start(link, spark, once=once) for link in links}
    restarts = dict.fromkeys(queries, 0)
    due: dict[str, float] = {}
    while queries or due:
        for name, running in list(queries.items()):
            try:
                if running.wait(_LOOK_S):
                    del queries[name]
            except FINAL:
                raise
            except MirrorError as error:
                del queries[name]
                restarts[name] += 1
                if restarts[name] > restarts_max:
                    raise
                pause_s = min(30.0, 0.5 * 2 ** min(restarts[name], 8))
                log.warning("mirror %s failed and is started again in %.1f s: %s", name, pause_s, error)
                due[name] = time.monotonic() + pause_s
        for link in links:
            if due.get(link.name, float("inf")) <= time.monotonic():
                del due[link.name]
                queries[link.name] = start(link, spark, once=once)
        if not queries and due:
            time.sleep(_LOOK_S)


def _of_ours(error: Exception) -> OttlaError:
    """Spark tells errors of its workers as text."""
    text = str(error)
    for kind in FINAL:
        if f"{kind.__module__}.{kind.__name__}" in text or f"{kind.__name__}:" in text:
            return kind(reason(error))
    if "FencedInstanceId" in text:
        return TakenOver(reason(error))
    return MirrorError(reason(error))
