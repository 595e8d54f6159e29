"""In Spark's Python workers: stream tasks that live as long as the process, and step when they are told to."""

import os
from collections.abc import Iterable
from pathlib import Path

from ottla.client.values import GroupMetadata
from ottla.pipelines.cluster_log import ClusterLog, SharedReader, log_of
from ottla.pipelines.globals import GlobalStores
from ottla.pipelines.positions import Commit
from ottla.pipelines.state.files import TaskFiles
from ottla.pipelines.stepping import StreamTask, Work
from ottla.pipelines.topology import EXACTLY_ONCE, Pipeline, TaskId


class Worker:
    """The stream tasks of one run of a pipeline in this process."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._reader = SharedReader(pipeline.client)
        self._globals = GlobalStores(pipeline.globals, self._reader)
        self._tasks: dict[TaskId, tuple[StreamTask, ClusterLog]] = {}

    def run(self, works: Iterable[Work], member: GroupMetadata, *, retried: bool) -> list[Commit]:
        self._globals.refresh()
        return [self._task(work.task).step(work, member, retried=retried) for work in works]

    def close(self) -> None:
        for _, log in self._tasks.values():
            log.close()
        self._reader.close()

    def _task(self, task: TaskId) -> StreamTask:
        if task not in self._tasks:
            log = log_of(self._pipeline, task, self._reader)
            self._tasks[task] = (
                StreamTask(self._pipeline, task, log, self._files(task), self._globals.stores),
                log,
            )
        return self._tasks[task][0]

    def _files(self, task: TaskId) -> TaskFiles:
        stores = self._pipeline.stage(task.stage).stores
        folder = self._pipeline.state_dir
        path = None if folder is None else Path(folder) / self._pipeline.name / str(task)
        ids = [self._reader.topic_id(self._pipeline.changelog(store.name)) for store in stores]
        # Without transactions a worker's files may lack rows of its changelog that another worker left there and never
        # committed. With transactions all workers must agree, so they do not go on with such files.
        marker = [] if self._pipeline.guarantee == EXACTLY_ONCE else [self._pipeline.guarantee]
        return TaskFiles(path, stores, " ".join([self._reader.cluster_id, *ids, *marker]))


_workers: dict[tuple[int, str], Worker] = {}


def worker(pipeline: Pipeline, run_id: str) -> Worker:
    """The one of this run; those of earlier runs of the pipeline in this process end. Not inherited by a fork."""
    running = _workers.get((os.getpid(), run_id))
    if running is None:
        for key, other in list(_workers.items()):
            if key[0] == os.getpid() and other._pipeline.name == pipeline.name:
                _workers.pop(key).close()
        running = _workers[os.getpid(), run_id] = Worker(pipeline)
    return running
