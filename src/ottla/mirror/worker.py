"""In Spark's Python workers, or in threads: mirror tasks that live as long as the process, and step when told to."""

import os
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from ottla.client.session import Engine, quick_loop
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.mirror.clusters import SourceLog, TargetLog
from ottla.mirror.exact import ExactTask
from ottla.mirror.link import EXACT, Link
from ottla.mirror.positions import Position
from ottla.mirror.task import MirrorTask, Work

LITTLE_BYTES = 256 * 1024
_REFRESH_S = 5.0  # a topic that was re-created has another id; a fetch by the old one fails anyhow


Planner = Callable[
    [Mapping[TopicPartition, Position], Mapping[TopicPartition, int]], tuple[Work, GroupMetadata] | None
]
"""By positions and the source's ends: the work and as whom to commit it, or None while nothing may be copied."""


class Stepping(Protocol):
    """A task with its connections to both sides."""

    def run(
        self, work: Work, member: GroupMetadata, *, retried: bool
    ) -> Mapping[TopicPartition, Position]: ...

    def follow(
        self, known: dict[TopicPartition, Position], plan: Planner, timeout_s: float
    ) -> Mapping[TopicPartition, int] | None:
        """Waits for records behind the positions, and may copy them at once, with `known` kept up to date. The
        source's ends, if there is a step to `run`; nothing: look yourself; None: all that came is copied."""

    def close(self) -> None: ...


class Worker:
    """A task in mode compatible."""

    def __init__(self, link: Link, task: int, *, alone: bool = False) -> None:
        self._link = link
        self._engine = Engine("mirror task", new_loop=quick_loop)
        self._source, self._target = SourceLog(link, self._engine), TargetLog(link, task, self._engine)
        self._task = MirrorTask(link, self._source, self._target, alone=alone)
        self._known: set[str] = set()
        self._refreshed = 0.0

    def run(self, work: Work, member: GroupMetadata, *, retried: bool) -> Mapping[TopicPartition, Position]:
        self._know({where.topic for where in work.ends}, fresh=retried)
        return self._task.step(work, member, retried=retried)

    def follow(
        self, known: dict[TopicPartition, Position], plan: Planner, timeout_s: float
    ) -> Mapping[TopicPartition, int] | None:
        self._know({where.topic for where in known})
        if not self._task.follows(known):
            return self._source.wait(_sources(known), timeout_s)
        try:
            return self._engine.run(self._follow(known, plan, timeout_s))
        except BaseException:
            self._task.give_up()
            raise

    async def _follow(
        self, known: dict[TopicPartition, Position], plan: Planner, timeout_s: float
    ) -> Mapping[TopicPartition, int] | None:
        """Little by little on the loop's own thread; a lot is a step for another thread: the loop must not wait."""
        deadline, steps = time.monotonic() + timeout_s, 0
        while (left_s := deadline - time.monotonic()) > 0:
            ends = await self._source.follow(_sources(known), left_s)
            if not ends:
                break
            planned = plan(known, ends)
            if planned is None:
                return ends
            work, member = planned
            if self._source.held_bytes > min(LITTLE_BYTES, work.bytes_max):
                return ends
            chunks = self._source.take_held(tolerate=self._link.tolerate_loss)
            known.update(await self._task.step_followed(chunks, member))
            steps += 1
        return None if steps else {}

    def _know(self, topics: set[str], *, fresh: bool = False) -> None:
        copies = {self._link.remote(topic) for topic in topics}
        if fresh or not topics <= self._known:
            self._source.refresh(topics)
            self._target.refresh(copies)
        elif time.monotonic() - self._refreshed > _REFRESH_S:
            self._source.refresh_soon(topics)
            self._target.refresh_soon(copies)
        else:
            return
        self._known, self._refreshed = topics, time.monotonic()

    def close(self) -> None:
        self._target.close()
        self._source.close()
        self._engine.close()


def _sources(known: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
    return {where: position.source for where, position in known.items()}


_workers: dict[tuple[int, str, int], tuple[str, Stepping]] = {}


def stepping(link: Link, task: int, *, alone: bool = False) -> Stepping:
    """`alone`: no other process of this run steps for the task, so positions need not be read before every step."""
    return ExactTask(link, alone=alone) if link.mode == EXACT else Worker(link, task, alone=alone)


def worker(link: Link, run_id: str, task: int) -> Stepping:
    """The one of this run; those of earlier runs of the link in this process end. Not inherited by a fork."""
    key = (os.getpid(), run_id, task)
    if key not in _workers:
        for other, (name, stale) in list(_workers.items()):
            if other[0] == os.getpid() and other[1] != run_id and name == link.name:
                del _workers[other]
                stale.close()
        _workers[key] = (link.name, stepping(link, task))
    return _workers[key][1]
