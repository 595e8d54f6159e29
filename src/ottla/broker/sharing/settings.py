"""The settings of one share group: the broker's, and the group's own within the broker's bounds."""

import re
from collections.abc import Mapping

from ottla.config.settings import Config
from ottla.coordination.share.outcomes import DEFAULT_RULES, Rules
from ottla.frozen import frozen

_UNITS_MS = {"D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1000}
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


@frozen
class ShareSettings:
    lock_duration_ms: int
    rules: Rules
    auto_offset_reset: str  # earliest, latest, or milliseconds before now
    read_committed: bool
    renews: bool
    dead_letter_topic: str
    copies_dead_letters: bool


def share_settings(own: Mapping[str, str], config: Config) -> ShareSettings:
    def bounded(name: str, default: int, least: int, most: int) -> int:
        return max(least, min(int(own.get(name, default)), most))

    dead_letter_topic = own.get("errors.deadletterqueue.topic.name", "")
    rules = Rules(
        bounded(
            "share.delivery.count.limit",
            config.group_share_delivery_count_limit,
            config.group_share_min_delivery_count_limit,
            config.group_share_max_delivery_count_limit,
        ),
        bounded(
            "share.partition.max.record.locks",
            config.group_share_partition_max_record_locks,
            config.group_share_min_partition_max_record_locks,
            config.group_share_max_partition_max_record_locks,
        ),
        int(own.get("ottla.share.deferred.max", DEFAULT_RULES.deferred_max)),
        int(own.get("ottla.share.release.backoff.ms", DEFAULT_RULES.backoff_ms)),
        float(own.get("ottla.share.release.backoff.factor", DEFAULT_RULES.backoff_factor)),
        int(own.get("ottla.share.release.backoff.max.ms", DEFAULT_RULES.backoff_max_ms)),
        dead_letters=bool(dead_letter_topic),
    )
    return ShareSettings(
        bounded(
            "share.record.lock.duration.ms",
            config.group_share_record_lock_duration_ms,
            config.group_share_min_record_lock_duration_ms,
            config.group_share_max_record_lock_duration_ms,
        ),
        rules,
        reset_of(own.get("share.auto.offset.reset", "latest")),
        own.get("share.isolation.level", "read_uncommitted") == "read_committed",
        own.get("share.renew.acknowledge.enable", "true") == "true",
        dead_letter_topic,
        own.get("errors.deadletterqueue.copy.record.enable", "false") == "true",
    )


def reset_of(text: str) -> str:
    """`by_duration:PT1H` as milliseconds; the other two as they are."""
    kind, _, duration = text.partition(":")
    if kind != "by_duration":
        return kind
    match = _DURATION.fullmatch(duration)
    if match is None:
        return "latest"
    amounts = zip(("D", "H", "M", "S"), match.groups(), strict=True)
    return str(int(sum(float(amount or 0) * _UNITS_MS[unit] for unit, amount in amounts)))
