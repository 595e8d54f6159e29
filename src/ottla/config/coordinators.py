"""Broker settings of groups, offsets and transactions."""

from ottla.config.definitions import INT_MAX, Value, Wrong, at_least, each_of, one_of
from ottla.config.fields import CLUSTER_WIDE, boolean, integer, long, names, short, string


def _served_protocols(value: Value) -> Wrong | None:
    assert isinstance(value, tuple)
    unknown = each_of("classic", "consumer", "share", "streams")(value)
    if unknown is None and "classic" not in value:
        return Wrong(value, "Disabling the 'classic' protocol is not supported.")
    return unknown


class _ClassicGroups:
    group_initial_rebalance_delay_ms = integer(0, "How long an empty group waits for more members.")
    group_min_session_timeout_ms = integer(6000, "The shortest session a classic member may ask for.")
    group_max_session_timeout_ms = integer(1_800_000, "The longest session a classic member may ask for.")
    group_max_size = integer(INT_MAX, "Members of a classic group.", at_least(1))
    group_coordinator_rebalance_protocols = names(
        ("classic", "consumer", "streams"),
        "The group protocols served; classic always is.",
        _served_protocols,
    )


class _ConsumerGroups:
    group_consumer_session_timeout_ms = integer(
        45_000, "A member silent for this long is removed.", at_least(1)
    )
    group_consumer_min_session_timeout_ms = integer(
        45_000, "The shortest session a group may set.", at_least(1)
    )
    group_consumer_max_session_timeout_ms = integer(
        60_000, "The longest session a group may set.", at_least(1)
    )
    group_consumer_heartbeat_interval_ms = integer(
        5000, "The heartbeat interval that members are told.", at_least(1)
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        5000, "The shortest interval a group may set.", at_least(1)
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        15_000, "The longest interval a group may set.", at_least(1)
    )
    group_consumer_max_size = integer(INT_MAX, "Members of a consumer group.", at_least(1))
    group_consumer_assignors = names(("uniform", "range"), "Assignors; the first is the default.")
    group_consumer_migration_policy = string(
        "bidirectional",
        "Which way a group may change its protocol while it has members.",
        one_of("disabled", "downgrade", "upgrade", "bidirectional", any_case=True),
    )


class _Offsets:
    offset_metadata_max_bytes = integer(4096, "The longest text committed with an offset.")
    offsets_retention_minutes = integer(
        10_080, "Offsets of a group without members are deleted after this.", at_least(1)
    )
    offsets_retention_check_interval_ms = long(600_000, "How often old offsets are looked for.", at_least(1))
    offsets_topic_num_partitions = integer(50, "Partitions of __consumer_offsets.", at_least(1))
    offsets_topic_replication_factor = short(
        3,
        "Replicas of __consumer_offsets, which waits for as many brokers; 1 without a cluster.",
        at_least(1),
    )
    offsets_topic_segment_bytes = integer(100 << 20, "Segments of __consumer_offsets.", at_least(1))


class _Transactions:
    transaction_max_timeout_ms = integer(900_000, "The longest time-out a producer may ask for.", at_least(1))
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        10_000, "How often transactions over their time are aborted.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        3_600_000, "How often expired transactional ids are looked for.", at_least(1)
    )
    transactional_id_expiration_ms = integer(
        604_800_000, "An unused transactional id is forgotten after this.", at_least(1)
    )
    transaction_state_log_num_partitions = integer(50, "Partitions of __transaction_state.", at_least(1))
    transaction_state_log_replication_factor = short(
        3,
        "Replicas of __transaction_state, which waits for as many brokers; 1 without a cluster.",
        at_least(1),
    )
    transaction_state_log_min_isr = integer(2, "min.insync.replicas of __transaction_state.", at_least(1))
    transaction_state_log_segment_bytes = integer(100 << 20, "Segments of __transaction_state.", at_least(1))


