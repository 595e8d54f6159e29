"""The settings of one group, and the broker's bounds for them."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla import errors
from ottla.config.definitions import (
    ConfigKey,
    Synonym,
    Type,
    Validator,
    Value,
    Wrong,
    at_least,
    by_name,
    one_of,
)

if TYPE_CHECKING:
    from ottla.config.settings import Config

_BOUNDED = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")
_SHARE_BOUNDED = ("share.session.timeout.ms", "share.heartbeat.interval.ms")
_STREAMS_BOUNDED = ("streams.session.timeout.ms", "streams.heartbeat.interval.ms")
_BOUNDED_ALONE = (
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "streams.assignment.interval.ms",
)
_STANDBYS = "streams.num.standby.replicas"


def _key(name: str, default: int, documentation: str, least: int = 1) -> ConfigKey:
    return ConfigKey(
        name, Type.INT, default, documentation, at_least(least), synonyms=(Synonym(f"group.{name}"),)
    )


def _reset(value: Value) -> Wrong | None:
    text = str(value)
    if text in ("earliest", "latest") or re.fullmatch(r"by_duration:P(?!$).+", text):
        return None
    return Wrong(value, "It is earliest, latest, or by_duration:<ISO 8601>, such as by_duration:PT1H.")


GROUP_KEYS: dict[str, ConfigKey] = by_name(
    (
        _key("consumer.session.timeout.ms", 45_000, "A member silent for this long is removed."),
        _key("consumer.heartbeat.interval.ms", 5000, "How often members send heartbeats."),
        _key("share.session.timeout.ms", 45_000, "A member silent for this long is removed."),
        _key("share.heartbeat.interval.ms", 5000, "How often members send heartbeats."),
        _key("share.record.lock.duration.ms", 30_000, "How long a member has to acknowledge a record."),
        _key("share.delivery.count.limit", 5, "How often a record is delivered before it is given up."),
        _key("share.partition.max.record.locks", 2000, "Records of a partition that may be in flight."),
        _key("streams.session.timeout.ms", 45_000, "A member silent for this long is removed."),
        _key("streams.heartbeat.interval.ms", 5000, "How often members send heartbeats."),
        _key("streams.num.standby.replicas", 0, "Standbys of each task with state.", 0),
        _key("streams.initial.rebalance.delay.ms", 3000, "How long a new group waits for members.", 0),
        _key("streams.assignment.interval.ms", 1000, "The shortest time between two assignments.", 0),
        ConfigKey(
            "share.auto.offset.reset",
            Type.STRING,
            "latest",
            "Where a share group begins that has no position.",
            _reset,
        ),
        ConfigKey(
            "share.isolation.level",
            Type.STRING,
            "read_uncommitted",
            "Whether records of aborted transactions are delivered.",
            one_of("read_committed", "read_uncommitted"),
        ),
        ConfigKey(
            "share.renew.acknowledge.enable",
            Type.BOOLEAN,
            True,
            "Whether members may ask for more time.",
        ),
    )
)


def _dead_letter_topic(value: Value) -> Wrong | None:
    text = str(value)
    if not text or (re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", text) and not text.startswith(("__", "."))):
        return None
    return Wrong(value, "It is the name of a topic that is not internal, or empty.")


def _factor(value: Value) -> Wrong | None:
    return None if isinstance(value, int | float) and 1 <= value <= 100 else Wrong(value, "It is 1 to 100.")


# Newer than Kafka 4.3, or ours: listed where they are set, so that other groups look as they do there.
UNLISTED_GROUP_KEYS: dict[str, ConfigKey] = by_name(
    (
        ConfigKey(
            "errors.deadletterqueue.topic.name",
            Type.STRING,
            "",
            "The topic for records that a share group gives up; without one they are dropped.",
            _dead_letter_topic,
        ),
        ConfigKey(
            "errors.deadletterqueue.copy.record.enable",
            Type.BOOLEAN,
            False,
            "Whether a dead letter has the record's key, value and headers, or only says where it is.",
        ),
        ConfigKey(
            "ottla.share.release.backoff.ms",
            Type.LONG,
            0,
            "How long a record that was released, or not acknowledged in time, is kept back.",
            at_least(0),
        ),
        ConfigKey(
            "ottla.share.release.backoff.factor",
            Type.DOUBLE,
            2.0,
            "How much longer it is kept back each time.",
            _factor,
        ),
        ConfigKey(
            "ottla.share.release.backoff.max.ms",
            Type.LONG,
            60_000,
            "The longest that it is kept back.",
            at_least(0),
        ),
        ConfigKey(
            "ottla.share.deferred.max",
            Type.INT,
            100_000,
            "Records of a partition that may wait for their time, or to be written as dead letters.",
            at_least(1),
        ),
    )
)


def _unused(name: str, type: Type, validator: Validator | None = None) -> ConfigKey:
    return ConfigKey(name, type, None, "Accepted without effect.", validator)


# Kafka Streams sets some of these without asking which groups a broker serves.
UNUSED_GROUP_KEYS: dict[str, ConfigKey] = by_name(
    (
        _unused("consumer.assignment.interval.ms", Type.INT, at_least(0)),
        _unused("consumer.assignor.offload.enable", Type.BOOLEAN),
        _unused("streams.assignor.offload.enable", Type.BOOLEAN),
        _unused("share.assignment.interval.ms", Type.INT, at_least(0)),
        _unused("share.assignor.offload.enable", Type.BOOLEAN),
    )
)


def group_key(name: str) -> ConfigKey:
    key = GROUP_KEYS.get(name) or UNLISTED_GROUP_KEYS.get(name) or UNUSED_GROUP_KEYS.get(name)
    if key is None:
        raise errors.InvalidConfig(f"Unknown group config name: {name}")
    return key


def check_group(overrides: Mapping[str, str], broker: "Config") -> None:
    """Refuse a group's settings unless every name is known and every value within the broker's bounds."""
    values = {name: group_key(name).parse(text) for name, text in overrides.items()}
    for pair in (_BOUNDED, _SHARE_BOUNDED, _STREAMS_BOUNDED):
        session, heartbeat = (_checked(name, values, broker) for name in pair)
        if session <= heartbeat:
            raise errors.InvalidConfig(f"{pair[0]} must be greater than {pair[1]}")
    for name in _BOUNDED_ALONE:
        if name in values:
            _checked(name, values, broker)
    standbys = values.get(_STANDBYS)
    if isinstance(standbys, int) and standbys > broker.group_streams_max_standby_replicas:
        raise errors.InvalidConfig(
            f"{_STANDBYS} must be less than or equal to group.streams.max.standby.replicas"
        )


def _checked(name: str, values: Mapping[str, Value], broker: "Config") -> int:
    value = values.get(name)
    if not isinstance(value, int):
        return broker.integer(f"group.{name}")
    low, high = _bounds(name)
    if value < broker.integer(low):
        raise errors.InvalidConfig(f"{name} must be greater than or equal to {low}")
    if value > broker.integer(high):
        raise errors.InvalidConfig(f"{name} must be less than or equal to {high}")
    return value


def _bounds(name: str) -> tuple[str, str]:
    protocol, setting = name.split(".", 1)
    return f"group.{protocol}.min.{setting}", f"group.{protocol}.max.{setting}"
