"""Broker settings of the log: the defaults of topic settings, the cleaner, and the intervals of checks."""

import sys
from collections.abc import Iterator

from ottla.config.definitions import ConfigKey, Importance, Type, Update, at_least, between
from ottla.config.topic import TOPIC_KEYS

_UNSET_BY_DEFAULT = ("retention.ms", "segment.ms", "segment.jitter.ms", "flush.ms")
"""Kafka keeps the defaults of these in coarser settings (hours, the scheduler's interval)."""

INT, LONG, DOUBLE, LIST = Type.INT, Type.LONG, Type.DOUBLE, Type.LIST
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
READ_ONLY, CLUSTER = Update.READ_ONLY, Update.CLUSTER_WIDE


def _topic_defaults() -> Iterator[ConfigKey]:
    """`log.segment.bytes` is to the broker what `segment.bytes` is to a topic, and so on."""
    for key in TOPIC_KEYS.values():
        if key.synonyms:
            default = None if key.name in _UNSET_BY_DEFAULT else key.default
            text = f"What topics without {key.name} of their own use. {key.documentation}"
            yield ConfigKey(
                key.synonyms[0].name, key.type, default, text, key.validator, MEDIUM, Update.CLUSTER_WIDE
            )


LOG_KEYS: tuple[ConfigKey, ...] = (
    *_topic_defaults(),
    ConfigKey("log.retention.hours", INT, 168, "log.retention.ms in hours.", None, HIGH),
    ConfigKey("log.retention.minutes", INT, None, "log.retention.ms in minutes.", None, HIGH),
    ConfigKey("log.roll.hours", INT, 168, "log.roll.ms in hours.", at_least(1), HIGH),
    ConfigKey("log.roll.jitter.hours", INT, 0, "log.roll.jitter.ms in hours.", at_least(0), HIGH),
    ConfigKey(
        "log.flush.scheduler.interval.ms",
        LONG,
        2**63 - 1,
        "How often logs are looked at for a time-based sync, and the default of log.flush.interval.ms.",
        None,
        HIGH,
    ),
    ConfigKey("log.dir", LIST, ("ottla-data",), "The log folder, when log.dirs is not given.", None, HIGH),
    ConfigKey("log.dirs", LIST, None, "The log folders; partitions are spread over them.", None, HIGH),
    ConfigKey(
        "log.retention.check.interval.ms", LONG, 300_000, "How often retention is looked at.", at_least(1)
    ),
    ConfigKey(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60_000,
        "How often recovery points are written down.",
        at_least(0),
        HIGH,
    ),
    ConfigKey(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60_000,
        "How often log start offsets are written down.",
        at_least(0),
        HIGH,
    ),
    ConfigKey("log.cleaner.enable", Type.BOOLEAN, True, "Whether compaction runs."),
    ConfigKey(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        "The pause when nothing was to be compacted.",
        at_least(0),
        MEDIUM,
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        128 << 20,
        "The memory of compaction's key map.",
        at_least(1 << 20),
        MEDIUM,
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "How full the key map may get.",
        between(0, 1),
        MEDIUM,
        CLUSTER,
    ),
    ConfigKey(
        "log.cleaner.io.buffer.size", INT, 512 << 10, "Compaction's buffers.", at_least(0), MEDIUM, CLUSTER
    ),
    ConfigKey(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        sys.float_info.max,
        "How fast compaction may read and write.",
        None,
        MEDIUM,
        CLUSTER,
    ),
    ConfigKey("log.cleaner.threads", INT, 1, "Logs compacted at a time.", at_least(0), MEDIUM, CLUSTER),
    ConfigKey(
        "producer.id.expiration.ms",
        INT,
        86_400_000,
        "A producer silent on a partition for this long is forgotten there.",
        at_least(1),
        LOW,
        CLUSTER,
    ),
)
