"""Topics: created and deleted unless that was done before, and what is set for each."""

from collections.abc import Container, Iterable

from ottla import errors
from ottla.client import Admin
from ottla.client.admin.topics import CreatedTopic, NewTopic
from ottla.client.values import TopicPartition


def create(
    admin: Admin, new: NewTopic, *, may_exist: bool, validate_only: bool = False
) -> CreatedTopic | None:
    """None if it exists and may."""
    try:
        return admin.create_topics([new], validate_only=validate_only)[0]
    except errors.TopicAlreadyExists:
        if not may_exist:
            raise
        return None


def delete(admin: Admin, name: str, *, may_be_missing: bool) -> bool:
    """Whether it was there."""
    try:
        admin.delete_topics([name])
    except errors.UnknownTopicOrPartition:
        if not may_be_missing:
            raise
        return False
    return True


def settings_from(admin: Admin, name: str, sources: Container[str]) -> dict[str, str | None]:
    """Those of a topic's settings whose values come from there."""
    configs = admin.describe_configs("topic", name)
    return {config.name: config.value for config in configs.values() if config.source in sources}


def partition_count(admin: Admin, name: str) -> int:
    return len(admin.describe_topics([name])[name].partitions)


def partitions_of(topic: str, indexes: Iterable[int]) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in sorted(indexes)]
