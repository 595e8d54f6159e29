"""The settings of a topic: all of Apache Kafka 4.3, with the broker settings they fall back to."""

from collections.abc import Mapping

from ottla import errors
from ottla.config.contracts import CONTRACT_KEYS
from ottla.config.definitions import (
    LONG_MAX,
    ConfigKey,
    Synonym,
    Type,
    Validator,
    Value,
    Wrong,
    at_least,
    between,
    by_name,
    each_of,
    gzip_level,
    one_of,
)

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")

_WEEK_MS = 7 * 24 * 3_600_000
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


def _throttled(name: str) -> Validator:
    def check(value: Value) -> Wrong | None:
        assert isinstance(value, tuple)
        if value == ("*",) or all(_is_replica(part) for part in value):
            return None
        return Wrong(
            value,
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )

    return check


def _is_replica(text: str) -> bool:
    partition, colon, broker = text.partition(":")
    return bool(colon) and partition.isdecimal() and broker.isdecimal()


def _key(
    name: str,
    type: Type,
    default: Value,
    documentation: str,
    validator: Validator | None = None,
    *synonyms: str | Synonym,
) -> ConfigKey:
    falls_back_to = tuple(Synonym(synonym) if isinstance(synonym, str) else synonym for synonym in synonyms)
    return ConfigKey(name, type, default, documentation, validator, synonyms=falls_back_to)


