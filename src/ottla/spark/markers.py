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
    """Raises unless the markers of all tasks fit a micro-batch that is new, or that is being done again."""
    if assume_not_written == batch:
        return
    for task_marker in markers:
        task, marker = task_marker.task, task_marker.marker
        if marker is not None and marker.query != query:
            raise OtherQuery(
                f"task {task} found the marker of query {marker.query}, this is {query}: "
                "give each query a transactionalIdPrefix of its own"
            )
    _same_tasks(markers, batch)
    for task_marker in markers:
        task, marker = task_marker.task, task_marker.marker
        if marker is None and batch > 0:
            raise MarkerMissing(
                f"micro-batch {batch}, task {task}: nothing tells whether it is written already. Either the "
                "marker expired (offsets.retention.minutes) or the query did not write exactly once before. Look "
                f"at the end of the topic: if micro-batch {batch} is not there, set assumeNotWritten={batch} for "
                "one start; if it is, begin a new checkpoint behind it"
            )
        if marker is not None and marker.next_batch not in (batch, batch + 1):
            raise CheckpointBehind(
                f"task {task} has written up to micro-batch {marker.next_batch - 1}, and Spark asks "
                f"for {batch}: the checkpoint is not the one that the topic was written with. Restore it, or begin "
                f"a new one; assumeNotWritten={batch} writes all the same"
            )


def _same_tasks(markers: Sequence[TaskMarker], batch: int) -> None:
    """A marker speaks of its task's share of the rows, and the shares are others when the tasks are."""
    known = {task_marker.marker.tasks for task_marker in markers if task_marker.marker is not None}
    if known - {len(markers)}:
        before = min(known - {len(markers)})
        raise TasksChanged(
            f"micro-batch {batch} has {len(markers)} tasks, those before had {before}: what a task has written "
            f"already cannot be told. Go back to {before} (minPartitions={before} on the source, "
            f"repartition({before}) before the sink, or the former spark.sql.shuffle.partitions). To stay with "
            f"{len(markers)}: if nothing of micro-batch {batch} is in the topic, set assumeNotWritten={batch} for "
            "one start"
        )
