"""Every API that is served, in which versions, by which handler. ApiVersions answers from this table."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any

from ottla.wire.messages import BY_NAME
from ottla.wire.schema import Api, Message

# The lowest and highest level served.
FEATURES = {
    "group.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}
Handler = Callable[[Any, Any], Awaitable[Any]]


@dataclass(frozen=True)
class Route:
    """`module` is a name in broker.handlers: imported at its first request, to start quickly.

    `by_controller`: another broker relays it to the controller. `checks_first`: its handler does so, after it has
    asked for the client's rights. `between_brokers`: clients are not told so.
    """

    api: Api
    module: str
    function: str
    version_min: int
    version_max: int
    by_controller: bool = False
    checks_first: bool = False
    between_brokers: bool = False
    for_telemetry: bool = False  # clients are told so while somebody subscribes to their metrics
    relay: str = ""  # the function that relays it, where some of it is this broker's own

    @cached_property
    def handler(self) -> Handler:
        handler: Handler = getattr(import_module(f"ottla.broker.handlers.{self.module}"), self.function)
        return handler

    @cached_property
    def relayed(self) -> Handler | None:
        """Its own way to the controller, if it has one."""
        if not self.relay:
            return None
        relayed: Handler = getattr(import_module(f"ottla.broker.handlers.{self.module}"), self.relay)
        return relayed

    @cached_property
    def request(self) -> type[Message]:
        return self.api.request()


def _route(name: str, module: str, function: str, version_max: int | None = None) -> Route:
    api = BY_NAME[name]
    return Route(api, module, function, api.version_min, version_max or api.version_max)


def _controller(name: str, module: str, function: str) -> Route:
    return replace(_route(name, module, function), by_controller=True)


def _between(name: str, module: str, function: str) -> Route:
    return replace(_route(name, module, function), between_brokers=True)


def _telemetry(name: str, function: str) -> Route:
    return replace(_route(name, "telemetry", function), for_telemetry=True)


def _checked(name: str, module: str, function: str) -> Route:
    return replace(_route(name, module, function), checks_first=True)


_TABLE = (
    _route("Produce", "produce", "produce"),
    _route("Fetch", "fetch", "fetch"),
    _route("ListOffsets", "offsets", "list_offsets"),
    _route("OffsetForLeaderEpoch", "offsets", "offset_for_leader_epoch"),
    _route("DeleteRecords", "offsets", "delete_records"),
    _route("ApiVersions", "cluster", "api_versions"),
    _route("Metadata", "cluster", "metadata"),
    _route("DescribeCluster", "describe", "describe_cluster"),
    _route("DescribeTopicPartitions", "describe", "describe_topic_partitions"),
    _controller("CreateTopics", "topics", "create_topics"),
    _controller("DeleteTopics", "topics", "delete_topics"),
    _controller("CreatePartitions", "topics", "create_partitions"),
    _route("DescribeConfigs", "configs", "describe_configs"),
    _controller("AlterConfigs", "configs", "alter_configs"),
    replace(
        _controller("IncrementalAlterConfigs", "configs", "incremental_alter_configs"),
        relay="relay_incremental_alter_configs",
    ),
    _route("ListConfigResources", "configs", "list_config_resources"),
    _route("FindCoordinator", "coordinators", "find_coordinator"),
    _route("JoinGroup", "groups", "join_group"),
    _route("SyncGroup", "groups", "sync_group"),
    _route("Heartbeat", "groups", "heartbeat"),
    _route("LeaveGroup", "groups", "leave_group"),
    _route("ConsumerGroupHeartbeat", "groups", "consumer_group_heartbeat"),
    _route("OffsetCommit", "groups", "offset_commit"),
    _route("OffsetFetch", "groups", "offset_fetch"),
    _route("OffsetDelete", "groups", "offset_delete"),
    _route("TxnOffsetCommit", "groups", "txn_offset_commit"),
    _route("ListGroups", "groups", "list_groups"),
    _route("DescribeGroups", "groups", "describe_groups"),
    _route("ConsumerGroupDescribe", "groups", "consumer_group_describe"),
    _route("DeleteGroups", "groups", "delete_groups"),
    _route("ShareGroupHeartbeat", "share_groups", "share_group_heartbeat"),
    _route("ShareGroupDescribe", "share_groups", "share_group_describe"),
    _route("ShareFetch", "share_fetch", "share_fetch"),
    _route("ShareAcknowledge", "share_fetch", "share_acknowledge"),
    _route("DescribeShareGroupOffsets", "share_groups", "describe_offsets"),
    _route("AlterShareGroupOffsets", "share_groups", "alter_offsets"),
    _route("DeleteShareGroupOffsets", "share_groups", "delete_offsets"),
    _route("StreamsGroupHeartbeat", "streams_groups", "streams_group_heartbeat"),
    _route("StreamsGroupDescribe", "streams_groups", "streams_group_describe"),
    _between("InitializeShareGroupState", "share_states", "initialize_state"),
    _between("ReadShareGroupState", "share_states", "read_state"),
    _between("WriteShareGroupState", "share_states", "write_state"),
    _between("DeleteShareGroupState", "share_states", "delete_state"),
    _between("ReadShareGroupStateSummary", "share_states", "read_summary"),
    _route("InitProducerId", "transactions", "init_producer_id", 5),
    _route("AddPartitionsToTxn", "transactions", "add_partitions_to_txn"),
    _route("AddOffsetsToTxn", "transactions", "add_offsets_to_txn"),
    _route("EndTxn", "transactions", "end_txn"),
    _route("WriteTxnMarkers", "transactions", "write_txn_markers"),
    _route("DescribeTransactions", "transactions", "describe_transactions"),
    _route("ListTransactions", "transactions", "list_transactions"),
    _route("DescribeProducers", "producers", "describe_producers"),
    _route("DescribeLogDirs", "log_dirs", "describe_log_dirs"),
    _route("AlterReplicaLogDirs", "log_dirs", "alter_replica_log_dirs"),
    _controller("ElectLeaders", "leadership", "elect_leaders"),
    _controller("AlterPartitionReassignments", "leadership", "alter_partition_reassignments"),
    _route("ListPartitionReassignments", "leadership", "list_partition_reassignments"),
    _controller("UnregisterBroker", "leadership", "unregister_broker"),
    _route("DescribeQuorum", "leadership", "describe_quorum"),
    _between("AlterPartition", "replication", "alter_partition"),
    _between("AllocateProducerIds", "replication", "allocate_producer_ids"),
    _between("Envelope", "envelopes", "envelope"),
    _route("SaslHandshake", "login", "sasl_handshake"),
    _route("SaslAuthenticate", "login", "sasl_authenticate"),
    _route("DescribeAcls", "security", "describe_acls"),
    _controller("CreateAcls", "security", "create_acls"),
    _controller("DeleteAcls", "security", "delete_acls"),
    _route("DescribeClientQuotas", "security", "describe_client_quotas"),
    _controller("AlterClientQuotas", "security", "alter_client_quotas"),
    _route("DescribeUserScramCredentials", "security", "describe_user_scram_credentials"),
    _controller("AlterUserScramCredentials", "security", "alter_user_scram_credentials"),
    _checked("CreateDelegationToken", "tokens", "create_delegation_token"),
    _checked("RenewDelegationToken", "tokens", "renew_delegation_token"),
    _checked("ExpireDelegationToken", "tokens", "expire_delegation_token"),
    _route("DescribeDelegationToken", "tokens", "describe_delegation_token"),
    _telemetry("GetTelemetrySubscriptions", "get_telemetry_subscriptions"),
    _telemetry("PushTelemetry", "push_telemetry"),
)
ROUTES: dict[int, Route] = {route.api.key: route for route in _TABLE}
