"""The APIs whose rights cannot be said in a line: each as Kafka checks it."""

from collections.abc import Iterable
from copy import copy
from typing import Any

from ottla import errors
from ottla.broker.permits.access import Access, refusal_of
from ottla.broker.permits.authorized import NOT_ASKED
from ottla.broker.permits.kinds import (
    ZERO_UUID,
    Handler,
    MayTouch,
    Permit,
    both,
    cluster,
    divided,
    may_cluster,
    name_of,
    named,
    parts,
    topic,
    topic_parts,
)
from ottla.broker.requests.client import Client
from ottla.broker.requests.context import Context
from ottla.broker.requests.refusals import refusal_of_parts
from ottla.broker.requests.topologies import topics_of
from ottla.security.operations import (
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
from ottla.wire.batch import HEADER_BYTES
from ottla.wire.messages import APIS
from ottla.wire.messages.offset_fetch import OffsetFetchResponsePartitions, OffsetFetchResponseTopics

TOPIC_CONFIGS, GROUP_CONFIGS = 2, 32  # resource types of configs; all others are the cluster's
GROUP_KEY, TRANSACTION_KEY = 0, 1  # of FindCoordinator
BATCHED_TXN_FROM = 4  # of AddPartitionsToTxn: sent by brokers
BATCHED_KEYS_FROM = 4  # of FindCoordinator
TOPIC_STATES_FROM = 6  # of DeleteTopics
GROUPS_FROM = 8  # of OffsetFetch
ATTRIBUTES_AT, TRANSACTIONAL_BIT = 22, 0x10  # in a record batch


_written_topics = topic_parts(WRITE, "topic_data")


async def produce(request: Any, context: Context, handler: Handler) -> Any:
    if _is_transactional(request):
        context.require(WRITE, TRANSACTIONAL_ID, request.transactional_id or "")
    return await _written_topics(request, context, handler)


def may_produce_at_once(request: Any, client: Client, access: Access) -> bool:
    """Whether the connection is known to have all the rights of the request, and its records need no others: most
    of the time, and then a produce costs no more than without an authorizer."""
    if not access.remembers(client):
        return False
    writable = client.writable
    try:
        for topic_data in request.topic_data:
            name = topic_data.name
            if not name or name not in writable:  # a topic that is named by its id has no name here
                return False
            for data in topic_data.partition_data:
                if data.records[ATTRIBUTES_AT] & TRANSACTIONAL_BIT:
                    return False
    except (TypeError, IndexError):
        return False  # there are no records, or less than a batch of them: the handler says so
    return True


def _is_transactional(request: Any) -> bool:
    for topic_data in request.topic_data:
        for data in topic_data.partition_data:
            raw = data.records
            if raw and len(raw) >= HEADER_BYTES and raw[ATTRIBUTES_AT] & TRANSACTIONAL_BIT:
                return True
    return False


async def offset_for_leader_epoch(request: Any, context: Context, handler: Handler) -> Any:
    if may_cluster(context, CLUSTER_ACTION):
        return await handler(request, context)
    return await topic_parts(DESCRIBE, name="topic")(request, context, handler)


async def create_topics(request: Any, context: Context, handler: Handler) -> Any:
    if not may_cluster(context, CREATE):
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


async def delete_topics(request: Any, context: Context, handler: Handler) -> Any:
    if may_cluster(context, DELETE):
        return await handler(request, context)
    if context.api_version < TOPIC_STATES_FROM:
        permit = parts("topic_names", _may_delete, errors.TopicAuthorizationFailed)
        return await permit(request, context, handler)
    response = await parts("topics", _may_delete_state, errors.TopicAuthorizationFailed)(
        request, context, handler
    )
    for result in response.responses:
        if result.error_code == errors.TopicAuthorizationFailed.code and result.topic_id != ZERO_UUID:
            name = name_of(result.topic_id, context)
            result.name = name if context.allows(DESCRIBE, TOPIC, name) else None
    return response


def _may_delete_state(state: Any, context: Context) -> bool:
    """By a name or an id. The handler refuses both at once, and an id that no topic has."""
    if state.topic_id == ZERO_UUID:
        return state.name is None or _may_delete(state.name, context)
    name = name_of(state.topic_id, context)
    return state.name is not None or not name or context.allows(DELETE, TOPIC, name)


def _may_delete(name: str, context: Context) -> bool:
    """Those who may see that a topic does not exist are told so."""
    exists = name in context.metadata.image.topics
    return context.allows(DESCRIBE, TOPIC, name) and (not exists or context.allows(DELETE, TOPIC, name))


def configs(operation: int) -> Permit:
    """Of topics, of groups, or of the cluster; each kind is refused in its own words."""

    def kind(resource: Any) -> int:
        return {TOPIC_CONFIGS: TOPIC, GROUP_CONFIGS: GROUP}.get(resource.resource_type, CLUSTER)

    def may_touch(wanted: int) -> MayTouch:
        def touches(resource: Any, context: Context) -> bool:
            name = CLUSTER_NAME if wanted == CLUSTER else resource.resource_name
            return kind(resource) != wanted or context.allows(operation, wanted, name)

        return touches

    return both(
        *(
            parts("resources", may_touch(resource_type), type(refusal_of(resource_type)))
            for resource_type in (TOPIC, GROUP, CLUSTER)
        )
    )


async def find_coordinator(request: Any, context: Context, handler: Handler) -> Any:
    resource_type = {GROUP_KEY: GROUP, TRANSACTION_KEY: TRANSACTIONAL_ID}.get(request.key_type, CLUSTER)
    error = type(refusal_of(resource_type))

    def may_touch(key: str, context: Context) -> bool:
        if resource_type == CLUSTER:
            return may_cluster(context, CLUSTER_ACTION)
        return context.allows(DESCRIBE, resource_type, key)

    if context.api_version >= BATCHED_KEYS_FROM:
        response = await parts("coordinator_keys", may_touch, error)(request, context, handler)
        for coordinator in response.coordinators:
            if coordinator.error_code == error.code:
                coordinator.node_id = coordinator.port = -1
        return response
    if not may_touch(request.key, context):
        raise error
    return await handler(request, context)


async def consumer_group_heartbeat(request: Any, context: Context, handler: Handler) -> Any:
    context.require(READ, GROUP, request.group_id)
    for name in request.subscribed_topic_names or ():
        context.require(DESCRIBE, TOPIC, name)
    return await handler(request, context)


async def offset_fetch(request: Any, context: Context, handler: Handler) -> Any:
    """Without topics it is all of a group's, of which the client sees those that it may describe."""
    if context.api_version < GROUPS_FROM:
        context.require(DESCRIBE, GROUP, request.group_id)
        response = await _described_topics(request, context, handler)
        response.topics = _seen(response.topics, context)
        return response
    allowed_groups, denied_groups = divided(
        request.groups, lambda group: context.allows(DESCRIBE, GROUP, group.group_id)
    )
    refused = copy(request)
    refused.groups, request.groups = denied_groups, allowed_groups
    denied_topics = {group.group_id: _take_denied(group, context) for group in request.groups}
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
    allowed, denied = divided(group.topics or (), lambda topic: may_touch(topic, context))
    if denied:
        group.topics = allowed
    return denied


def _refused_topics(group: Any, denied: dict[str, list[Any]], context: Context) -> list[Any]:
    code = errors.TopicAuthorizationFailed.code
    return [
        OffsetFetchResponseTopics(
            topic_id=topic.topic_id,
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=code)
                for index in topic.partition_indexes
            ],
        )
        for topic in denied.get(group.group_id, ())
    ]


