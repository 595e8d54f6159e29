"""What the author of a stage writes: an `Operator`; and the `Step` that it is given."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.pipelines.errors import BadTopology

if TYPE_CHECKING:  # the console reads positions of pipelines, and needs no Arrow for it: 30 MB
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

    from ottla.pipelines.state.store import KeyedStore
    from ottla.pipelines.topology import TaskId


WALL_MARK = "wall:"


class Step:
    """One transaction of one stream task, seen from its operator."""

    def __init__(
        self,
        task: "TaskId",
        stores: "Mapping[str, KeyedStore]",
        outputs: frozenset[str],
        time_ms: int,
        wall_ms: int = 0,
        marks: "Mapping[str, int] | None" = None,
    ) -> None:
        self.task = task
        self.stores = stores
        self.before_ms = time_ms  # the time when the step began
        self.time_ms = time_ms  # of the stream task; moved before `advance` is called
        self.wall_ms = wall_ms
        self.moved_ms: int | None = None  # how far the wall clock moves the task; None if it does not
        # A few numbers that are committed with the positions and come back with the next step, in whatever process.
        # One whose name begins with WALL_MARK is a time: the stage is stepped then although nothing came.
        self.marks: dict[str, int] = dict(marks or {})
        self.shown: dict[str, int] = {}
        self._outputs = outputs
        self.emitted: list[tuple[str, pa.RecordBatch]] = []

    def show(self, **figures: int) -> None:
        """Numbers for progress and metrics; those of a stage's tasks are added up."""
        self.shown.update(figures)

    def emit(self, output: str, rows: "pa.RecordBatch") -> None:
        """Rows with the columns value and, as wanted, key, partition, headers, timestamp."""
        if output not in self._outputs:
            raise BadTopology(f"stage {self.task.stage} writes to {output}, which is not among its outputs")
        if rows.num_rows:
            self.emitted.append((output, rows))


class Operator(ABC):
    """Only stores hold state: an operator may be re-created at any time, in any process."""

    @abstractmethod
    def process(self, rows: "pa.RecordBatch", step: Step) -> None:
        """The records of a step: by timestamp if there are several inputs, else in the order of the partition."""

    def advance(self, step: Step) -> None:
        """After all records, with the time moved to `step.time_ms`: what is due by now."""
