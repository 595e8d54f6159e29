"""In Spark's Python workers, or in threads: mirror tasks that live as long as the process, and step when told to."""

import os
from collections.abc import Mapping

from ottla.client.values import GroupMetadata, TopicPartition
from ottla.mirror.clusters import SourceLog, TargetLog
from ottla.mirror.link import Link
from ottla.mirror.positions import Position
from ottla.mirror.task import MirrorTask, Work


class Worker:
    """One task of a link in this process: its own connections on both sides."""

    def __init__(self, link: Link, task: int) -> None:
        self._link = link
        self._source, self._target = SourceLog(link), TargetLog(link, task)
        self._task = MirrorTask(link, self._source, self._target)

    def run(self, work: Work, member: GroupMetadata, *, retried: bool) -> Mapping[TopicPartition, Position]:
        topics = {where.topic for where in work.ends}
        self._source.refresh(topics)
        self._target.refresh({self._link.remote(topic) for topic in topics})
        return self._task.step(work, member, retried=retried)

    def close(self) -> None:
        self._target.close()
        self._source.close()


_workers: dict[tuple[int, str, int], Worker] = {}


def worker(link: Link, run_id: str, task: int) -> Worker:
    """The one of this run; those of earlier runs of the link in this process end. Not inherited by a fork."""
    key = (os.getpid(), run_id, task)
    found = _workers.get(key)
    if found is None:
        for other, stale in list(_workers.items()):
            if other[0] == os.getpid() and other[1] != run_id and stale._link.name == link.name:
                _workers.pop(other).close()
        found = _workers[key] = Worker(link, task)
    return found
