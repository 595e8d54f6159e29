"""What anybody can see of a pipeline: everything is in its group's offsets, whether it runs or not."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.admin import Admin
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.positions import Commit, parse


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A stream task: its last commit, and how many records it has not read."""

    commit: Commit
    lag: int


def names(admin: Admin) -> list[str]:
    """The pipelines that have committed."""
    return [group.id for group in admin.list_groups() if _commits(admin, group.id)]


def status(admin: Admin, name: str) -> list[TaskStatus]:
    """By stream task."""
    commits = _commits(admin, name)
    if not commits:
        raise PipelineError(f"there is no pipeline {name}, or it has not committed yet")
    partitions = [where for commit in commits for where in commit.offsets]
    ends = {where: told.offset for where, told in admin.list_offsets(dict.fromkeys(partitions, -1)).items()}
    return [
        TaskStatus(commit, sum(max(0, ends[where] - at) for where, at in commit.offsets.items()))
        for commit in commits
    ]


def reset(admin: Admin, name: str) -> list[str]:
    """Forgets positions and state, so that the next start begins from the start; the topics that were deleted."""
    _commits(admin, name)
    internal = [topic for topic in admin.list_topics() if _is_internal(topic, name)]
    # The group first: it is refused while the pipeline runs, and then nothing is lost yet.
    try:
        admin.delete_group(name)
    except OttlaError as error:
        raise PipelineError(f"pipeline {name} cannot be reset: {error}") from error
    admin.delete_topics(internal)
    return internal


def _is_internal(topic: str, name: str) -> bool:
    return topic.startswith(f"{name}-") and topic.endswith(("-changelog", "-repartition"))


def _commits(admin: Admin, group: str) -> list[Commit]:
    return commits(admin.group_offsets(group))


def commits(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[Commit]:
    """Each stream task once, with all its positions; none if the offsets are not those of a pipeline."""
    tasks: dict[str, Commit] = {}
    for where, told in sorted(offsets.items()):
        if not told.metadata.startswith('{"v":'):
            continue
        try:
            commit = parse("", {where: told.offset}, told.metadata)
        except PipelineError:
            continue
        known: dict[TopicPartition, int] = dict(tasks[commit.task].offsets) if commit.task in tasks else {}
        tasks[commit.task] = parse("", {**known, where: told.offset}, told.metadata)
    return sorted(tasks.values(), key=_place)


def _place(commit: Commit) -> tuple[str, int]:
    stage, _, partition = commit.task.rpartition("_")
    return stage, int(partition)