def _seen(topics: Iterable[Any], context: Context) -> list[Any]:
    denied = errors.TopicAuthorizationFailed.code
    may_see = topic(DESCRIBE)
    return [
        topic
        for topic in topics
        if may_see(topic, context) or any(part.error_code == denied for part in topic.partitions)
    ]


async def list_groups(request: Any, context: Context, handler: Handler) -> Any:
    response = await handler(request, context)
    if not may_cluster(context, DESCRIBE):
        response.groups = [
            group for group in response.groups if context.allows(DESCRIBE, GROUP, group.group_id)
        ]
    return response


async def consumer_group_describe(request: Any, context: Context, handler: Handler) -> Any:
    permit = parts("group_ids", named(DESCRIBE, GROUP), errors.GroupAuthorizationFailed)
    response = await permit(request, context, handler)
    for group in response.groups:
        names = {
            topic.topic_name
            for member in group.members
            for assignment in (member.assignment, getattr(member, "target_assignment", None))
            if assignment is not None  # share groups have no other target
            for topic in assignment.topic_partitions
        } | {name for member in group.members for name in member.subscribed_topic_names}
        if not all(context.allows(DESCRIBE, TOPIC, name) for name in names):
            group.error_code = errors.TopicAuthorizationFailed.code
            group.error_message = (
                "The group has described topic(s) that the client is not authorized to describe."
            )
            group.members = []
    return response


