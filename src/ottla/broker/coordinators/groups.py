"""The group coordinator's surroundings: topics, settings, and where its log lines go."""

import logging
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from ottla.broker.coordinators.shards import Carrier, Coordinator, LocalShard
from ottla.broker.settings import Settings
from ottla.config.settings import Config
from ottla.coordination.shard import Shard
from ottla.metadata.image import GROUP_RESOURCE, Image
from ottla.metadata.names import CONSUMER_OFFSETS
from ottla.metadata.records import AclAdded, AclRemoved, PartitionCreated, Record, TopicCreated, TopicDeleted
from ottla.ports import Clock

if TYPE_CHECKING:
    from ottla.coordination.groups.decision import GroupEffects
    from ottla.coordination.groups.regex import Patterns
    from ottla.coordination.groups.settings import GroupSettings
    from ottla.coordination.groups.table import GroupTable

logger = logging.getLogger("ottla.groups")


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
        state = self._image.partition(name, partition)
        brokers = (self._image.brokers.get(broker_id) for broker_id in (state.replicas if state else ()))
        return frozenset(broker.rack for broker in brokers if broker is not None and broker.rack)


class Groups(Coordinator["GroupTable", "GroupEffects"]):
    """The group coordinator: its shards here, what they know of the cluster, and their settings."""

    def __init__(self, image: Image, clock: Clock, settings: Settings, new_uuid: Callable[[], bytes]) -> None:
        super().__init__(CONSUMER_OFFSETS, image, clock, self._machine_of)
        self._settings, self._new_uuid = settings, new_uuid
        self._topic_names = {topic_id: topic.name for topic_id, topic in image.topics_by_id.items()}
        image.watch(self._on_record)

    def count(self) -> int:
        """Groups of all shards here."""
        states = [shard.machine.state for shard in self.shards.values()]
        return sum(len(state.groups) + len(state.share_groups) for state in states)

    @cached_property
    def _patterns(self) -> "Patterns":
        """Shared by all shards."""
        from ottla.coordination.groups.regex import Patterns

        return Patterns()

    def _machine_of(
        self, shard: "LocalShard[GroupTable, GroupEffects]"
    ) -> "tuple[GroupTable, Carrier[GroupEffects]]":
        """Imported with the first group: a sixth of the start-up time."""
        import uuid

        from ottla.coordination.groups.codec import GroupCodec
        from ottla.coordination.groups.environment import Environment
        from ottla.coordination.groups.table import GroupTable

        table = GroupTable(
            Environment(
                ImageTopics(self._image),
                lambda: str(uuid.UUID(bytes=self._new_uuid())),
                settings_of(self._settings.now),
                lambda group_id: self._image.settings(GROUP_RESOURCE, group_id),
                lambda line: logger.info("%s", line),
                self._patterns,
            )
        )
        return table, Shard(table, GroupCodec(), shard, self._clock)

    def _on_record(self, record: Record) -> None:
        """Tells groups about topics that are created, grow or are deleted."""
        match record:
            case TopicCreated():
                self._topic_names[record.topic_id] = record.name
            case TopicDeleted():
                name = self._topic_names.pop(record.topic_id)
                for shard in self.shards.values():
                    shard.carry_out(shard.machine.on_topic_deleted(name, self._clock.now_ms()))
                    shard.machine.on_topics_changed()
            case PartitionCreated() | AclAdded() | AclRemoved():  # patterns bring what members may see
                for shard in self.shards.values():
                    shard.machine.on_topics_changed()


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
        group_share_session_timeout_ms=config.group_share_session_timeout_ms,
        group_share_min_session_timeout_ms=config.group_share_min_session_timeout_ms,
        group_share_max_session_timeout_ms=config.group_share_max_session_timeout_ms,
        group_share_heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
        group_share_min_heartbeat_interval_ms=config.group_share_min_heartbeat_interval_ms,
        group_share_max_heartbeat_interval_ms=config.group_share_max_heartbeat_interval_ms,
        group_share_max_size=config.group_share_max_size,
        group_streams_session_timeout_ms=config.group_streams_session_timeout_ms,
        group_streams_min_session_timeout_ms=config.group_streams_min_session_timeout_ms,
        group_streams_max_session_timeout_ms=config.group_streams_max_session_timeout_ms,
        group_streams_heartbeat_interval_ms=config.group_streams_heartbeat_interval_ms,
        group_streams_min_heartbeat_interval_ms=config.group_streams_min_heartbeat_interval_ms,
        group_streams_max_heartbeat_interval_ms=config.group_streams_max_heartbeat_interval_ms,
        group_streams_max_size=config.group_streams_max_size,
        group_streams_num_standby_replicas=config.group_streams_num_standby_replicas,
        group_streams_max_standby_replicas=config.group_streams_max_standby_replicas,
        group_streams_initial_rebalance_delay_ms=config.group_streams_initial_rebalance_delay_ms,
        group_streams_assignment_interval_ms=config.group_streams_assignment_interval_ms,
        group_streams_min_assignment_interval_ms=config.group_streams_min_assignment_interval_ms,
        group_streams_max_assignment_interval_ms=config.group_streams_max_assignment_interval_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
    )
