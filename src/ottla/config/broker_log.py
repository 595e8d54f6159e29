"""Broker settings of the log: the defaults of topic settings, the cleaner, and the intervals of checks."""

from collections.abc import Iterator

from ottla.config.definitions import LONG_MAX, ConfigKey, Update, at_least
from ottla.config.fields import CLUSTER_WIDE, boolean, integer, long, names
from ottla.config.topic import TOPIC_KEYS

_UNSET_BY_DEFAULT = ("retention.ms", "segment.ms", "segment.jitter.ms", "flush.ms")
"""Kafka keeps the defaults of these in coarser settings (hours, the scheduler's interval)."""


def topic_default_keys() -> Iterator[ConfigKey]:
    """`log.segment.bytes` is to the broker what `segment.bytes` is to a topic, and so on: read as the fields of
    `LogConfig`."""
    for key in TOPIC_KEYS.values():
        if key.synonyms:
            default = None if key.name in _UNSET_BY_DEFAULT else key.default
            text = f"What topics without {key.name} of their own use. {key.documentation}"
            yield ConfigKey(key.synonyms[0].name, key.type, default, text, key.validator, Update.CLUSTER_WIDE)


class LogSettings:
    log_retention_hours = integer(168, "log.retention.ms in hours.")
    log_retention_minutes = integer(None, "log.retention.ms in minutes.")
    log_roll_hours = integer(168, "log.roll.ms in hours.", at_least(1))
    log_roll_jitter_hours = integer(0, "log.roll.jitter.ms in hours.", at_least(0))
    log_flush_scheduler_interval_ms = long(LONG_MAX, "The default of log.flush.interval.ms.")
    log_dir = names(("ottla-data",), "The log folder, when log.dirs is not set.")
    log_dirs = names(None, "The log folders; partitions are spread over them.")
    log_retention_check_interval_ms = long(300_000, "How often old segments are looked for.", at_least(1))
    log_flush_offset_checkpoint_interval_ms = integer(
        60_000, "How often recovery points, start offsets and high watermarks are written.", at_least(0)
    )
    log_cleaner_enable = boolean(True, "Whether compaction runs.")
    log_cleaner_backoff_ms = long(
        15_000, "The pause when there was nothing to compact.", at_least(0), update=CLUSTER_WIDE
    )
    log_cleaner_dedupe_buffer_size = long(
        128 << 20, "The memory of compaction's key map.", at_least(1 << 20), update=CLUSTER_WIDE
    )
    producer_id_expiration_ms = integer(
        86_400_000,
        "A producer silent on a partition for this long is forgotten there.",
        at_least(1),
        update=CLUSTER_WIDE,
    )
