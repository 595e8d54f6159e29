"""The broker settings that have an effect, under Kafka's names; ours alone begin with `ottla_`.

A new setting is one line in the class of its subject (see `fields.py`); a test asks that something reads it.
"""

from ottla.config.broker_log import LogSettings, topic_default_keys
from ottla.config.coordinators import CoordinatorSettings
from ottla.config.definitions import INT_MAX, LONG_MAX, ConfigKey, at_least, by_name
from ottla.config.fields import (
    CLUSTER_WIDE,
    PER_BROKER,
    boolean,
    integer,
    keys_of,
    long,
    names,
    password,
    string,
)
from ottla.config.protection import DEFAULT_PROTOCOL_MAP
from ottla.config.security import SecuritySettings


class NetworkSettings:
    listeners = names(("PLAINTEXT://:9092",), "Where the broker listens.")
    advertised_listeners = names(None, "The addresses that clients are told to connect to.")
    listener_security_protocol_map = string(
        DEFAULT_PROTOCOL_MAP, "Which protocol each listener speaks, as LISTENER:PROTOCOL pairs."
    )
    inter_broker_listener_name = string(None, "The listener that brokers use among themselves.")
    socket_request_max_bytes = integer(100 << 20, "The largest request that is accepted.", at_least(1))
    socket_send_buffer_bytes = integer(-1, "SO_SNDBUF of a connection; -1 leaves it to the system.")
    socket_receive_buffer_bytes = integer(-1, "SO_RCVBUF of a connection; -1 leaves it to the system.")
    socket_listen_backlog_size = integer(50, "Connections that may wait to be accepted.", at_least(1))
    connections_max_idle_ms = long(600_000, "A connection silent for this long is closed.")
    max_connections = integer(INT_MAX, "Connections at a time.", at_least(0), update=CLUSTER_WIDE)
    max_connections_per_ip = integer(
        INT_MAX, "Connections at a time from one address.", at_least(0), update=CLUSTER_WIDE
    )
    max_connections_per_ip_overrides = string(
        "", "Other limits for some addresses, as address:limit pairs.", update=CLUSTER_WIDE
    )
    max_connection_creation_rate = integer(
        INT_MAX, "New connections a second; those beyond it wait.", at_least(0), update=CLUSTER_WIDE
    )
    queued_max_request_bytes = long(-1, "Bytes of requests in flight; -1 means ottla.requests.max.bytes.")
    request_timeout_ms = integer(30_000, "How long a request between brokers may take.")
    fetch_max_bytes = integer(55 << 20, "The largest response to a fetch.", at_least(1024))
    max_incremental_fetch_session_cache_slots = integer(1000, "Fetch sessions kept at a time.", at_least(0))
    telemetry_max_bytes = integer(1 << 20, "The most metrics that a client may push at once.", at_least(1))
    max_request_partition_size_limit = integer(2000, "Partitions described in one response.", at_least(1))


class TopicSettings:
    broker_id = integer(-1, "The number of this broker; node.id is its newer name.")
    node_id = integer(1, "The number of this broker.", at_least(0))
    broker_rack = string(None, "Where the broker stands; replicas are spread over racks.")
    num_partitions = integer(1, "Partitions of a topic created without a number.", at_least(1))
    default_replication_factor = integer(1, "Replicas of a topic created without a number.")
    auto_create_topics_enable = boolean(True, "Whether asking for an unknown topic may create it.")
    delete_topic_enable = boolean(True, "Whether topics can be deleted.")


