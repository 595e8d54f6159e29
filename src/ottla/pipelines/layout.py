"""How many stream tasks each stage has, and the internal topics that this takes."""

from collections.abc import Mapping

from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.session import missing_topic
from ottla.errors import TopicAlreadyExists
from ottla.pipelines.errors import BadTopology
from ottla.pipelines.topology import DELETE_RETENTION_MS, Pipeline, Stage, TaskId, upstream_first

CHANGELOG = {"cleanup.policy": "compact", "delete.retention.ms": str(DELETE_RETENTION_MS)}
# Records are deleted once they are read, and never before.
REPARTITION = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


class Layout:
    """Stream tasks by stage."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts

    def tasks(self, stage: str) -> list[TaskId]:
        return [TaskId(stage, partition) for partition in range(self._counts[stage])]

    def all(self) -> list[TaskId]:
        return [task for stage in self._counts for task in self.tasks(stage)]

    def __contains__(self, task: TaskId) -> bool:
        return task.partition < self._counts.get(task.stage, 0)


def lay_out(pipeline: Pipeline, admin: Admin) -> Layout:
    """Creates the internal topics that are missing; refuses those that do not fit."""
    existing = {name: len(topic.partitions) for name, topic in admin.list_topics().items()}
    for name in _external(pipeline):
        if name not in existing:
            raise missing_topic(name)
    counts: dict[str, int] = {}
    for stage in upstream_first(pipeline):
        counts[stage.name] = _count(pipeline, stage, existing, counts)
        for name in stage.inputs:
            if pipeline.is_internal(name):
                _ensure(admin, existing, pipeline.topic(name), counts[stage.name], REPARTITION)
        for store in stage.stores:
            _ensure(admin, existing, pipeline.changelog(store.name), counts[stage.name], CHANGELOG)
    return Layout(counts)


def _external(pipeline: Pipeline) -> list[str]:
    names = [name for stage in pipeline.stages for name in (*stage.inputs, *stage.outputs)]
    names += [table.topic for table in pipeline.globals]
    return [name for name in dict.fromkeys(names) if not pipeline.is_internal(name)]


def _count(
    pipeline: Pipeline, stage: Stage, partition_counts: Mapping[str, int], counts: Mapping[str, int]
) -> int:
    """The partitions of the stage's inputs; all must have equally many."""
    wanted: dict[str, int] = {}
    for name in stage.inputs:
        asked = _asked(pipeline, name) if pipeline.is_internal(name) else partition_counts[name]
        if asked is not None:
            wanted[name] = asked
    if len(set(wanted.values())) > 1:
        differences = ", ".join(f"{name} has {count}" for name, count in wanted.items())
        raise BadTopology(
            f"stage {stage.name}: its inputs need equally many partitions, but {differences}; "
            "send one through a repartition topic"
        )
    if wanted:
        return next(iter(wanted.values()))
    existing = [
        partition_counts[pipeline.topic(name)]
        for name in stage.inputs
        if pipeline.topic(name) in partition_counts
    ]
    writers = [counts[writer.name] for name in stage.inputs for writer in pipeline.writers(name)]
    return existing[0] if existing else max(writers)


def _asked(pipeline: Pipeline, name: str) -> int | None:
    return next(
        (repartition.partitions for repartition in pipeline.repartitions if repartition.name == name), None
    )


def _ensure(
    admin: Admin, existing: Mapping[str, int], topic: str, partitions: int, configs: Mapping[str, str]
) -> None:
    if topic not in existing:
        try:
            admin.create_topics([NewTopic(topic, partitions, configs=configs)])
        except TopicAlreadyExists:
            existing = {topic: len(admin.describe_topics([topic])[topic].partitions)}
        else:
            return
    if existing[topic] != partitions:
        raise BadTopology(
            f"internal topic {topic} has {existing[topic]} partitions, the inputs have {partitions}: keys would be "
            "looked for in the wrong place. Reset the pipeline, or give the inputs their former number of partitions"
        )
