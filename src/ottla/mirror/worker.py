"""In Spark's Python workers, or in threads: mirror tasks that live as long as the process, and step when told to."""

import os
import time
from collections.abc import Mapping
from typing import Protocol

from ottla.client.values import GroupMetadata, TopicPartition
from ottla.mirror.clusters import SourceLog, TargetLog
from ottla.mirror.exact import ExactTask
from ottla.mirror.link import EXACT, Link
from ottla.mirror.positions import Position
from ottla.mirror.task import MirrorTask, Work

_REFRESH_S = 5.0  # a topic that was re-created has another id; a fetch by the old one fails anyhow


class Stepping(Protocol):
    """A task with its connections to both sides."""

    def run(
        self, work: Work, member: GroupMetadata, *, retried: bool
    ) -> Mapping[TopicPartition, Position]: ...

    def wait(
        self, positions: Mapping[TopicPartition, Position], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        """The source's ends, once it has more than that; the next `run` has it at hand. Nothing: look yourself."""

    def close(self) -> None: ...


class Worker:
    """A task in mode compatible."""

    def __init__(self, link: Link, task: int, *, alone: bool = False) -> None:
        self._link = link
        self._source, self._target = SourceLog(link), TargetLog(link, task)
        self._task = MirrorTask(link, self._source, self._target, alone=alone)
        self._known: set[str] = set()
        self._refreshed = 0.0

    def run(self, work: Work, member: GroupMetadata, *, retried: bool) -> Mapping[TopicPartition, Position]:
        self._know({where.topic for where in work.ends}, fresh=retried)
        return self._task.step(work, member, retried=retried)

    def wait(
        self, positions: Mapping[TopicPartition, Position], timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        self._know({where.topic for where in positions})
        return self._source.wait({where: each.source for where, each in positions.items()}, timeout_s)

    def _know(self, topics: set[str], *, fresh: bool = False) -> None:
        if fresh or not topics <= self._known or time.monotonic() - self._refreshed > _REFRESH_S:
            self._source.refresh(topics)
            self._target.refresh({self._link.remote(topic) for topic in topics})
            self._known, self._refreshed = topics, time.monotonic()

    def close(self) -> None:
        self._target.close()
        self._source.close()


_workers: dict[tuple[int, str, int], tuple[str, Stepping]] = {}


def stepping(link: Link, task: int, *, alone: bool = False) -> Stepping:
    """`alone`: no other process of this run steps for the task, so positions need not be read before every step."""
    return ExactTask(link) if link.mode == EXACT else Worker(link, task, alone=alone)


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
