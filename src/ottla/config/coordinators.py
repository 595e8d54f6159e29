"""Broker settings of groups, offsets and transactions."""

from ottla.config.definitions import (
    INT_MAX,
    ConfigKey,
    Importance,
    Type,
    Update,
    Validator,
    Value,
    at_least,
    each_of,
    one_of,
)

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
READ_ONLY, CLUSTER = Update.READ_ONLY, Update.CLUSTER_WIDE


def _int(
    name: str,
    default: Value,
    documentation: str,
    low: int | None = 1,
    importance: Importance = MEDIUM,
    update: Update = READ_ONLY,
) -> ConfigKey:
    validator: Validator | None = None if low is None else at_least(low)
    return ConfigKey(name, Type.INT, default, documentation, validator, importance, update)


_CLASSIC = (
    _int("group.initial.rebalance.delay.ms", 0, "How long an empty group waits for more members.", None),
    _int("group.min.session.timeout.ms", 6000, "The shortest session a classic member may ask for.", None),
    _int(
        "group.max.session.timeout.ms", 1_800_000, "The longest session a classic member may ask for.", None
    ),
    _int("group.max.size", INT_MAX, "Members of a classic group."),
    ConfigKey(
        "group.coordinator.rebalance.protocols",
        Type.LIST,
        ("classic", "consumer"),
        "The group protocols served.",
        each_of("classic", "consumer"),
    ),
)

_CONSUMER = (
    _int("group.consumer.session.timeout.ms", 45_000, "A member silent for this long is out."),
    _int("group.consumer.min.session.timeout.ms", 45_000, "The shortest session a group may set."),
    _int("group.consumer.max.session.timeout.ms", 60_000, "The longest session a group may set."),
    _int("group.consumer.heartbeat.interval.ms", 5000, "How often members are told to send heartbeats."),
    _int("group.consumer.min.heartbeat.interval.ms", 5000, "The shortest interval a group may set."),
    _int("group.consumer.max.heartbeat.interval.ms", 15_000, "The longest interval a group may set."),
    _int(
        "group.consumer.assignment.interval.ms",
        1000,
        "Assignments are at least this far apart.",
        0,
        MEDIUM,
        CLUSTER,
    ),
    _int("group.consumer.min.assignment.interval.ms", 0, "The shortest distance a group may set.", 0),
    _int("group.consumer.max.assignment.interval.ms", 15_000, "The longest distance a group may set.", 0),
    _int("group.consumer.max.size", INT_MAX, "Members of a consumer group."),
    ConfigKey(
        "group.consumer.assignors", Type.LIST, ("uniform", "range"), "Assignors; the first is the default."
    ),
    ConfigKey(
        "group.consumer.migration.policy",
        Type.STRING,
        "bidirectional",
        "Which way a group may change its protocol while it has members.",
        one_of("disabled", "downgrade", "upgrade", "bidirectional", any_case=True),
    ),
    _int("group.consumer.regex.refresh.interval.ms", 600_000, "How often patterns are matched anew.", 10_000),
)

_OFFSETS = (
    _int("offset.metadata.max.bytes", 4096, "The longest text committed with an offset.", None, HIGH),
    _int("offsets.commit.timeout.ms", 5000, "How long a commit may wait for its replicas.", 1, HIGH),
    _int("offsets.retention.minutes", 10_080, "Offsets of a group without members go after this.", 1, HIGH),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        Type.LONG,
        600_000,
        "How often old offsets are looked for.",
        at_least(1),
        HIGH,
    ),
    _int("offsets.topic.num.partitions", 50, "Partitions of __consumer_offsets.", 1, HIGH),
    ConfigKey(
        "offsets.topic.replication.factor",
        Type.SHORT,
        3,
        "Replicas of __consumer_offsets, which waits for as many brokers; 1 without a cluster.",
        at_least(1),
        HIGH,
    ),
    _int("offsets.topic.segment.bytes", 100 << 20, "Segments of __consumer_offsets.", 1, HIGH),
    _int("offsets.topic.compression.codec", 0, "The codec of __consumer_offsets, by its number.", None, HIGH),
)

_TRANSACTIONS = (
    _int("transaction.max.timeout.ms", 900_000, "The longest time-out a producer may ask for.", 1, HIGH),
    _int(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often transactions over their time are aborted.",
        1,
        LOW,
    ),
    _int(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        "How often expired transactional ids are looked for.",
        1,
        LOW,
    ),
    _int(
        "transactional.id.expiration.ms", 604_800_000, "An unused transactional id goes after this.", 1, HIGH
    ),
    ConfigKey(
        "transaction.partition.verification.enable",
        Type.BOOLEAN,
        True,
        "Whether a partition asks the coordinator before it takes a transaction's first record.",
        None,
        LOW,
        CLUSTER,
    ),
    ConfigKey(
        "transaction.two.phase.commit.enable",
        Type.BOOLEAN,
        False,
        "Two-phase commit; not offered.",
        None,
        LOW,
    ),
    _int("transaction.state.log.num.partitions", 50, "Partitions of __transaction_state.", 1, HIGH),
    ConfigKey(
        "transaction.state.log.replication.factor",
        Type.SHORT,
        3,
        "Replicas of __transaction_state, which waits for as many brokers; 1 without a cluster.",
        at_least(1),
        HIGH,
    ),
    _int("transaction.state.log.min.isr", 2, "min.insync.replicas of __transaction_state.", 1, HIGH),
    _int("transaction.state.log.segment.bytes", 100 << 20, "Segments of __transaction_state.", 1, HIGH),
)

COORDINATOR_KEYS: tuple[ConfigKey, ...] = (*_CLASSIC, *_CONSUMER, *_OFFSETS, *_TRANSACTIONS)
