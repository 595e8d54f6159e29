"""Which right each API asks for: one entry for every route, in Kafka's order of checks.

An entry runs around the handler, and only where there is an authorizer. A request is refused as a whole, or in
parts: parts that the client may not touch never reach the handler, and their refusals join its answer.
"""

from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from typing import Any

from ottla import errors
from ottla.broker.access import Access, refusal_of
from ottla.broker.context import Client, Context
from ottla.broker.dispatch import CloseConnection
from ottla.broker.refusals import refusal_of_parts
from ottla.errors import ProtocolError
from ottla.security.operations import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from ottla.wire import batch as batches
from ottla.wire.messages import APIS

Handler = Callable[[Any, Context], Awaitable[Any]]
Permit = Callable[[Any, Context, Handler], Awaitable[Any]]
MayTouch = Callable[[Any, Context], bool]  # whether the client may touch this part of a request

TOPIC_CONFIGS, GROUP_CONFIGS = 2, 32  # resource types of configs; all others are the cluster's
GROUP_KEY, TRANSACTION_KEY = 0, 1  # of FindCoordinator
BATCHED_TXN_FROM = 4  # of AddPartitionsToTxn: sent by brokers
BATCHED_KEYS_FROM = 4  # of FindCoordinator
TOPIC_STATES_FROM = 6  # of DeleteTopics
GROUPS_FROM = 8  # of OffsetFetch
ZERO_UUID = bytes(16)
ATTRIBUTES_AT, TRANSACTIONAL_BIT = 22, 0x10  # in a record batch


# -- the kinds of entries ------------------------------------------------------------------------------------


async def free(request: Any, context: Context, handler: Handler) -> Any:
    """For everybody, or checked by the handler itself."""
    return await handler(request, context)


def cluster(*operations: int) -> Permit:
    """One of these operations on the cluster."""

    async def permit(request: Any, context: Context, handler: Handler) -> Any:
        if not _may_cluster(context, *operations):
            raise errors.ClusterAuthorizationFailed
        return await handler(request, context)

    return permit


def whole(operation: int, resource_type: int, field: str) -> Permit:
    """The operation on the resource that this field of the request names."""

    async def permit(request: Any, context: Context, handler: Handler) -> Any:
        context.require(operation, resource_type, getattr(request, field) or "")
        return await handler(request, context)

    return permit


def parts(field: str, may_touch: MayTouch, error: type[ProtocolError]) -> Permit:
    """The operation for each part of a request by itself."""

    async def permit(request: Any, context: Context, handler: Handler) -> Any:
        every = getattr(request, field) or []
        allowed = [part for part in every if may_touch(part, context)]
        if len(allowed) == len(every):
            return await handler(request, context)
        denied = copy(request)
        setattr(denied, field, [part for part in every if part not in allowed])
        refused = refusal_of_parts(APIS[request.API_KEY], context.api_version, denied, error())
        if not allowed:
            return refused
        setattr(request, field, allowed)
        return joined(await handler(request, context), refused)

    return permit


def both(*permits: Permit) -> Permit:
    """One after the other."""

    async def permit(request: Any, context: Context, handler: Handler) -> Any:
        for outer in reversed(permits):
            handler = _around(outer, handler)
        return await handler(request, context)

    return permit


def _around(permit: Permit, handler: Handler) -> Handler:
    async def guarded(request: Any, context: Context) -> Any:
        return await permit(request, context, handler)

    return guarded


def joined(response: Any, refused: Any) -> Any:
    """The answers of both; None was an answer that is not sent, which must not hide a refusal."""
    if response is None:
        raise CloseConnection("a produce without an answer was not authorized")
    for field in refused.FIELDS:
        if field.array and getattr(refused, field.name):
            setattr(response, field.name, [*getattr(response, field.name), *getattr(refused, field.name)])
    return response


def topic(operation: int, field: str = "name") -> MayTouch:
    """The operation on the topic that the part names, by its name or its id."""

    def may_touch(part: Any, context: Context) -> bool:
        name = getattr(part, field, None) or _name_of(getattr(part, "topic_id", ZERO_UUID), context)
        # An id that nobody has is the handler's to refuse.
        return not name or context.allows(operation, TOPIC, name)

    return may_touch


def named(operation: int, resource_type: int) -> MayTouch:
    """The operation on the resource whose name the part is."""
    return lambda part, context: context.allows(operation, resource_type, part)


def topic_parts(operation: int, field: str = "topics", name: str = "name") -> Permit:
    return parts(field, topic(operation, name), errors.TopicAuthorizationFailed)


