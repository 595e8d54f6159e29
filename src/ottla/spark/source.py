"""The readers behind `spark.read` and `spark.readStream`: plans in the driver, Arrow in the workers."""

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ottla.client.columnar.ranges import Range
from ottla.client.columnar.reader import DataLost, TopicChanged
from ottla.spark import planning
from ottla.spark.errors import OptionError
from ottla.spark.offsets import Offsets, Positions, starts
from ottla.spark.options import ReadOptions
from ottla.spark.plain import plainly, told_plainly
from ottla.spark.topics import Topics

log = logging.getLogger(__name__)
Reduce = Callable[[Iterator[Any]], Iterator[Any]]  # Arrow batches of a task


class Task(InputPartition):
    """The ranges that one task reads, as plain values."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__([tuple(range_) for range_ in ranges])

    @property
    def ranges(self) -> list[Range]:
        return [Range(*item) for item in self.value]


def client_settings(options: ReadOptions) -> dict[str, Any]:
    """For reading: what our sink writes must not be seen before it is committed."""
    return {"isolation.level": "read_committed", **options.client}


def read_task(options: ReadOptions, schema: Any, task: Task) -> Iterator[Any]:
    """In a worker: Fetch to Arrow to Spark."""
    from ottla.spark import clients, garbage, rows

    reader = clients.reader(client_settings(options))
    shaped = rows.shape(options, schema)
    garbage.freeze()
    finished = False
    try:
        with plainly():
            for batch in reader.read(
                task.ranges,
                headers="headers" in options.columns or options.registered is not None,
                tolerate_loss=not options.fail_on_data_loss,
                idle_timeout_ms=options.idle_timeout_ms,
            ):
                yield shaped(batch)
        finished = True
    finally:
        if not finished:
            clients.dropped(reader)


class BatchReader(DataSourceReader):
    """All that lies between two bounds, as they are when the query is planned."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self._options = options
        self._schema = schema

    @told_plainly
    def partitions(self) -> Sequence[Task]:
        topics = Topics(self._options, client_settings(self._options))
        try:
            topics.look()
            topics.ensure_all()
            begin, end = topics.resolve(self._options.starting), topics.resolve(self._options.ending)
        finally:
            topics.close()
        for partition, until in end.items():
            if begin[partition] > until:
                raise OptionError(f"{partition} ends at {until}, before the start at {begin[partition]}")
        tasks, split = self._tasks(sum(end[p] - begin[p] for p in end), len(end))
        start = Offsets(begin, topics.ids)
        tasks_ranges = planning.ranges(start, Offsets(end, topics.ids, tasks=tasks, split=split))
        return [Task(task_ranges) for task_ranges in tasks_ranges if task_ranges] or [Task([])]

    def _tasks(self, records: int, partitions: int) -> tuple[int, bool]:
        """How many, and whether a partition may be cut between them."""
        options = self._options
        tasks = options.min_partitions or planning.tasks_for(partitions, _cores())
        if options.max_records is not None:
            tasks = max(tasks, -(-records // options.max_records))
        return tasks, options.min_partitions is not None or options.max_records is not None

    def read(self, partition: Any) -> Iterator[Any]:
        return read_task(self._options, self._schema, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a process of its own as long as the query. Truth is in the checkpoint; group offsets show it.

    What tasks hand to Spark is what `reduce` makes of their records: usually the records themselves."""

    def __init__(self, options: ReadOptions, schema: Any, reduce: Reduce = iter) -> None:
        self._options = options
        self._schema = schema
        self._reduce = reduce
        self._topics: Topics | None = None
        self._until: Offsets | None = None  # of AvailableNow
        self._shown: Positions = {}
        self._latest: Offsets | None = None
        self._planned: Positions = {}  # where the last micro-batch that was planned ends
        self._last_batch = time.monotonic()

    # -- Spark asks, in the driver -----------------------------------------------------------------

    @told_plainly
    def initialOffset(self) -> dict[str, Any]:
        options = self._options
        self.topics.look(fresh=True)
        self.topics.ensure_all()
        group = options.group or f"{options.group_prefix}-{uuid.uuid4().hex[:12]}"
        begun = Offsets(self.topics.resolve(options.starting), self.topics.ids, group)
        tasks = planning.tasks_for(len(begun.positions), _cores())
        return self._laid_out(begun, tasks).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_offsets
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    @told_plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = Offsets.from_json(start)
        self._show(begun)
        # What was read before and is gone is a loss of data, and `_checked` speaks of that.
        self.topics.look()
        self.topics.ensure_all(begun.positions)
        end = self._up_to_now(begun) if self._until is None else self._bounded(begun, self._until)
        end = self._kept_back(begun, end)
        if isinstance(limit, ReadMaxRows):
            end = end.at(planning.limited(starts(begun, end), end.positions, limit.max_rows))
        self._planned = end.positions
        if end.positions == begun.positions and end.ids == begun.ids:
            return start
        self._last_batch = time.monotonic()
        fresh = {
            p: at for p, at in end.begins.items() if p not in begun.positions or _is_recreated(begun, end, p)
        }
        return replace(self._laid_out(end, begun.tasks), group=begun.group, begins=fresh).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Shown in the query's progress. Spark gives a Python source no place for a name, so it stands here."""
        if self._latest is None:
            return None
        behind = planning.behind(self._planned, self._latest.positions)
        return {**self._latest.to_json(), "@source": self._options.description, "@behind": behind}

    @told_plainly
    def prepareForTriggerAvailableNow(self) -> None:
        self.topics.look(fresh=True)
        ends = self.topics.ends()
        self._until = Offsets(ends, self.topics.ids, begins=self.topics.begins(ends))
        self._latest = Offsets(ends, self.topics.ids)

    @told_plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Task]:
        return [Task(range_) for range_ in planning.ranges(Offsets.from_json(start), Offsets.from_json(end))]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: `latestOffset` is told the same, and earlier."""

    def stop(self) -> None:
        if self._topics is not None:
            self._topics.close()

    # -- Spark asks, in a worker -------------------------------------------------------------------

    def read(self, partition: Any) -> Iterator[Any]:
        return self._reduce(read_task(self._options, self._schema, partition))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_topics": None}  # connections do not travel

    # -- inside ------------------------------------------------------------------------------------

    @property
    def topics(self) -> Topics:
        if self._topics is None:
            self._topics = Topics(self._options, client_settings(self._options))
        return self._topics

    def _bounded(self, begun: Offsets, until: Offsets) -> Offsets:
        """AvailableNow: the ends as they were at the start of the query, if they still mean the same."""
        return until.at(self._checked(begun, until.positions))

    def _up_to_now(self, begun: Offsets) -> Offsets:
        """The ends as they are now; if there is nothing new, a moment later."""
        self.topics.look()
        ends = self._checked(begun, self.topics.ends())
        if ends == begun.positions and self.topics.ids == begun.ids:
            self.topics.wait(ends)
            self.topics.look()
            ends = self._checked(begun, self.topics.ends())
        new = [
            p
            for p in ends
            if p not in begun.positions or self.topics.ids.get(p.topic) != begun.ids.get(p.topic)
        ]
        latest = Offsets(ends, self.topics.ids, begins=self.topics.begins(new))
        self._latest = Offsets(ends, self.topics.ids)
        return latest

    def _checked(self, begun: Offsets, ends: Positions) -> Positions:
        """Ends that do not fit what was read mean that records are gone."""
        if self._until is None and any(ends.get(p, -1) < at for p, at in begun.positions.items()):
            self.topics.look(fresh=True)
            ends = self.topics.ends()
        checked = dict(ends)
        for partition, at in begun.positions.items():
            topic = partition.topic
            if topic not in self.topics.ids or partition not in ends:
                self._lost(TopicChanged(f"{partition} is gone; it was read up to {at}"))
            elif self.topics.ids[topic] != begun.ids.get(topic):
                self._lost(
                    TopicChanged(f"topic {topic} was deleted and re-created; {partition} was read up to {at}")
                )
            elif ends[partition] < at:
                self._lost(DataLost(f"{partition} ends at {ends[partition]}, but was read up to {at}"))
                checked[partition] = ends[partition]
        return checked

    def _lost(self, error: DataLost) -> None:
        if self._options.fail_on_data_loss:
            advice = "failOnDataLoss=false continues with what is left, a new checkpoint starts over"
            raise type(error)(f"{error}. Records may be lost: {advice}")
        log.warning("%s; the query continues with what is left", error)

    def _kept_back(self, begun: Offsets, end: Offsets) -> Offsets:
        """`minOffsetsPerTrigger`: too little is left for later, but not for ever."""
        least = self._options.min_offsets
        if least is None or self._until is not None:
            return end
        begins = starts(begun, end)
        waiting = sum(at - begins[p] for p, at in end.positions.items())
        if waiting >= least or (time.monotonic() - self._last_batch) * 1000 >= self._options.max_delay_ms:
            return end
        return begun

    def _laid_out(self, offsets: Offsets, tasks: int) -> Offsets:
        """The number of tasks stays that of the first micro-batch unless an option says another."""
        asked = self._options.min_partitions
        return replace(offsets, tasks=asked or tasks, split=asked is not None)

    def _show(self, begun: Offsets) -> None:
        if begun.group and begun.positions != self._shown:
            self._shown = begun.positions
            # The process of a query that ends by itself does not live to see what it has begun.
            self.topics.commit(begun.group, begun.positions, wait=self._until is not None)


def _is_recreated(begun: Offsets, end: Offsets, partition: Any) -> bool:
    return begun.ids.get(partition.topic) != end.ids.get(partition.topic)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
