"""What the markers that a micro-batch's tasks have read say about writing it. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.client.exactly_once import Marker
from ottla.spark.errors import CheckpointBehind, MarkerMissing, OtherQuery, TasksChanged


@dataclass(frozen=True, slots=True)
class TaskMarker:
    """A task of a micro-batch and the marker that it met."""

    task: int
    marker: Marker | None


def judge(
    markers: Sequence[TaskMarker], query: str, batch: int, assume_not_written: int | None = None
) -> None:
    """Raises unless the markers of all tasks fit a micro-batch that is new, or that is being done again.

    The transaction of task 0 is committed before the others. So its marker tells of all tasks whether anything of the
    micro-batch is committed, and how many tasks shared its rows.
    """
    if assume_not_written == batch:
        return
    for task_marker in markers:
        task, marker = task_marker.task, task_marker.marker
        if marker is not None and marker.query != query:
            raise OtherQuery(
                f"task {task} found the marker of query {marker.query}, this is {query}: "
                "give each query a transactionalIdPrefix of its own"
            )
    first = first_marker(markers)
    if first is None:
        _nothing_written(markers, batch)
        return
    if first.next_batch not in (batch, batch + 1):
        raise _behind(0, first, batch)
    if first.next_batch == batch + 1 and first.tasks != len(markers):
        raise _tasks_changed(first.tasks, len(markers), batch)
    for task_marker in markers:
        marker = task_marker.marker
        if marker is not None and marker.next_batch > first.next_batch:
            raise _behind(task_marker.task, marker, batch)


def first_marker(markers: Sequence[TaskMarker]) -> Marker | None:
    """The marker of task 0."""
    return next(task_marker.marker for task_marker in markers if task_marker.task == 0)


def _nothing_written(markers: Sequence[TaskMarker], batch: int) -> None:
    """Without a marker of task 0 this is the first micro-batch, and no task has a marker."""
    if batch > 0 or any(task_marker.marker is not None for task_marker in markers):
        raise MarkerMissing(
            f"micro-batch {batch}, task 0: nothing tells whether it is written already. Either the "
            "marker expired (offsets.retention.minutes) or the query did not write exactly once before. Look "
            f"at the end of the topic: if micro-batch {batch} is not there, set assumeNotWritten={batch} for "
            "one start; if it is, begin a new checkpoint behind it"
        )


def _behind(task: int, marker: Marker, batch: int) -> CheckpointBehind:
    return CheckpointBehind(
        f"task {task} has written up to micro-batch {marker.next_batch - 1}, and Spark asks "
        f"for {batch}: the checkpoint is not the one that the topic was written with. Restore it, or begin "
        f"a new one; assumeNotWritten={batch} writes all the same"
    )


def _tasks_changed(before: int, now: int, batch: int) -> TasksChanged:
    """A marker speaks of its task's share of the rows, and the shares are others when the tasks are."""
    return TasksChanged(
        f"micro-batch {batch} was committed in part by {before} tasks, and has {now} now: which rows are written "
        f"cannot be told. Start it once more with {before} (minPartitions={before} on the source, "
        f"repartition({before}) before the sink, or the former spark.sql.shuffle.partitions); later micro-batches "
        "may have any number"
    )
