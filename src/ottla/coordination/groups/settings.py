"""The settings of the group coordinator: Kafka's names with underscores, Kafka's defaults unless said."""

from collections.abc import Mapping
from dataclasses import replace

from ottla.frozen import frozen

UNLIMITED = 2**31 - 1


@frozen
class GroupSettings:
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    # Kafka's meaning: how long the first rebalance of an empty group waits for more members. Kafka's
    # built-in default is 3,000; ours is the 0 of its shipped server.properties, as one member alone
    # should not wait.
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int = UNLIMITED
    group_new_member_join_timeout_ms: int = 300_000
    group_pending_members_max: int = 1_000  # ours: ids handed out by a shard that nobody has joined with yet

    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_size: int = UNLIMITED
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"
    # Ours: while a group changes, its members are told to come back soon (design: "Coordinators").
    group_consumer_short_heartbeat_interval_ms: int = 500
    group_consumer_short_heartbeat_period_ms: int = 60_000
    group_consumer_regex_max_length: int = 4_096

    group_share_session_timeout_ms: int = 45_000
    group_share_min_session_timeout_ms: int = 45_000
    group_share_max_session_timeout_ms: int = 60_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_min_heartbeat_interval_ms: int = 5_000
    group_share_max_heartbeat_interval_ms: int = 15_000
    group_share_max_size: int = 200

    group_streams_session_timeout_ms: int = 45_000
    group_streams_min_session_timeout_ms: int = 45_000
    group_streams_max_session_timeout_ms: int = 60_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_min_heartbeat_interval_ms: int = 5_000
    group_streams_max_heartbeat_interval_ms: int = 15_000
    group_streams_max_size: int = UNLIMITED
    group_streams_num_standby_replicas: int = 0
    group_streams_max_standby_replicas: int = 2
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_streams_assignment_interval_ms: int = 1_000
    group_streams_min_assignment_interval_ms: int = 0
    group_streams_max_assignment_interval_ms: int = 15_000

    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000

    def of_group(self, overrides: Mapping[str, str]) -> "GroupSettings":
        """With the configs of a group resource; values out of bounds count as the bound, as in Kafka."""
        session = overrides.get("consumer.session.timeout.ms")
        interval = overrides.get("consumer.heartbeat.interval.ms")
        changed = self
        share_session = overrides.get("share.session.timeout.ms")
        if share_session is not None:
            bounded = _bounded(
                int(share_session),
                self.group_share_min_session_timeout_ms,
                self.group_share_max_session_timeout_ms,
            )
            changed = replace(changed, group_share_session_timeout_ms=bounded)
        share_interval = overrides.get("share.heartbeat.interval.ms")
        if share_interval is not None:
            bounded = _bounded(
                int(share_interval),
                self.group_share_min_heartbeat_interval_ms,
                self.group_share_max_heartbeat_interval_ms,
            )
            changed = replace(changed, group_share_heartbeat_interval_ms=bounded)
        if session is not None:
            bounded = _bounded(
                int(session),
                self.group_consumer_min_session_timeout_ms,
                self.group_consumer_max_session_timeout_ms,
            )
            changed = replace(changed, group_consumer_session_timeout_ms=bounded)
        if interval is not None:
            bounded = _bounded(
                int(interval),
                self.group_consumer_min_heartbeat_interval_ms,
                self.group_consumer_max_heartbeat_interval_ms,
            )
            changed = replace(changed, group_consumer_heartbeat_interval_ms=bounded)
        if any(name.startswith("streams.") for name in overrides):
            changed = changed.of_streams_group(overrides)
        return changed

    def of_streams_group(self, overrides: Mapping[str, str]) -> "GroupSettings":
        def value(name: str, usual: int, least: int, most: int) -> int:
            text = overrides.get(f"streams.{name}")
            return usual if text is None else _bounded(int(text), least, most)

        return replace(
            self,
            group_streams_session_timeout_ms=value(
                "session.timeout.ms",
                self.group_streams_session_timeout_ms,
                self.group_streams_min_session_timeout_ms,
                self.group_streams_max_session_timeout_ms,
            ),
            group_streams_heartbeat_interval_ms=value(
                "heartbeat.interval.ms",
                self.group_streams_heartbeat_interval_ms,
                self.group_streams_min_heartbeat_interval_ms,
                self.group_streams_max_heartbeat_interval_ms,
            ),
            group_streams_num_standby_replicas=value(
                "num.standby.replicas",
                self.group_streams_num_standby_replicas,
                0,
                self.group_streams_max_standby_replicas,
            ),
            group_streams_initial_rebalance_delay_ms=value(
                "initial.rebalance.delay.ms", self.group_streams_initial_rebalance_delay_ms, 0, UNLIMITED
            ),
            group_streams_assignment_interval_ms=value(
                "assignment.interval.ms",
                self.group_streams_assignment_interval_ms,
                self.group_streams_min_assignment_interval_ms,
                self.group_streams_max_assignment_interval_ms,
            ),
        )

    @property
    def can_upgrade(self) -> bool:
        return self.group_consumer_migration_policy in ("bidirectional", "upgrade")

    @property
    def can_downgrade(self) -> bool:
        return self.group_consumer_migration_policy in ("bidirectional", "downgrade")


def _bounded(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
