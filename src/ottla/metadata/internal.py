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
    if name == CONSUMER_OFFSETS:
        return NewTopic(
            name,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor if in_cluster else 1,
            configs=_settings(
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(max(config.offsets_topic_segment_bytes, SEGMENT_BYTES_MIN)),
                }
            ),
        )
    if name == TRANSACTION_STATE:
        replicas = config.transaction_state_log_replication_factor if in_cluster else 1
        return NewTopic(
            name,
            config.transaction_state_log_num_partitions,
            replicas,
            configs=_settings(
                {
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "segment.bytes": str(max(config.transaction_state_log_segment_bytes, SEGMENT_BYTES_MIN)),
                    "min.insync.replicas": str(min(config.transaction_state_log_min_isr, replicas)),
                    "unclean.leader.election.enable": "false",
                }
            ),
        )
    if name == SHARE_GROUP_STATE:
        replicas = config.share_coordinator_state_topic_replication_factor if in_cluster else 1
        least = config.share_coordinator_state_topic_min_isr
        return NewTopic(
            name,
            config.share_coordinator_state_topic_num_partitions,
            replicas,
            configs=_settings(
                {
                    "cleanup.policy": "delete",  # an update does not replace the one before it
                    "retention.ms": "-1",
                    "compression.type": "uncompressed",
                    "segment.bytes": str(
                        max(config.share_coordinator_state_topic_segment_bytes, SEGMENT_BYTES_MIN)
                    ),
                    "min.insync.replicas": str(min(least, replicas)),
                    "unclean.leader.election.enable": "false",
                }
            ),
        )
    return NewTopic(name)


def _settings(values: dict[str, str]) -> tuple[Setting, ...]:
    return tuple(Setting(name, value) for name, value in values.items())