def _name_of(topic_id: bytes, context: Context) -> str:
    known = context.broker.image.topics_by_id.get(topic_id)
    return known.name if known is not None else ""


def _may_cluster(context: Context, *operations: int) -> bool:
    return any(context.allows(operation, CLUSTER, CLUSTER_NAME) for operation in operations)


# -- entries with rules of their own -------------------------------------------------------------------------


async def _produce(request: Any, context: Context, handler: Handler) -> Any:
    if _is_transactional(request):
        context.require(WRITE, TRANSACTIONAL_ID, request.transactional_id or "")
    return await topic_parts(WRITE, "topic_data")(request, context, handler)


def _is_transactional(request: Any) -> bool:
    records = (data.records for each in request.topic_data for data in each.partition_data)
    return any(
        len(raw) >= batches.HEADER_BYTES and raw[ATTRIBUTES_AT] & TRANSACTIONAL_BIT for raw in records if raw
    )


async def _offset_for_leader_epoch(request: Any, context: Context, handler: Handler) -> Any:
    if _may_cluster(context, CLUSTER_ACTION):
        return await handler(request, context)
    return await topic_parts(DESCRIBE, name="topic")(request, context, handler)


async def _create_topics(request: Any, context: Context, handler: Handler) -> Any:
    if not _may_cluster(context, CREATE):
        return await topic_parts(CREATE)(request, context, _with_configs_hidden(handler))
    return await _with_configs_hidden(handler)(request, context)


def _with_configs_hidden(handler: Handler) -> Handler:
    """The settings of a new topic are for those who may see settings."""

    async def guarded(request: Any, context: Context) -> Any:
        response = await handler(request, context)
        for result in response.topics:
            if not result.error_code and not context.allows(DESCRIBE_CONFIGS, TOPIC, result.name):
                result.configs = None if context.api_version >= 5 else []
                result.num_partitions = result.replication_factor = -1
                result.topic_config_error_code = errors.TopicAuthorizationFailed.code
        return response

    return guarded


async def _delete_topics(request: Any, context: Context, handler: Handler) -> Any:
    if _may_cluster(context, DELETE):
        return await handler(request, context)
    if context.api_version < TOPIC_STATES_FROM:
        permit = parts("topic_names", _may_delete, errors.TopicAuthorizationFailed)
        return await permit(request, context, handler)

    def may_touch(state: Any, context: Context) -> bool:
        return _may_delete(state.name or _name_of(state.topic_id, context), context)

    response = await parts("topics", may_touch, errors.TopicAuthorizationFailed)(request, context, handler)
    for result in response.responses:
        hidden = result.error_code == errors.TopicAuthorizationFailed.code and result.topic_id != ZERO_UUID
        if hidden and not context.allows(DESCRIBE, TOPIC, _name_of(result.topic_id, context)):
            result.name = None
    return response


def _may_delete(name: str, context: Context) -> bool:
    """Those who may see that a topic does not exist are told so."""
    if name not in context.broker.image.topics and (not name or context.allows(DESCRIBE, TOPIC, name)):
        return True
    return context.allows(DELETE, TOPIC, name)


def _configs(operation: int) -> Permit:
    """Of topics, of groups, or of the cluster; each kind is refused in its own words."""

    def kind(resource: Any) -> int:
        return {TOPIC_CONFIGS: TOPIC, GROUP_CONFIGS: GROUP}.get(resource.resource_type, CLUSTER)

    def may_touch(wanted: int) -> MayTouch:
        def touches(resource: Any, context: Context) -> bool:
            name = CLUSTER_NAME if wanted == CLUSTER else resource.resource_name
            return kind(resource) != wanted or context.allows(operation, wanted, name)

        return touches

    return both(
        *(parts("resources", may_touch(each), type(refusal_of(each))) for each in (TOPIC, GROUP, CLUSTER))
    )


async def _find_coordinator(request: Any, context: Context, handler: Handler) -> Any:
    resource_type = {GROUP_KEY: GROUP, TRANSACTION_KEY: TRANSACTIONAL_ID}.get(request.key_type, CLUSTER)
    error = type(refusal_of(resource_type))

    def may_touch(key: str, context: Context) -> bool:
        if resource_type == CLUSTER:
            return _may_cluster(context, CLUSTER_ACTION)
        return context.allows(DESCRIBE, resource_type, key)

    if context.api_version >= BATCHED_KEYS_FROM:
        response = await parts("coordinator_keys", may_touch, error)(request, context, handler)
        for each in response.coordinators:
            if each.error_code == error.code:
                each.node_id = each.port = -1
        return response
    if not may_touch(request.key, context):
        raise error
    return await handler(request, context)


