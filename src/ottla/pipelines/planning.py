"""What there is to do: from positions, ends and the time to work for stream tasks. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.client.values import TopicPartition
from ottla.pipelines.errors import StateLost
from ottla.pipelines.layout import Layout
from ottla.pipelines.positions import Commit
from ottla.pipelines.stepping import Work
from ottla.pipelines.topology import WALL, Pipeline, Stage, TaskId, upstream_first


@dataclass(frozen=True, slots=True)
class Moment:
    """The cluster at one moment. The time was taken first, then the commits, then the ends: whatever was written by a
    committed step, or came before `now_ms`, lies before the ends."""

    now_ms: int
    commits: Mapping[TaskId, Commit]
    stable: Mapping[TopicPartition, int]  # up to here records can be read
    highs: Mapping[TopicPartition, int]  # up to here there are records


class Planner:
    """`frozen` are ends of external inputs and a time, which a run that ends by itself does not pass."""

    def __init__(self, pipeline: Pipeline, layout: Layout) -> None:
        self._pipeline, self._layout = pipeline, layout
        self._stages = upstream_first(pipeline)

    def inputs(self, task: TaskId) -> list[TopicPartition]:
        stage = self._pipeline.stage(task.stage)
        return [TopicPartition(self._pipeline.topic(name), task.partition) for name in stage.inputs]

    def external(self) -> list[TopicPartition]:
        return [
            TopicPartition(name, task.partition)
            for stage in self._stages
            for task in self._layout.tasks(stage.name)
            for name in stage.inputs
            if not self._pipeline.is_internal(name)
        ]

    def plan(self, moment: Moment, frozen: "Moment | None" = None) -> list[Work]:
        """Upstream first: so that what a step wrote is read by the next plan."""
        works = []
        for stage in self._stages:
            for task in self._layout.tasks(stage.name):
                work = self._work(stage, task, moment, frozen)
                if work is not None:
                    works.append(work)
        return works

    def _work(self, stage: Stage, task: TaskId, moment: Moment, frozen: "Moment | None") -> Work | None:
        before = moment.commits[task]
        ends: dict[TopicPartition, int] = {}
        cut: set[TopicPartition] = set()
        for where in self.inputs(task):
            at, end = before.offsets[where], moment.stable[where]
            if moment.highs[where] < at:
                raise StateLost(
                    f"{where} ends at {moment.highs[where]}, but {task} has read up to {at}: it was deleted and "
                    "re-created, or cut. Reset the pipeline to begin again"
                )
            if frozen is not None and where in frozen.stable:
                end = min(end, frozen.stable[where])
            ends[where] = min(max(at, end), at + self._pipeline.records_max)
            if ends[where] < end:
                cut.add(where)
        allowed = self._allowed(stage, ends, moment, frozen)
        news = any(end > before.offsets[where] for where, end in ends.items())
        due = allowed is not None and allowed >= before.time_ms + stage.tick_ms
        wall_ms = before.next_wall_ms()
        due = due or (wall_ms is not None and wall_ms <= (moment if frozen is None else frozen).now_ms)
        return Work(task, ends, allowed, frozenset(cut)) if news or due else None

    def _allowed(
        self, stage: Stage, ends: Mapping[TopicPartition, int], moment: Moment, frozen: "Moment | None"
    ) -> int | None:
        """How far the wall clock may move the stage: not past a record that is still to be read, here or upstream."""
        highs = moment.highs if frozen is None else {**moment.highs, **_known(frozen.stable, ends)}
        if stage.clock != WALL or any(end < highs[where] for where, end in ends.items()):
            return None
        now_ms = moment.now_ms if frozen is None else frozen.now_ms
        bounds = [
            moment.commits[task].time_ms
            for name in stage.inputs
            for writer in self._pipeline.writers(name)
            for task in self._layout.tasks(writer.name)
        ]
        if not all(self._pipeline.is_internal(name) for name in stage.inputs):
            bounds.append(now_ms - stage.lateness_ms)
        return min(bounds)


def _known(ends: Mapping[TopicPartition, int], wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    return {where: ends[where] for where in wanted if where in ends}


def records(work: Work, commits: Mapping[TaskId, Commit]) -> int:
    """How many there are to read, gaps included."""
    before = commits[work.task].offsets
    return sum(max(0, end - before[where]) for where, end in work.ends.items())


def spread(works: Sequence[Work], tasks: int) -> list[list[Work]]:
    """Over at most so many Spark tasks. A partition of a stage goes to the same place as long as the number stays."""
    groups: list[list[Work]] = [[] for _ in range(max(1, tasks))]
    for work in works:
        groups[work.task.partition % len(groups)].append(work)
    return [group for group in groups if group]
