"""The settings that one partition's log runs by."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.config.contracts import WRITER, Contract, contract_of
from ottla.config.definitions import INT_MAX, LONG_MAX
from ottla.config.topic import INTERNAL_SEGMENT_BYTES, MIRROR_LINK_EPOCH, MIRROR_SOURCE, topic_key
from ottla.frozen import frozen

if TYPE_CHECKING:
    from ottla.config.settings import Config

# Between two entries a read walks the headers of all batches, on the event loop: a thousand small ones at most.
INDEX_INTERVAL_BYTES_MAX = 64 << 10


@frozen
class LogConfig:
    """Effective settings: the topic's own, else the broker's, else the default."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    compact: bool = False
    delete: bool = True
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    max_message_bytes: int = 1_048_588
    uncompressed_bytes_max: int = 64 << 20
    log_append_time: bool = False
    timestamp_before_max_ms: int = LONG_MAX
    timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    producer_id_expiration_ms: int = 86_400_000
    mirror_source: str = ""  # the link whose batches the topic takes, and no others
    mirror_link_epoch: int = 0
    contract: Contract | None = None  # what records must be
    writer_transactional_id: str = ""  # who may write, if not everybody

    @classmethod
    def from_settings(cls, topic_overrides: Mapping[str, str], broker: "Config") -> "LogConfig":
        if not topic_overrides:
            return broker.log_defaults
        own = {name: topic_key(name).parse(text) for name, text in topic_overrides.items()}
        return cls.from_values({**broker.topic_defaults, **own}, broker)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], broker: "Config") -> "LogConfig":
        of = values.__getitem__
        policies = of("cleanup.policy")
        segment_bytes = of("segment.bytes")
        if INTERNAL_SEGMENT_BYTES.name in values:
            segment_bytes = values[INTERNAL_SEGMENT_BYTES.name]
        return cls(
            segment_bytes=min(segment_bytes, INT_MAX),
            segment_ms=of("segment.ms"),
            segment_jitter_ms=of("segment.jitter.ms"),
            segment_index_bytes=of("segment.index.bytes"),
            index_interval_bytes=min(of("index.interval.bytes"), INDEX_INTERVAL_BYTES_MAX),
            retention_ms=of("retention.ms"),
            retention_bytes=of("retention.bytes"),
            compact="compact" in policies,
            delete="delete" in policies,
            min_cleanable_dirty_ratio=of("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms=of("min.compaction.lag.ms"),
            max_compaction_lag_ms=of("max.compaction.lag.ms"),
            delete_retention_ms=of("delete.retention.ms"),
            file_delete_delay_ms=of("file.delete.delay.ms"),
            max_message_bytes=of("max.message.bytes"),
            uncompressed_bytes_max=broker.ottla_batch_uncompressed_max_bytes,
            log_append_time=of("message.timestamp.type") == "LogAppendTime",
            timestamp_before_max_ms=of("message.timestamp.before.max.ms"),
            timestamp_after_max_ms=of("message.timestamp.after.max.ms"),
            compression_type=of("compression.type"),
            compression_gzip_level=of("compression.gzip.level"),
            compression_lz4_level=of("compression.lz4.level"),
            compression_zstd_level=of("compression.zstd.level"),
            flush_messages=of("flush.messages"),
            flush_ms=of("flush.ms"),
            min_insync_replicas=of("min.insync.replicas"),
            unclean_leader_election_enable=of("unclean.leader.election.enable"),
            producer_id_expiration_ms=broker.producer_id_expiration_ms,
            mirror_source=values.get(MIRROR_SOURCE.name, ""),
            mirror_link_epoch=values.get(MIRROR_LINK_EPOCH.name, 0),
            contract=contract_of(values),
            writer_transactional_id=values.get(WRITER.name, ""),
        )