async def streams_group_describe(request: Any, context: Context, handler: Handler) -> Any:
    permit = parts("group_ids", named(DESCRIBE, GROUP), errors.GroupAuthorizationFailed)
    response = await permit(request, context, handler)
    for group in response.groups:
        if not all(context.allows(DESCRIBE, TOPIC, name) for name in topics_of(group.topology)):
            group.error_code = errors.TopicAuthorizationFailed.code
            group.error_message = (
                "The described group uses topics that the client is not authorized to describe."
            )
            group.group_state, group.group_epoch, group.assignment_epoch = "", 0, 0
            group.members, group.topology, group.authorized_operations = [], None, NOT_ASKED
    return response


async def init_producer_id(request: Any, context: Context, handler: Handler) -> Any:
    if request.transactional_id is not None:
        context.require(WRITE, TRANSACTIONAL_ID, request.transactional_id)
    elif not may_cluster(context, IDEMPOTENT_WRITE) and not context.allows_any(WRITE, TOPIC):
        raise errors.ClusterAuthorizationFailed
    return await handler(request, context)


async def add_partitions_to_txn(request: Any, context: Context, handler: Handler) -> Any:
    if context.api_version >= BATCHED_TXN_FROM:
        return await cluster(CLUSTER_ACTION)(request, context, handler)
    context.require(WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
    wanted = request.v3_and_below_topics
    denied = {topic.name for topic in wanted if not context.allows(WRITE, TOPIC, topic.name)}
    if not denied:
        return await handler(request, context)
    # All partitions are added, or none.
    error = errors.OperationNotAttempted()
    response = refusal_of_parts(APIS[request.API_KEY], context.api_version, request, error)
    for result in response.results_by_topic_v3_and_below:  # type: ignore[attr-defined]
        if result.name in denied:
            for part in result.results_by_partition:
                part.partition_error_code = errors.TopicAuthorizationFailed.code
    return response


async def describe_transactions(request: Any, context: Context, handler: Handler) -> Any:
    permit = parts(
        "transactional_ids", named(DESCRIBE, TRANSACTIONAL_ID), errors.TransactionalIdAuthorizationFailed
    )
    response = await permit(request, context, handler)
    for state in response.transaction_states:
        state.topics = [topic for topic in state.topics if context.allows(DESCRIBE, TOPIC, topic.topic)]
    return response


async def list_transactions(request: Any, context: Context, handler: Handler) -> Any:
    response = await handler(request, context)
    response.transaction_states = [
        state
        for state in response.transaction_states
        if context.allows(DESCRIBE, TRANSACTIONAL_ID, state.transactional_id)
    ]
    return response