TOPIC_KEYS: dict[str, ConfigKey] = by_name(
    (
        _key(
            "cleanup.policy",
            Type.LIST,
            ("delete",),
            "What happens to old segments: `delete` drops them by age and size, `compact` keeps the last "
            "record of every key, both together do both, and an empty list keeps everything.",
            each_of("compact", "delete"),
            "log.cleanup.policy",
        ),
        _key(
            "compression.gzip.level",
            Type.INT,
            -1,
            "How hard gzip tries, when the topic is stored as gzip.",
            gzip_level,
            "compression.gzip.level",
        ),
        _key(
            "compression.lz4.level",
            Type.INT,
            9,
            "How hard lz4 tries, when the topic is stored as lz4.",
            between(1, 17),
            "compression.lz4.level",
        ),
        _key(
            "compression.type",
            Type.STRING,
            "producer",
            "How batches are stored: `producer` leaves them as they came, `uncompressed` unpacks them, "
            "anything else packs them with that codec.",
            one_of(*COMPRESSION_TYPES),
            "compression.type",
        ),
        _key(
            "compression.zstd.level",
            Type.INT,
            3,
            "How hard zstd tries, when the topic is stored as zstd.",
            between(-131072, 22),
            "compression.zstd.level",
        ),
        _key(
            "delete.retention.ms",
            Type.LONG,
            86_400_000,
            "How long a tombstone stays after compaction has met it, so that a reader who starts at the "
            "beginning and finishes within that time sees every deletion.",
            at_least(0),
            "log.cleaner.delete.retention.ms",
        ),
        _key(
            "file.delete.delay.ms",
            Type.LONG,
            60_000,
            "How long the file of a dropped segment stays on disk under its .deleted name.",
            at_least(0),
            "log.segment.delete.delay.ms",
        ),
        _key(
            "flush.messages",
            Type.LONG,
            LONG_MAX,
            "After this many records the log is synced to disk; 1 syncs before every acknowledgement.",
            at_least(1),
            "log.flush.interval.messages",
        ),
        _key(
            "flush.ms",
            Type.LONG,
            LONG_MAX,
            "After this long the log is synced to disk.",
            at_least(0),
            "log.flush.interval.ms",
            "log.flush.scheduler.interval.ms",
        ),
        _key(
            "follower.replication.throttled.replicas",
            Type.LIST,
            (),
            "Replicas that are slowed down on the follower's side, as partition:broker pairs, or * for all.",
            _throttled("follower.replication.throttled.replicas"),
        ),
        _key(
            "index.interval.bytes",
            Type.INT,
            4096,
            "About one index entry is written for this many bytes of log, and for 64 KiB at the most.",
            at_least(0),
            "log.index.interval.bytes",
        ),
        _key(
            "leader.replication.throttled.replicas",
            Type.LIST,
            (),
            "Replicas that are slowed down on the leader's side, as partition:broker pairs, or * for all.",
            _throttled("leader.replication.throttled.replicas"),
        ),
        _key(
            "local.retention.bytes",
            Type.LONG,
            -2,
            "Accepted without effect: there is no tiered storage.",
            at_least(-2),
        ),
        _key(
            "local.retention.ms",
            Type.LONG,
            -2,
            "Accepted without effect: there is no tiered storage.",
            at_least(-2),
        ),
        _key(
            "max.compaction.lag.ms",
            Type.LONG,
            LONG_MAX,
            "A record waits at most this long for compaction, however clean the log is.",
            at_least(1),
            "log.cleaner.max.compaction.lag.ms",
        ),
        _key(
            "max.message.bytes",
            Type.INT,
            1_048_588,
            "The largest batch of records that is taken, as it is stored.",
            at_least(0),
            "message.max.bytes",
        ),
        _key(
            "message.timestamp.after.max.ms",
            Type.LONG,
            3_600_000,
            "How far a record's time may lie in the broker's future. Only with CreateTime.",
            at_least(0),
            "log.message.timestamp.after.max.ms",
        ),
        _key(
            "message.timestamp.before.max.ms",
            Type.LONG,
            LONG_MAX,
            "How far a record's time may lie in the broker's past. Only with CreateTime.",
            at_least(0),
            "log.message.timestamp.before.max.ms",
        ),
        _key(
            "message.timestamp.type",
            Type.STRING,
            "CreateTime",
            "Whose time a record carries: its producer's (CreateTime) or the broker's (LogAppendTime).",
            one_of(*TIMESTAMP_TYPES),
            "log.message.timestamp.type",
        ),
        _key(
            "min.cleanable.dirty.ratio",
            Type.DOUBLE,
            0.5,
            "Compaction starts when this part of the log has not been compacted yet.",
            between(0, 1),
            "log.cleaner.min.cleanable.ratio",
        ),
        _key(
            "min.compaction.lag.ms",
            Type.LONG,
            0,
            "A record is left alone by compaction for at least this long.",
            at_least(0),
            "log.cleaner.min.compaction.lag.ms",
        ),
        _key(
            "min.insync.replicas",
            Type.INT,
            1,
            "With acks=all a write is refused while fewer replicas than this are in sync.",
            at_least(1),
            "min.insync.replicas",
        ),
        _key(
            "preallocate",
            Type.BOOLEAN,
            False,
            "Accepted without effect: a new segment grows as records come.",
        ),
        _key(
            "remote.log.copy.disable",
            Type.BOOLEAN,
            False,
            "Accepted without effect: there is no tiered storage.",
        ),
        _key(
            "remote.log.delete.on.disable",
            Type.BOOLEAN,
            False,
            "Accepted without effect: there is no tiered storage.",
        ),
        _key(
            "remote.storage.enable",
            Type.BOOLEAN,
            False,
            "Whether old segments move to a second tier. There is none: true is refused.",
        ),
        _key(
            "retention.bytes",
            Type.LONG,
            -1,
            "With `delete`, a partition's oldest segments go while it is larger than this; -1 for no limit.",
            None,
            "log.retention.bytes",
        ),
        _key(
            "retention.ms",
            Type.LONG,
            _WEEK_MS,
            "With `delete`, a segment goes when its newest record is older than this; -1 for no limit.",
            at_least(-1),
            "log.retention.ms",
            Synonym("log.retention.minutes", _MINUTE_MS),
            Synonym("log.retention.hours", _HOUR_MS),
        ),
        _key(
            "segment.bytes",
            Type.INT,
            1 << 30,
            "A segment file is closed before it grows beyond this.",
            at_least(1 << 20),
            "log.segment.bytes",
        ),
        _key(
            "segment.index.bytes",
            Type.INT,
            10 << 20,
            "The largest index of a segment; a full index closes the segment.",
            at_least(4),
            "log.index.size.max.bytes",
        ),
        _key(
            "segment.jitter.ms",
            Type.LONG,
            0,
            "Up to this much is taken off segment.ms at random, so that partitions do not roll all at once.",
            at_least(0),
            "log.roll.jitter.ms",
            Synonym("log.roll.jitter.hours", _HOUR_MS),
        ),
        _key(
            "segment.ms",
            Type.LONG,
            _WEEK_MS,
            "A segment is closed after this long even if it is not full.",
            at_least(1),
            "log.roll.ms",
            Synonym("log.roll.hours", _HOUR_MS),
        ),
        _key(
            "unclean.leader.election.enable",
            Type.BOOLEAN,
            False,
            "Whether a replica out of sync may lead when no other is left; acknowledged records can be lost.",
            None,
            "unclean.leader.election.enable",
        ),
    )
)

