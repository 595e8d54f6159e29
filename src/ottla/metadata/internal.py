"""Topics that brokers make by themselves: those of the coordinators, and those a client just asks for."""

from dataclasses import field

from ottla.config.settings import Config
from ottla.frozen import frozen
from ottla.metadata.image import Image
from ottla.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE

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


def topic_by_itself(name: str, image: Image, config: Config) -> NewTopic:
    """The topic behind a name; for names that are not internal, one with the broker's defaults."""
    if name == CONSUMER_OFFSETS:
        return NewTopic(
            name,
            config.offsets_topic_num_partitions,
            _replicas(config.offsets_topic_replication_factor, image),
            configs=_settings(
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(max(config.offsets_topic_segment_bytes, SEGMENT_BYTES_MIN)),
                }
            ),
        )
    if name == TRANSACTION_STATE:
        replicas = _replicas(config.transaction_state_log_replication_factor, image)
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
    return NewTopic(name)


def _replicas(wanted: int, image: Image) -> int:
    """Kafka refuses with fewer brokers than the factor, so that a single broker needs settings to run.
    Ours takes what there is: at least one."""
    alive = sum(broker.may_lead for broker in image.brokers.values())
    return max(1, min(wanted, alive))


def _settings(values: dict[str, str]) -> tuple[Setting, ...]:
    return tuple(Setting(name, value) for name, value in values.items())
