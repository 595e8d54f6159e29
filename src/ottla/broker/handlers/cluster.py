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
        wanted = list({(topic.name, topic.topic_id): topic for topic in wanted}.values())  # each once
        if context.api_version < IDS_FROM and any(topic.topic_id != ZERO_UUID for topic in wanted):
            raise errors.InvalidRequest(f"topic ids are taken from version {IDS_FROM} on")
        refused: set[str] = set()
        if request.allow_auto_topic_creation or context.api_version < 4:
            refused = await _create_missing(wanted, context)
        topics = []
        for asked in wanted:
            topic = _look_up(asked, context, request, refused)
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
    await context.begin(context.metadata.image.partition_count * PARTITION_UNITS)
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


async def _create_missing(wanted: list[MetadataRequestTopic], context: Context) -> set[str]:
    """Creates what may be created. The others' names come back: they are refused, not called missing."""
    if not context.config.auto_create_topics_enable:
        return set()
    known = context.metadata.image.topics
    missing = [
        topic.name
        for topic in wanted
        if topic.name and topic.name not in known and context.allows(DESCRIBE, TOPIC, topic.name)
    ]
    creatable = [name for name in missing if _may_create(name, context)]
    for start in range(0, len(creatable), CREATED_AT_ONCE):
        names = creatable[start : start + CREATED_AT_ONCE]
        await context.metadata.create_topics_quietly(names, context.sender)
        await context.pace(STEP_BYTES)
    return set(missing).difference(creatable)


def _may_create(name: str, context: Context) -> bool:
    return context.allows(CREATE, CLUSTER, CLUSTER_NAME) or context.allows(CREATE, TOPIC, name)


def _look_up(
    wanted: MetadataRequestTopic, context: Context, request: MetadataRequest, refused: set[str]
) -> MetadataResponseTopic:
    if wanted.topic_id != ZERO_UUID:
        return _look_up_id(wanted.topic_id, context, request)
    name = wanted.name or ""
    if name in refused or not context.allows(DESCRIBE, TOPIC, name):  # whether it exists is not told
        return MetadataResponseTopic(
            error_code=errors.TopicAuthorizationFailed.code,
            name=name,
            topic_authorized_operations=NOT_ASKED,
        )
    topic = context.metadata.image.topics.get(name)
    if topic is not None:
        return _described(topic, context, request)
    error = errors.UnknownTopicOrPartition if is_legal(name) else errors.InvalidTopicException
    return MetadataResponseTopic(
        error_code=error.code,
        name=name,
        topic_authorized_operations=_topic_operations(name, context, request),
    )


def _look_up_id(topic_id: bytes, context: Context, request: MetadataRequest) -> MetadataResponseTopic:
    """As in Kafka, an id is no secret: whether a topic has it is told to everybody, the topic's name is not."""
    topic = context.metadata.image.topics_by_id.get(topic_id)
    if topic is not None and context.allows(DESCRIBE, TOPIC, topic.name):
        return _described(topic, context, request)
    error = errors.UnknownTopicId if topic is None else errors.TopicAuthorizationFailed
    return MetadataResponseTopic(
        error_code=error.code, name=None, topic_id=topic_id, topic_authorized_operations=NOT_ASKED
    )


def _described(topic: Topic, context: Context, request: MetadataRequest) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[_described_partition(partition, context) for partition in topic.partitions],
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
    away = [replica for replica in partition.replicas if replica not in brokers or brokers[replica].fenced]
    if node_id in partition.replicas and context.replicas.is_offline(partition.topic, partition.index):
        away.append(node_id)
    return away
