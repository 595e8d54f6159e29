"""What a pipeline is: stages, stores, internal topics. Plain values: they travel to Spark's workers."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.frozen import frozen_with_dict
from ottla.pipelines.errors import BadTopology

if TYPE_CHECKING:
    from ottla.pipelines.globals import GlobalTable
    from ottla.pipelines.operators import Operator
    from ottla.pipelines.state.spec import StoreSpec

EVENTS, WALL = "events", "wall"
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"
INTERNAL = "repartition:"
DELETE_RETENTION_MS = 86_400_000  # of changelogs: how long a deletion can be seen in them


class TaskId(NamedTuple):
    """A stream task: one partition of one stage."""

    stage: str
    partition: int

    def __str__(self) -> str:
        return f"{self.stage}_{self.partition}"


@frozen_with_dict
class Stage:
    """A sub-topology. Partition i of every input belongs to its stream task i, so inputs have equally many.

    `operator` is a class or function without arguments that makes the stage's `Operator`. With `clock="wall"` time
    also moves while nothing comes: to the wall clock minus `lateness_ms`, once everything upstream is read. The stage
    is then stepped every `tick_ms`. With `clock="events"` only records move it.

    An input may have more records than a step takes. The others are then read no further in time (`abreast`), so that
    none of its records is late when it comes.
    """

    name: str
    inputs: tuple[str, ...]
    operator: "Callable[[], Operator]"
    stores: "tuple[StoreSpec, ...]" = ()
    outputs: tuple[str, ...] = ()
    clock: str = WALL
    lateness_ms: int = 0
    tick_ms: int = 1_000
    ahead_ms: int | None = None  # a record whose time is further ahead of the wall clock does not move time
    columns: tuple[str, ...] = (
        "key",
        "value",
    )  # of the records that the operator uses; topic and timestamp come too
    abreast: bool = True


@frozen_with_dict
class Repartition:
    """An internal topic between two stages. Its name may begin with INTERNAL, which is no part of the topic's name but
    tells it from a topic of the user's. Without a number it has as many partitions as its reader's other inputs, or
    as many as its writer has stream tasks."""

    name: str
    partitions: int | None = None


@frozen_with_dict
class Pipeline:
    """`name` is also the group's id and the prefix of transactional ids and internal topics.

    `client` are settings of clients, as `bootstrap.servers`. `state_dir` holds the stores' files, on every host; None
    keeps them in the workers' memory. `start` is where a new pipeline begins: earliest or latest.

    `guarantee="at_least_once"` does without transactions: results are seen as soon as they are written, and after a
    failure some are written again, and some records are counted again.
    """

    name: str
    stages: tuple[Stage, ...]
    client: Mapping[str, Any] = field(default_factory=dict)
    repartitions: tuple[Repartition, ...] = ()
    state_dir: str | None = None
    start: str = "earliest"
    records_max: int = 500_000  # of one step
    bytes_max: int = 256 * 1024 * 1024  # of one step's records, about
    globals: "tuple[GlobalTable, ...]" = ()  # topics that every worker holds whole
    guarantee: str = EXACTLY_ONCE

    def __post_init__(self) -> None:
        check(self)

    def stage(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)

    def topic(self, name: str) -> str:
        """The topic behind a name that a stage uses."""
        return f"{self.name}-{name.removeprefix(INTERNAL)}-repartition" if self.is_internal(name) else name

    def is_internal(self, name: str) -> bool:
        return any(repartition.name == name for repartition in self.repartitions)

    def changelog(self, store: str) -> str:
        return f"{self.name}-{store}-changelog"

    def transactional_id(self, task: TaskId) -> str:
        return f"{self.name}-{task.stage}-{task.partition}"

    def writers(self, name: str) -> list[Stage]:
        """The stages that write to an internal topic."""
        return [stage for stage in self.stages if name in stage.outputs]


def check(pipeline: Pipeline) -> None:
    if pipeline.guarantee not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        choices = f"{EXACTLY_ONCE!r} or {AT_LEAST_ONCE!r}"
        raise BadTopology(f"pipeline {pipeline.name}: guarantee={pipeline.guarantee!r}; it is {choices}")
    _refuse_repeated("stage", [stage.name for stage in pipeline.stages])
    stores = [store.name for stage in pipeline.stages for store in stage.stores]
    _refuse_repeated("store", [*stores, *(table.store.name for table in pipeline.globals)])
    _refuse_repeated("repartition topic", [repartition.name for repartition in pipeline.repartitions])
    # A partition's position belongs to one stream task, so no two stages may read it.
    _refuse_repeated("input", [name for stage in pipeline.stages for name in stage.inputs])
    for stage in pipeline.stages:
        if not stage.inputs:
            raise BadTopology(f"stage {stage.name} has no inputs")
        if stage.clock not in (EVENTS, WALL):
            raise BadTopology(f"stage {stage.name}: clock={stage.clock!r}; it is {EVENTS!r} or {WALL!r}")
    for repartition in pipeline.repartitions:
        readers = [stage.name for stage in pipeline.stages if repartition.name in stage.inputs]
        if not readers or not pipeline.writers(repartition.name):
            raise BadTopology(
                f"repartition topic {repartition.name} needs a stage that writes it and one that reads it"
            )
    upstream_first(pipeline)


def upstream_first(pipeline: Pipeline) -> list[Stage]:
    """The stages in an order in which each comes behind those that write to its inputs."""
    ordered: list[Stage] = []
    unplaced = list(pipeline.stages)
    while unplaced:
        ready = [
            stage
            for stage in unplaced
            if not any(writer in unplaced for name in stage.inputs for writer in pipeline.writers(name))
        ]
        if not ready:
            raise BadTopology(
                f"stages {', '.join(stage.name for stage in unplaced)} feed each other in a circle"
            )
        ordered += ready
        unplaced = [stage for stage in unplaced if stage not in ready]
    return ordered


def _refuse_repeated(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise BadTopology(f"two of the name: {what} {name}")
