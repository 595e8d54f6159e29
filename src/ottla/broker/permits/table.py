"""One entry for every route: the rights that its API asks for, in Kafka's order of checks.

An entry runs around the handler, and only where there is an authorizer.
"""

from ottla import errors
from ottla.broker.permits import own
from ottla.broker.permits.access import Access
from ottla.broker.permits.kinds import (
    Handler,
    Permit,
    around,
    both,
    cluster,
    free,
    named,
    parts,
    topic_parts,
    whole,
)
from ottla.broker.requests.client import Client
from ottla.security.operations import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    READ,
    TRANSACTIONAL_ID,
    WRITE,
)

_GROUP_MEMBER = whole(READ, GROUP, "group_id")
_TRANSACTION = whole(WRITE, TRANSACTIONAL_ID, "transactional_id")

PERMITS: dict[str, Permit] = {
    "ApiVersions": free,
    "SaslHandshake": free,
    "SaslAuthenticate": free,
    "Produce": own.produce,
    "Fetch": free,  # READ on each topic of its session, CLUSTER_ACTION for followers: in the handler
    "ListOffsets": topic_parts(DESCRIBE),
    "OffsetForLeaderEpoch": own.offset_for_leader_epoch,
    "DeleteRecords": topic_parts(DELETE),
    "Metadata": free,  # DESCRIBE on each topic, CREATE for new ones: in the handler
    "DescribeCluster": free,
    "DescribeTopicPartitions": free,  # DESCRIBE on each topic: in the handler
    "CreateTopics": own.create_topics,
    "DeleteTopics": own.delete_topics,
    "CreatePartitions": topic_parts(ALTER),
    "DescribeConfigs": own.configs(DESCRIBE_CONFIGS),
    "AlterConfigs": own.configs(ALTER_CONFIGS),
    "IncrementalAlterConfigs": own.configs(ALTER_CONFIGS),
    "ListConfigResources": cluster(DESCRIBE_CONFIGS),
    "FindCoordinator": own.find_coordinator,
    "JoinGroup": _GROUP_MEMBER,
    "SyncGroup": _GROUP_MEMBER,
    "Heartbeat": _GROUP_MEMBER,
    "LeaveGroup": _GROUP_MEMBER,
    "ConsumerGroupHeartbeat": own.consumer_group_heartbeat,
    "OffsetCommit": both(_GROUP_MEMBER, topic_parts(READ)),
    "OffsetFetch": own.offset_fetch,
    "OffsetDelete": both(whole(DELETE, GROUP, "group_id"), topic_parts(READ)),
    "TxnOffsetCommit": both(_TRANSACTION, _GROUP_MEMBER, topic_parts(READ)),
    "ListGroups": own.list_groups,
    "DescribeGroups": parts("groups", named(DESCRIBE, GROUP), errors.GroupAuthorizationFailed),
    "ConsumerGroupDescribe": own.consumer_group_describe,
    "DeleteGroups": parts("groups_names", named(DELETE, GROUP), errors.GroupAuthorizationFailed),
    "ShareGroupHeartbeat": own.consumer_group_heartbeat,
    "ShareGroupDescribe": own.consumer_group_describe,
    "ShareFetch": _GROUP_MEMBER,  # and READ on each topic: in the handler
    "ShareAcknowledge": _GROUP_MEMBER,
    "DescribeShareGroupOffsets": free,  # DESCRIBE on each group and topic: in the handler
    "AlterShareGroupOffsets": both(_GROUP_MEMBER, topic_parts(READ, name="topic_name")),
    "DeleteShareGroupOffsets": whole(DELETE, GROUP, "group_id"),  # and READ on each topic: in the handler
    # READ on the group, DESCRIBE on its topics, CREATE on missing ones: in the handler
    "StreamsGroupHeartbeat": free,
    "StreamsGroupDescribe": own.streams_group_describe,
    "InitializeShareGroupState": cluster(CLUSTER_ACTION),
    "ReadShareGroupState": cluster(CLUSTER_ACTION),
    "WriteShareGroupState": cluster(CLUSTER_ACTION),
    "DeleteShareGroupState": cluster(CLUSTER_ACTION),
    "ReadShareGroupStateSummary": cluster(CLUSTER_ACTION),
    "InitProducerId": own.init_producer_id,
    "AddPartitionsToTxn": own.add_partitions_to_txn,
    "AddOffsetsToTxn": both(_TRANSACTION, _GROUP_MEMBER),
    "EndTxn": _TRANSACTION,
    "WriteTxnMarkers": cluster(ALTER, CLUSTER_ACTION),
    "DescribeTransactions": own.describe_transactions,
    "ListTransactions": own.list_transactions,
    "DescribeProducers": topic_parts(READ),
    "DescribeLogDirs": cluster(DESCRIBE),
    "AlterReplicaLogDirs": cluster(ALTER),
    "ElectLeaders": cluster(ALTER),
    "AlterPartitionReassignments": cluster(ALTER),
    "ListPartitionReassignments": cluster(DESCRIBE),
    "UnregisterBroker": cluster(ALTER),
    "DescribeQuorum": cluster(DESCRIBE),
    "AlterPartition": cluster(CLUSTER_ACTION),
    "AllocateProducerIds": cluster(CLUSTER_ACTION),
    "Envelope": cluster(CLUSTER_ACTION),
    "DescribeAcls": cluster(DESCRIBE),
    "CreateAcls": cluster(ALTER),
    "DeleteAcls": cluster(ALTER),
    "DescribeClientQuotas": cluster(DESCRIBE_CONFIGS),
    "AlterClientQuotas": cluster(ALTER_CONFIGS),
    "DescribeUserScramCredentials": cluster(DESCRIBE),
    "AlterUserScramCredentials": cluster(ALTER),
    # CREATE_TOKENS on another owner; the owner and its renewers; DESCRIBE or DESCRIBE_TOKENS: in the handlers
    "CreateDelegationToken": free,
    "RenewDelegationToken": free,
    "ExpireDelegationToken": free,
    "DescribeDelegationToken": free,
    "GetTelemetrySubscriptions": free,
    "PushTelemetry": free,
}


def is_relayed(client: Client, access: Access) -> bool:
    """A request for the controller that another broker passes on: that broker has asked for its client's rights.
    The sender has proven that it reads the cluster's metadata, and has the right of a broker."""
    return client.is_peer and access.allows(client, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)


def guarded(api_name: str, handler: Handler) -> Handler:
    """The handler behind the entry of its API."""
    permit = PERMITS[api_name]
    return handler if permit is free else around(permit, handler)