async def _consumer_group_heartbeat(request: Any, context: Context, handler: Handler) -> Any:
    context.require(READ, GROUP, request.group_id)
    for name in request.subscribed_topic_names or ():
        context.require(DESCRIBE, TOPIC, name)
    return await handler(request, context)


async def _offset_fetch(request: Any, context: Context, handler: Handler) -> Any:
    """Without topics it is all of a group's, of which the client sees those that it may describe."""
    if context.api_version < GROUPS_FROM:
        context.require(DESCRIBE, GROUP, request.group_id)
        response = await _described_topics(request, context, handler)
        response.topics = _seen(response.topics, context)
        return response
    denied_groups = [each for each in request.groups if not context.allows(DESCRIBE, GROUP, each.group_id)]
    refused = copy(request)
    refused.groups = denied_groups
    request.groups = [each for each in request.groups if each not in denied_groups]
    denied_topics = {each.group_id: _take_denied(each, context) for each in request.groups}
    response = await handler(request, context)
    for group in response.groups:
        group.topics = [*_seen(group.topics, context), *_refused_topics(group, denied_topics, context)]
    if denied_groups:
        error = errors.GroupAuthorizationFailed()
        api = APIS[request.API_KEY]
        for group in refusal_of_parts(api, context.api_version, refused, error).groups:  # type: ignore[attr-defined]
            group.topics = []
            response.groups.append(group)
    return response


async def _described_topics(request: Any, context: Context, handler: Handler) -> Any:
    if request.topics is None:
        return await handler(request, context)
    return await topic_parts(DESCRIBE)(request, context, handler)


def _take_denied(group: Any, context: Context) -> list[Any]:
    """Takes the topics that the client may not describe out of its request."""
    may_touch = topic(DESCRIBE)
    denied = [each for each in group.topics or () if not may_touch(each, context)]
    if denied:
        group.topics = [each for each in group.topics if each not in denied]
    return denied


def _refused_topics(group: Any, denied: dict[str, list[Any]], context: Context) -> list[Any]:
    from ottla.wire.messages.offset_fetch import OffsetFetchResponsePartitions, OffsetFetchResponseTopics

    code = errors.TopicAuthorizationFailed.code
    return [
        OffsetFetchResponseTopics(
            topic_id=each.topic_id,
            name=each.name,
            partitions=[
                OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=code)
                for index in each.partition_indexes
            ],
        )
        for each in denied.get(group.group_id, ())
    ]


def _seen(topics: Iterable[Any], context: Context) -> list[Any]:
    denied = errors.TopicAuthorizationFailed.code
    may_see = topic(DESCRIBE)
    return [
        each
        for each in topics
        if may_see(each, context) or any(part.error_code == denied for part in each.partitions)
    ]


async def _list_groups(request: Any, context: Context, handler: Handler) -> Any:
    response = await handler(request, context)
    if not _may_cluster(context, DESCRIBE):
        response.groups = [each for each in response.groups if context.allows(DESCRIBE, GROUP, each.group_id)]
    return response


async def _consumer_group_describe(request: Any, context: Context, handler: Handler) -> Any:
    permit = parts("group_ids", named(DESCRIBE, GROUP), errors.GroupAuthorizationFailed)
    response = await permit(request, context, handler)
    for group in response.groups:
        names = {
            each.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for each in assignment.topic_partitions
        } | {name for member in group.members for name in member.subscribed_topic_names}
        if not all(context.allows(DESCRIBE, TOPIC, name) for name in names):
            group.error_code = errors.TopicAuthorizationFailed.code
            group.error_message = (
                "The group has described topic(s) that the client is not authorized to describe."
            )
            group.members = []
    return response


async def _init_producer_id(request: Any, context: Context, handler: Handler) -> Any:
    if request.transactional_id is not None:
        context.require(WRITE, TRANSACTIONAL_ID, request.transactional_id)
    elif not _may_cluster(context, IDEMPOTENT_WRITE) and not context.allows_any(WRITE, TOPIC):
        raise errors.ClusterAuthorizationFailed
    return await handler(request, context)


