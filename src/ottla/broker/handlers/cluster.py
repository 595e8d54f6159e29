"""What every client asks first: ApiVersions, Metadata."""

import re

from ottla import errors
from ottla.broker.cluster import peers
from ottla.broker.handlers.leaders import endpoints_of
from ottla.broker.permits.authorized import NOT_ASKED, cluster_operations, topic_operations
from ottla.broker.requests.context import Context
from ottla.broker.routes import FEATURES, ROUTES
from ottla.broker.stepping import STEP_BYTES
from ottla.metadata.image import Image, Partition, Topic
from ottla.metadata.names import is_internal, is_legal
from ottla.security.operations import CLUSTER, CLUSTER_NAME, CREATE, DESCRIBE, TOPIC
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.schema import ZERO_UUID

PRODUCE = 0
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
SOFTWARE_KEPT = 64  # characters, for as long as the connection lasts
NAMED_SOFTWARE_FROM = 3
IDS_FROM = 12  # of Metadata requests
CREATED_AT_ONCE = 50  # topics
PARTITION_UNITS = 5_000  # of work: described and written in about 5 microseconds


async def api_versions(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    if context.api_version >= NAMED_SOFTWARE_FROM:
        names = request.client_software_name, request.client_software_version
        if not all(SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=errors.InvalidRequest.code)
        context.client.software = " ".join(names)[:SOFTWARE_KEPT]
        if names[0] == peers.SOFTWARE:
            context.client.is_peer = peers.is_peer(
                names[1], context.client.listener, context.metadata.image, context.config
            )
    return served_versions(context.metadata.image)


def served_versions(image: Image) -> ApiVersionsResponse:
    has_telemetry = bool(image.client_metrics)
    # Produce is told from version 0 on although 3 is the first that is served: librdkafka would otherwise
    # turn compression off (KAFKA-18659).
    keys = [
        ApiVersion(
            api_key=key,
            min_version=0 if key == PRODUCE else route.version_min,
            max_version=route.version_max,
        )
        for key, route in sorted(ROUTES.items())
        if not route.between_brokers and (has_telemetry or not route.for_telemetry)
    ]
    supported = [
        SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in FEATURES.items()
    ]
    finalized = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in image.features.items()
    ]
    return ApiVersionsResponse(
        api_keys=keys,
        supported_features=supported,
        finalized_features=finalized,
        finalized_features_epoch=image.position,
    )


async def metadata(request: MetadataRequest, context: Context) -> MetadataResponse:
    """v0 asks for all with an empty list, others with null; v4 may forbid auto-creation; v12 takes ids."""
    wanted = request.topics
    if wanted is None or (context.api_version == 0 and not wanted):
        topics = await _all_topics(request, context)
    else:
        wanted = list({(each.name, each.topic_id): each for each in wanted}.values())  # each once
        if context.api_version < IDS_FROM and any(each.topic_id != ZERO_UUID for each in wanted):
            raise errors.InvalidRequest(f"topic ids are taken from version {IDS_FROM} on")
        if request.allow_auto_topic_creation or context.api_version < 4:
            await _create_missing(wanted, context)
        topics = []
        for each in wanted:
            topic = _look_up(each, context, request)
            topics.append(topic)
            await _pace(topic, context)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in endpoints_of(context, living(context.metadata.image))
        ],
        cluster_id=context.metadata.image.cluster_id,
        controller_id=context.metadata.image.controller_id,
        topics=topics,
        cluster_authorized_operations=NOT_ASKED,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


async def _all_topics(request: MetadataRequest, context: Context) -> list[MetadataResponseTopic]:
    image = context.metadata.image
    topics = []
    for topic_id in list(image.topics_by_id):
        topic = image.topics_by_id.get(topic_id)  # others had their turn, and may have deleted it
        if topic is not None and context.allows(DESCRIBE, TOPIC, topic.name):
            described = _described(topic, context, request)
            topics.append(described)
            await _pace(described, context)
    return topics


async def _pace(topic: MetadataResponseTopic, context: Context) -> None:
    units = PARTITION_UNITS * (1 + len(topic.partitions))
    await context.pace(units)


async def _create_missing(wanted: list[MetadataRequestTopic], context: Context) -> None:
    missing = [
        each.name
        for each in wanted
        if each.name and each.name not in context.metadata.image.topics and _may_create(each.name, context)
    ]
    if not context.config.auto_create_topics_enable:
        return
    for start in range(0, len(missing), CREATED_AT_ONCE):
        await context.metadata.create_topics_quietly(missing[start : start + CREATED_AT_ONCE], context.sender)
        await context.pace(STEP_BYTES)


def _may_create(name: str, context: Context) -> bool:
    return context.allows(DESCRIBE, TOPIC, name) and (
        context.allows(CREATE, CLUSTER, CLUSTER_NAME) or context.allows(CREATE, TOPIC, name)
    )


def _look_up(
    wanted: MetadataRequestTopic, context: Context, request: MetadataRequest
) -> MetadataResponseTopic:
    image = context.metadata.image
    by_id = wanted.topic_id != ZERO_UUID
    topic = image.topics_by_id.get(wanted.topic_id) if by_id else image.topics.get(wanted.name or "")
    is_seen = context.allows(DESCRIBE, TOPIC, topic.name if topic is not None else wanted.name or "")
    if topic is not None and is_seen:
        return _described(topic, context, request)
    error: type[errors.ProtocolError] = errors.UnknownTopicId if by_id else errors.UnknownTopicOrPartition
    if not by_id and not is_seen:  # whether it exists is not told
        return MetadataResponseTopic(
            error_code=errors.TopicAuthorizationFailed.code,
            name=wanted.name or "",
            topic_authorized_operations=NOT_ASKED,
        )
    if not by_id and not is_legal(wanted.name or ""):
        error = errors.InvalidTopicException
    return MetadataResponseTopic(
        error_code=error.code,
        name=None if by_id else wanted.name or "",
        topic_id=wanted.topic_id,
        topic_authorized_operations=NOT_ASKED if by_id else _topic_operations(wanted.name, context, request),
    )


def _described(topic: Topic, context: Context, request: MetadataRequest) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[_described_partition(each, context) for each in topic.partitions],
        topic_authorized_operations=_topic_operations(topic.name, context, request),
    )


def _topic_operations(name: str | None, context: Context, request: MetadataRequest) -> int:
    return topic_operations(name or "", context) if request.include_topic_authorized_operations else NOT_ASKED


def _described_partition(partition: Partition, context: Context) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=errors.LeaderNotAvailable.code if partition.leader < 0 else 0,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline(partition, context),
    )


def living(image: Image) -> list[int]:
    return [broker.broker_id for broker in image.brokers.values() if not broker.fenced]


def offline(partition: Partition, context: Context) -> list[int]:
    """Replicas that cannot serve: their broker is away, or its disk."""
    brokers, node_id = context.metadata.image.brokers, context.config.node_id
    away = [each for each in partition.replicas if each not in brokers or brokers[each].fenced]
    if node_id in partition.replicas and context.replicas.is_offline(partition.topic, partition.index):
        away.append(node_id)
    return away