class _ShareGroups:
    group_share_session_timeout_ms = integer(45_000, "A member silent for this long is removed.", at_least(1))
    group_share_min_session_timeout_ms = integer(45_000, "The shortest session a group may set.", at_least(1))
    group_share_max_session_timeout_ms = integer(60_000, "The longest session a group may set.", at_least(1))
    group_share_heartbeat_interval_ms = integer(
        5000, "The heartbeat interval that members of share groups are told.", at_least(1)
    )
    group_share_min_heartbeat_interval_ms = integer(
        5000, "The shortest interval a group may set.", at_least(1)
    )
    group_share_max_heartbeat_interval_ms = integer(
        15_000, "The longest interval a group may set.", at_least(1)
    )
    group_share_max_size = integer(200, "Members of a share group.", at_least(1))
    group_share_max_share_sessions = integer(2000, "Share sessions of a broker.", at_least(1))
    group_share_record_lock_duration_ms = integer(
        30_000, "How long a member has to acknowledge a record.", at_least(1000)
    )
    group_share_min_record_lock_duration_ms = integer(
        15_000, "The shortest lock a group may set.", at_least(1000)
    )
    group_share_max_record_lock_duration_ms = integer(
        60_000, "The longest lock a group may set.", at_least(1000)
    )
    group_share_delivery_count_limit = integer(
        5, "How often a record is delivered before it is given up.", at_least(2)
    )
    group_share_min_delivery_count_limit = integer(2, "The lowest limit a group may set.", at_least(2))
    group_share_max_delivery_count_limit = integer(10, "The highest limit a group may set.", at_least(2))
    group_share_partition_max_record_locks = integer(
        2000, "Records of a partition that may be in flight to a share group.", at_least(100)
    )
    group_share_min_partition_max_record_locks = integer(
        100, "The fewest records in flight that a group may set.", at_least(100)
    )
    group_share_max_partition_max_record_locks = integer(
        4000, "The most records in flight that a group may set.", at_least(100)
    )
    errors_deadletterqueue_auto_create_topics_enable = boolean(
        False,
        "Whether a share group's topic for dead letters is created when it is needed.",
        update=CLUSTER_WIDE,
    )
    errors_deadletterqueue_topic_name_prefix = string(
        "dlq.", "How the names of such topics begin if they are to be created.", update=CLUSTER_WIDE
    )
    share_coordinator_state_topic_num_partitions = integer(
        50, "Partitions of __share_group_state.", at_least(1)
    )
    share_coordinator_state_topic_replication_factor = short(
        3,
        "Replicas of __share_group_state, which waits for as many brokers; 1 without a cluster.",
        at_least(1),
    )
    share_coordinator_state_topic_min_isr = short(
        2, "min.insync.replicas of __share_group_state.", at_least(1)
    )
    share_coordinator_state_topic_segment_bytes = integer(
        100 << 20, "Segments of __share_group_state.", at_least(1)
    )
    share_coordinator_state_topic_prune_interval_ms = integer(
        300_000, "How often what is not needed any more of __share_group_state is deleted.", at_least(1)
    )
    share_coordinator_snapshot_update_records_per_snapshot = integer(
        500, "Updates of a share-partition's state before all of it is written again.", at_least(0)
    )


class _StreamsGroups:
    group_streams_session_timeout_ms = integer(
        45_000, "A member silent for this long is removed.", at_least(1)
    )
    group_streams_min_session_timeout_ms = integer(
        45_000, "The shortest session a group may set.", at_least(1)
    )
    group_streams_max_session_timeout_ms = integer(
        60_000, "The longest session a group may set.", at_least(1)
    )
    group_streams_heartbeat_interval_ms = integer(
        5000, "The heartbeat interval that members of streams groups are told.", at_least(1)
    )
    group_streams_min_heartbeat_interval_ms = integer(
        5000, "The shortest interval a group may set.", at_least(1)
    )
    group_streams_max_heartbeat_interval_ms = integer(
        15_000, "The longest interval a group may set.", at_least(1)
    )
    group_streams_max_size = integer(INT_MAX, "Members of a streams group.", at_least(1))
    group_streams_num_standby_replicas = integer(0, "Standbys of each task with state.", at_least(0))
    group_streams_max_standby_replicas = integer(2, "The most standbys a group may set.", at_least(0))
    group_streams_initial_rebalance_delay_ms = integer(
        3000, "How long a new streams group waits for more members.", at_least(0)
    )
    group_streams_assignment_interval_ms = integer(
        1000, "The shortest time between two assignments of a streams group.", at_least(0)
    )
    group_streams_min_assignment_interval_ms = integer(0, "The shortest that a group may set.", at_least(0))
    group_streams_max_assignment_interval_ms = integer(
        15_000, "The longest that a group may set.", at_least(0)
    )


class CoordinatorSettings(
    _ClassicGroups, _ConsumerGroups, _ShareGroups, _StreamsGroups, _Offsets, _Transactions
):
    pass