# Named and listed because Apache Kafka's tools expect them; their documentation says that they do nothing.
UNUSED_TOPIC_SETTINGS = (
    "local.retention.bytes",
    "local.retention.ms",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
)

# Apache Kafka's own tests use it to get segments below the minimum; it is listed where it is set.
INTERNAL_SEGMENT_BYTES = ConfigKey(
    "internal.segment.bytes",
    Type.INT,
    None,
    "Segments smaller than segment.bytes allows, for tests.",
    at_least(1),
)

MIRROR_SOURCE = ConfigKey(
    "mirror.source",
    Type.STRING,
    "",
    "The link that this topic mirrors exactly. While it is set nobody else may write to the topic.",
)
MIRROR_LINK_EPOCH = ConfigKey(
    "mirror.link.epoch",
    Type.INT,
    0,
    "Counts the promotions of a mirrored topic: a link that writes under an older one is refused.",
    at_least(0),
)
DEAD_LETTERS = ConfigKey(
    "errors.deadletterqueue.group.enable",
    Type.BOOLEAN,
    False,
    "Whether share groups may write the records that they give up to this topic.",
)
# Not Kafka 4.3's: listed where they are set, so that all other topics look as they do there.
UNLISTED_KEYS = {
    key.name: key for key in (INTERNAL_SEGMENT_BYTES, MIRROR_SOURCE, MIRROR_LINK_EPOCH, DEAD_LETTERS)
} | CONTRACT_KEYS


def topic_key(name: str) -> ConfigKey:
    if name in UNLISTED_KEYS:
        return UNLISTED_KEYS[name]
    key = TOPIC_KEYS.get(name)
    if key is None:
        raise errors.InvalidConfig(f"Unknown topic config name: {name}")
    return key


def check_topic(overrides: Mapping[str, str]) -> None:
    """Refuse a topic's settings unless every name is known, every value allowed and all agree."""
    values = {name: topic_key(name).parse(text) for name, text in overrides.items()}
    if values.get("remote.storage.enable"):
        raise errors.InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    low = values.get("min.compaction.lag.ms", TOPIC_KEYS["min.compaction.lag.ms"].default)
    high = values.get("max.compaction.lag.ms", TOPIC_KEYS["max.compaction.lag.ms"].default)
    assert isinstance(low, int) and isinstance(high, int)
    if low > high:
        raise errors.InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )


def check_mirror(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """A mirror becomes a topic of its own only by a change that also raises its link epoch: a tool that replaces all
    settings must not do so by leaving one out."""
    source, epoch = MIRROR_SOURCE.name, MIRROR_LINK_EPOCH.name
    epochs = [int(texts.get(epoch, "0")) for texts in (before, after)]
    is_detached = before.get(source) and after.get(source) != before.get(source)
    if epochs[1] < epochs[0] or (is_detached and epochs[1] == epochs[0]):
        raise errors.InvalidConfig(
            f"The topic mirrors {before.get(source) or 'nothing'} in link epoch {epochs[0]}: {source} is removed by "
            f"`ottla mirror promote`, and {epoch} only rises"
        )