async def _add_partitions_to_txn(request: Any, context: Context, handler: Handler) -> Any:
    if context.api_version >= BATCHED_TXN_FROM:
        return await cluster(CLUSTER_ACTION)(request, context, handler)
    context.require(WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
    wanted = request.v3_and_below_topics
    denied = [each.name for each in wanted if not context.allows(WRITE, TOPIC, each.name)]
    if not denied:
        return await handler(request, context)
    # All partitions are added, or none.
    error = errors.OperationNotAttempted()
    response = refusal_of_parts(APIS[request.API_KEY], context.api_version, request, error)
    for each in response.results_by_topic_v3_and_below:  # type: ignore[attr-defined]
        if each.name in denied:
            for part in each.results_by_partition:
                part.partition_error_code = errors.TopicAuthorizationFailed.code
    return response


async def _describe_transactions(request: Any, context: Context, handler: Handler) -> Any:
    permit = parts(
        "transactional_ids", named(DESCRIBE, TRANSACTIONAL_ID), errors.TransactionalIdAuthorizationFailed
    )
    response = await permit(request, context, handler)
    for state in response.transaction_states:
        state.topics = [each for each in state.topics if context.allows(DESCRIBE, TOPIC, each.topic)]
    return response


async def _list_transactions(request: Any, context: Context, handler: Handler) -> Any:
    response = await handler(request, context)
    response.transaction_states = [
        each
        for each in response.transaction_states
        if context.allows(DESCRIBE, TRANSACTIONAL_ID, each.transactional_id)
    ]
    return response


_GROUP_MEMBER = whole(READ, GROUP, "group_id")
_TRANSACTION = whole(WRITE, TRANSACTIONAL_ID, "transactional_id")

PERMITS: dict[str, Permit] = {
    "ApiVersions": free,
    "SaslHandshake": free,
    "SaslAuthenticate": free,
    "Produce": _produce,
    "Fetch": free,  # READ on each topic of its session, CLUSTER_ACTION for followers: in the handler
    "ListOffsets": topic_parts(DESCRIBE),
    "OffsetForLeaderEpoch": _offset_for_leader_epoch,
    "DeleteRecords": topic_parts(DELETE),
    "Metadata": free,  # DESCRIBE on each topic, CREATE for new ones: in the handler
    "DescribeCluster": free,
    "DescribeTopicPartitions": free,  # DESCRIBE on each topic: in the handler
    "CreateTopics": _create_topics,
    "DeleteTopics": _delete_topics,
    "CreatePartitions": topic_parts(ALTER),
    "DescribeConfigs": _configs(DESCRIBE_CONFIGS),
    "AlterConfigs": _configs(ALTER_CONFIGS),
    "IncrementalAlterConfigs": _configs(ALTER_CONFIGS),
    "ListConfigResources": cluster(DESCRIBE_CONFIGS),
    "FindCoordinator": _find_coordinator,
    "JoinGroup": _GROUP_MEMBER,
    "SyncGroup": _GROUP_MEMBER,
    "Heartbeat": _GROUP_MEMBER,
    "LeaveGroup": _GROUP_MEMBER,
    "ConsumerGroupHeartbeat": _consumer_group_heartbeat,
    "OffsetCommit": both(_GROUP_MEMBER, topic_parts(READ)),
    "OffsetFetch": _offset_fetch,
    "OffsetDelete": both(whole(DELETE, GROUP, "group_id"), topic_parts(READ)),
    "TxnOffsetCommit": both(_TRANSACTION, _GROUP_MEMBER, topic_parts(READ)),
    "ListGroups": _list_groups,
    "DescribeGroups": parts("groups", named(DESCRIBE, GROUP), errors.GroupAuthorizationFailed),
    "ConsumerGroupDescribe": _consumer_group_describe,
    "DeleteGroups": parts("groups_names", named(DELETE, GROUP), errors.GroupAuthorizationFailed),
    "InitProducerId": _init_producer_id,
    "AddPartitionsToTxn": _add_partitions_to_txn,
    "AddOffsetsToTxn": both(_TRANSACTION, _GROUP_MEMBER),
    "EndTxn": _TRANSACTION,
    "WriteTxnMarkers": cluster(ALTER, CLUSTER_ACTION),
    "DescribeTransactions": _describe_transactions,
    "ListTransactions": _list_transactions,
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
    "DescribeAcls": cluster(DESCRIBE),
    "CreateAcls": cluster(ALTER),
    "DeleteAcls": cluster(ALTER),
    "DescribeClientQuotas": cluster(DESCRIBE_CONFIGS),
    "DescribeUserScramCredentials": cluster(DESCRIBE),
    "AlterUserScramCredentials": cluster(ALTER),
}


def is_relayed(client: Client, access: Access) -> bool:
    """A request for the controller that another broker passes on: that broker has asked for its client's rights.
    The sender has proven that it reads the cluster's metadata, and has the right of a broker."""
    return client.is_peer and access.allows(client, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)


def guarded(api_name: str, handler: Handler) -> Handler:
    """The handler behind the entry of its API."""
    return _around(PERMITS[api_name], handler)