class ClusterSettings:
    controlled_shutdown_enable = boolean(True, "Whether leaders move away before a clean stop.")
    controller_socket_timeout_ms = integer(30_000, "How long a request to the controller may take.")
    auto_leader_rebalance_enable = boolean(True, "Whether preferred leaders get their partitions back.")
    leader_imbalance_check_interval_seconds = long(
        300, "How often preferred leaders get their partitions back.", at_least(1)
    )
    replica_fetch_backoff_ms = integer(1000, "A follower's pause after an error.", at_least(0))
    replica_fetch_max_bytes = integer(1 << 20, "Bytes that a follower asks of one partition.", at_least(0))
    replica_fetch_min_bytes = integer(1, "A leader answers a follower when it has this many bytes.")
    replica_fetch_response_max_bytes = integer(
        10 << 20, "Bytes that a follower asks for in one fetch.", at_least(0)
    )
    replica_fetch_wait_max_ms = integer(500, "A leader answers a follower after this long at most.")
    replica_lag_time_max_ms = long(30_000, "A follower behind for this long leaves the ISR.")
    follower_replication_throttled_rate = long(
        LONG_MAX,
        "Bytes a second for replicas that are listed as throttled and not in sync yet.",
        at_least(0),
        update=PER_BROKER,
    )
    leader_replication_throttled_rate = long(
        LONG_MAX,
        "Bytes a second to followers not in sync yet, of partitions that are listed as throttled.",
        at_least(0),
        update=PER_BROKER,
    )
    replica_selector_class = string(None, "RackAwareReplicaSelector lets consumers read from their own rack.")
    replica_socket_timeout_ms = integer(30_000, "A follower drops a leader that is silent for this long.")
    zookeeper_connect = string("", "The ensemble of a cluster; without it the broker is alone.")
    zookeeper_session_timeout_ms = integer(
        6000, "A broker that ZooKeeper has not heard for this long is lost.", at_least(1)
    )
    zookeeper_set_acl = boolean(False, "Whether nodes in ZooKeeper are readable with our credentials alone.")
    zookeeper_ssl_client_enable = boolean(False, "Whether to use TLS with ZooKeeper.")
    zookeeper_ssl_truststore_location = string(None, "A PEM file with the certificates to trust.")
    zookeeper_ssl_keystore_location = string(None, "A PEM file with our own key and certificate.")
    ottla_zookeeper_auth = password(None, "digest:USER:PASSWORD or sasl:USER:PASSWORD, for ZooKeeper.")


class OwnSettings:
    """Limits and behaviour that Apache Kafka has no setting for."""

    ottla_requests_max_bytes = long(256 << 20, "Memory for requests in flight.", at_least(1))
    ottla_fetch_max_wait_ms = integer(
        300_000, "A fetch is answered after this time even if the client would wait longer.", at_least(0)
    )
    ottla_connection_responses_max_bytes = long(
        16 << 20, "The largest response to a fetch, which is what may wait on a connection.", at_least(1)
    )
    ottla_batch_uncompressed_max_bytes = long(
        64 << 20,
        "What the compressed batches of one request may take uncompressed; large requests more.",
        at_least(1),
    )
    ottla_client_telemetry_topic = string(
        None, "A topic to which the metrics that clients push are appended, as they come; none if not set."
    )
    ottla_schemas_topic = string(
        "_schemas", "The topic of the schema registry, for topics whose records must name a schema."
    )
    ottla_request_elements_max = integer(
        100_000, "Topics, partitions and all other array elements of one request together.", at_least(1)
    )
    ottla_fetch_sessions_partitions_max = integer(
        50_000, "Partitions in all fetch sessions; a fetch beyond them works without a session.", at_least(0)
    )
    ottla_open_files_max = integer(2000, "Segment files kept open.", at_least(1))
    ottla_topics_max = integer(100_000, "Topics in the cluster.", at_least(1))
    ottla_partitions_max = integer(200_000, "Partitions in the cluster.", at_least(1))
    ottla_groups_max = integer(100_000, "Groups of a coordinator.", at_least(1))
    ottla_group_pending_members_max = integer(
        1000,
        "Member ids that classic members were given and have not joined with yet, for each partition of the offsets "
        "topic; the oldest are forgotten first.",
        at_least(1),
    )
    ottla_group_consumer_settling_heartbeat_interval_ms = integer(
        500, "The heartbeat interval that members get while their group changes.", at_least(1)
    )
    ottla_group_consumer_settling_ms = integer(
        60_000, "How long after a change members keep the shorter heartbeat interval.", at_least(0)
    )
    ottla_metadata_snapshot_entries = integer(1000, "Metadata entries between snapshots.", at_least(1))
    ottla_start_without_metadata = boolean(
        False,
        "Whether log folders whose metadata is lost may start from nothing: partitions become *-stray.",
    )
    ottla_start_without_folders = boolean(
        False,
        "Whether partitions whose only replica was in a log folder that is missing now may start from nothing.",
    )


class BrokerSettings(
    NetworkSettings,
    SecuritySettings,
    TopicSettings,
    LogSettings,
    CoordinatorSettings,
    ClusterSettings,
    OwnSettings,
):
    """All of them, as fields of `Config`."""


BROKER_KEYS: dict[str, ConfigKey] = by_name(
    (*topic_default_keys(), *keys_of(*reversed(BrokerSettings.__mro__)))
)
