"""The cluster and its topics as tools ask for them: DescribeCluster, DescribeTopicPartitions."""

from ottla import errors
from ottla.broker.handlers.cluster import living, offline
from ottla.broker.handlers.leaders import endpoints_of
from ottla.broker.permits.authorized import NOT_ASKED, cluster_operations, topic_operations
from ottla.broker.requests.context import Context
from ottla.metadata.image import Partition, Topic
from ottla.metadata.names import is_internal, is_legal
from ottla.security.operations import DESCRIBE, TOPIC
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)

BROKERS_ENDPOINT = 1

TOPIC_UNITS = 5_000  # of work: described in about 5 microseconds, and so is a partition


async def describe_cluster(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS_ENDPOINT:
        unsupported = request.endpoint_type == 2
        error: type[errors.ProtocolError] = (
            errors.MismatchedEndpointType if unsupported else errors.UnsupportedEndpointType
        )
        return DescribeClusterResponse(
            error_code=error.code,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
            endpoint_type=BROKERS_ENDPOINT,
            cluster_authorized_operations=NOT_ASKED,
        )
    shown = (
        list(context.metadata.image.brokers)
        if request.include_fenced_brokers
        else living(context.metadata.image)
    )
    return DescribeClusterResponse(
        endpoint_type=BROKERS_ENDPOINT,
        cluster_id=context.metadata.image.cluster_id,
        controller_id=context.metadata.image.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=node_id,
                host=host,
                port=port,
                rack=rack,
                is_fenced=context.metadata.image.brokers[node_id].fenced,
            )
            for node_id, host, port, rack in endpoints_of(context, shown)
        ],
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


async def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, context: Context
) -> DescribeTopicPartitionsResponse:
    """Topics in order of their names, a page at a time: the cursor is where the next page begins."""
    asked = {topic.name for topic in request.topics}
    names = sorted(
        name
        for name in asked or context.metadata.image.topics
        if asked or context.allows(DESCRIBE, TOPIC, name)
    )
    first, first_partition = "", 0
    if request.cursor is not None:
        first, first_partition = request.cursor.topic_name, request.cursor.partition_index
        if first_partition < 0:
            raise errors.InvalidRequest("DescribeTopicPartitionsRequest cursor partition must be valid.")
    left = min(request.response_partition_limit, context.config.max_request_partition_size_limit)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if name < first:
            continue
        start = first_partition if name == first else 0
        topic = context.metadata.image.topics.get(name)
        if topic is None or not context.allows(DESCRIBE, TOPIC, name):
            response.topics.append(_unknown_topic(name, context))
            await context.pace(TOPIC_UNITS)
            continue
        if left <= 0:
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=start)
            break
        page = topic.partitions[start : start + left]
        response.topics.append(_page(topic, page, context))
        await context.pace(TOPIC_UNITS * (1 + len(page)))
        left -= len(page)
        if start + len(page) < len(topic.partitions):
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=start + len(page))
            break
    return response


def _unknown_topic(name: str, context: Context) -> DescribeTopicPartitionsResponseTopic:
    if not context.allows(DESCRIBE, TOPIC, name):  # whether it exists is not told
        return DescribeTopicPartitionsResponseTopic(
            error_code=errors.TopicAuthorizationFailed.code, name=name, topic_authorized_operations=NOT_ASKED
        )
    legal = is_legal(name)
    error = errors.UnknownTopicOrPartition if legal else errors.InvalidTopicException
    return DescribeTopicPartitionsResponseTopic(
        error_code=error.code, name=name, topic_authorized_operations=topic_operations(name, context)
    )


def _page(topic: Topic, page: list[Partition], context: Context) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        topic_authorized_operations=topic_operations(topic.name, context),
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=errors.LeaderNotAvailable.code if partition.leader < 0 else 0,
                partition_index=partition.index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=offline(partition, context),
            )
            for partition in page
        ],
    )
