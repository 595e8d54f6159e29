"""Topics that brokers create by themselves: the coordinators' own, and those a client asks for by name."""

from dataclasses import field

from ottla.config.settings import Config
from ottla.frozen import frozen
from ottla.metadata.names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

SEGMENT_BYTES_MIN = 1 << 20  # a topic takes no less; the broker's setting may say less


@frozen
class Setting:
    name: str
    value: str


@frozen
class NewTopic:
    """As CreateTopics asks for it, for `topics.create_topics`."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[()] = ()
    configs: tuple[Setting, ...] = field(default=())


def topic_by_itself(name: str, config: Config, *, in_cluster: bool) -> NewTopic:
    """The topic behind a name; for names that are not internal, one with the broker's defaults.

    As in Apache Kafka, an internal topic has the replication factor of its setting or is not created yet: one that
    begins with fewer replicas, because brokers are still to come, would keep them for good. A broker without a
    cluster uses one replica, so that it needs no settings to run.
    """
    make = _INTERNAL.get(name)
    return NewTopic(name) if make is None else make(config, in_cluster)


def _consumer_offsets(config: Config, in_cluster: bool) -> NewTopic:
    settings = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": _segment_bytes(config.offsets_topic_segment_bytes),
    }
    replicas = config.offsets_topic_replication_factor if in_cluster else 1
    return NewTopic(
        CONSUMER_OFFSETS, config.offsets_topic_num_partitions, replicas, configs=_settings(settings)
    )


def _transaction_state(config: Config, in_cluster: bool) -> NewTopic:
    replicas = config.transaction_state_log_replication_factor if in_cluster else 1
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": _segment_bytes(config.transaction_state_log_segment_bytes),
        **_never_lost(config.transaction_state_log_min_isr, replicas),
    }
    partitions = config.transaction_state_log_num_partitions
    return NewTopic(TRANSACTION_STATE, partitions, replicas, configs=_settings(settings))


def _share_group_state(config: Config, in_cluster: bool) -> NewTopic:
    replicas = config.share_coordinator_state_topic_replication_factor if in_cluster else 1
    settings = {
        "cleanup.policy": "delete",  # an update does not replace the one before it
        "retention.ms": "-1",
        "segment.bytes": _segment_bytes(config.share_coordinator_state_topic_segment_bytes),
        **_never_lost(config.share_coordinator_state_topic_min_isr, replicas),
    }
    partitions = config.share_coordinator_state_topic_num_partitions
    return NewTopic(SHARE_GROUP_STATE, partitions, replicas, configs=_settings(settings))


def _never_lost(min_isr: int, replicas: int) -> dict[str, str]:
    """Settings of a coordinator's topic of which no committed record may be lost."""
    return {
        "compression.type": "uncompressed",
        "min.insync.replicas": str(min(min_isr, replicas)),
        "unclean.leader.election.enable": "false",
    }


def _segment_bytes(wanted: int) -> str:
    return str(max(wanted, SEGMENT_BYTES_MIN))


def _settings(values: dict[str, str]) -> tuple[Setting, ...]:
    return tuple(Setting(name, value) for name, value in values.items())


_INTERNAL = {
    CONSUMER_OFFSETS: _consumer_offsets,
    TRANSACTION_STATE: _transaction_state,
    SHARE_GROUP_STATE: _share_group_state,
}
