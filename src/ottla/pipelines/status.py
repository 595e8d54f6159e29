"""What anybody can see of a pipeline: everything is in its group's offsets, whether it runs or not."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ottla.client.admin import Admin
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.errors import GroupIdNotFound, OttlaError
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
        raise unknown(name)
    partitions = [where for commit in commits for where in commit.offsets]
    ends = {
        where: answer.offset for where, answer in admin.list_offsets(dict.fromkeys(partitions, -1)).items()
    }
    return [
        TaskStatus(commit, sum(max(0, ends[where] - at) for where, at in commit.offsets.items()))
        for commit in commits
    ]


def unknown(name: str) -> PipelineError:
    return PipelineError(f"there is no pipeline {name}, or it has not committed yet")


def reset(admin: Admin, name: str) -> list[str]:
    """Forgets positions and state, so that the next start begins from the start; the topics that were deleted."""
    internal = internal_topics(admin, name)
    # The group first: it is refused while the pipeline runs, and then nothing is lost yet.
    try:
        with suppress(GroupIdNotFound):  # its offsets have expired, or were deleted
            admin.delete_group(name)
    except OttlaError as error:
        raise PipelineError(f"pipeline {name} cannot be reset: {error}") from error
    admin.delete_topics(internal)
    return internal


def internal_topics(admin: Admin, name: str) -> list[str]:
    """Changelogs and repartition topics; not those of pipelines whose longer names begin with this one's."""
    own = {f"{name}-{store}-changelog" for commit in _commits(admin, name) for store in commit.ends}
    others = tuple(f"{group.id}-" for group in admin.list_groups() if group.id.startswith(f"{name}-"))
    return [
        topic
        for topic in admin.list_topics()
        if topic in own or (_is_internal(topic, name) and not topic.startswith(others))
    ]


def _is_internal(topic: str, name: str) -> bool:
    return topic.startswith(f"{name}-") and topic.endswith(("-changelog", "-repartition"))


def _commits(admin: Admin, group: str) -> list[Commit]:
    return commits(admin.group_offsets(group))


def commits(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[Commit]:
    """Each stream task once, with all its positions; none if the offsets are not those of a pipeline."""
    tasks: dict[str, Commit] = {}
    for where, position in sorted(offsets.items()):
        if not position.metadata.startswith('{"v":'):
            continue
        try:
            commit = parse("", {where: position.offset}, position.metadata)
        except PipelineError:
            continue
        known: dict[TopicPartition, int] = dict(tasks[commit.task].offsets) if commit.task in tasks else {}
        tasks[commit.task] = parse("", {**known, where: position.offset}, position.metadata)
    return sorted(tasks.values(), key=_place)


def _place(commit: Commit) -> tuple[str, int]:
    stage, _, partition = commit.task.rpartition("_")
    return stage, int(partition)
