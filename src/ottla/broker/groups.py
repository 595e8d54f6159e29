"""The group coordinator's surroundings: topics, settings, and where its log lines go."""

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from ottla.broker.coordinators import Coordinator
from ottla.config.settings import Config
from ottla.metadata.image import GROUP_RESOURCE, Image
from ottla.metadata.names import CONSUMER_OFFSETS

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.coordination.groups.codec import GroupCodec
    from ottla.coordination.groups.regex import Patterns
    from ottla.coordination.groups.settings import GroupSettings
    from ottla.coordination.groups.table import GroupTable

log = logging.getLogger("ottla.groups")


class ImageTopics:
    """Topics of the cluster as groups see them."""

    def __init__(self, image: Image) -> None:
        self._image = image

    def names(self) -> Iterable[str]:
        return self._image.topics

    def topic_id(self, name: str) -> bytes | None:
        topic = self._image.topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, name: str) -> int:
        topic = self._image.topics.get(name)
        return 0 if topic is None else len(topic.partitions)

    def racks(self, name: str, partition: int) -> frozenset[str]:
        found = self._image.partition(name, partition)
        brokers = (self._image.brokers.get(each) for each in (found.replicas if found else ()))
        return frozenset(each.rack for each in brokers if each is not None and each.rack)


def group_coordinator(broker: "Broker") -> Coordinator:
    image = broker.image

    def overrides(group_id: str) -> Mapping[str, str]:
        return image.settings(GROUP_RESOURCE, group_id)

    @cache
    def patterns() -> "Patterns":
        """Shared by all shards."""
        from ottla.coordination.groups.regex import Patterns

        return Patterns()

    def make_machine(_: object) -> "tuple[GroupTable, GroupCodec]":
        """Imported with the first group: a sixth of the start-up time."""
        import uuid

        from ottla.coordination.groups.codec import GroupCodec
        from ottla.coordination.groups.environment import Environment
        from ottla.coordination.groups.table import GroupTable

        table = GroupTable(
            Environment(
                ImageTopics(image),
                lambda: str(uuid.UUID(bytes=broker.new_uuid())),
                settings_of(broker.config),
                overrides,
                lambda line: log.info("%s", line),
                patterns(),
            )
        )
        return table, GroupCodec()

    return Coordinator(CONSUMER_OFFSETS, image, broker.clock, make_machine)


def settings_of(config: Config) -> "GroupSettings":
    from ottla.coordination.groups.settings import GroupSettings

    return GroupSettings(
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_max_size=config.group_max_size,
        group_pending_members_max=config.ottla_group_pending_members_max,
        group_consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        group_consumer_min_session_timeout_ms=config.group_consumer_min_session_timeout_ms,
        group_consumer_max_session_timeout_ms=config.group_consumer_max_session_timeout_ms,
        group_consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        group_consumer_min_heartbeat_interval_ms=config.group_consumer_min_heartbeat_interval_ms,
        group_consumer_max_heartbeat_interval_ms=config.group_consumer_max_heartbeat_interval_ms,
        group_consumer_max_size=config.group_consumer_max_size,
        group_consumer_assignors=tuple(config.group_consumer_assignors),
        group_consumer_migration_policy=config.group_consumer_migration_policy.lower(),
        group_consumer_short_heartbeat_interval_ms=(
            config.ottla_group_consumer_settling_heartbeat_interval_ms
        ),
        group_consumer_short_heartbeat_period_ms=config.ottla_group_consumer_settling_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
    )
