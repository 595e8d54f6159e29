"""Who leads and where replicas are: ElectLeaders, reassignments, UnregisterBroker, DescribeQuorum."""

from collections import defaultdict

from ottla import errors
from ottla.broker.requests.context import Context
from ottla.metadata import brokers
from ottla.metadata.names import CLUSTER_METADATA
from ottla.metadata.partitions import ElectionType
from ottla.metadata.partitions import elect_leaders as decide_leaders
from ottla.metadata.reassignment import Move, alter_reassignments, reassignments
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


async def elect_leaders(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    """v0 knows only the preferred election. Without topics: all partitions that need one."""
    kind = request.election_type if context.api_version > 0 else ElectionType.PREFERRED
    wanted = None
    if request.topic_partitions is not None:
        wanted = [(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions]
    results = await context.metadata.change(lambda image, config: decide_leaders(kind, wanted, image))
    topics: dict[str, list[PartitionResult]] = defaultdict(list)
    for result in results:
        topics[result.topic].append(
            PartitionResult(
                partition_id=result.partition,
                error_code=result.error.code if result.error else 0,
                error_message=result.error.message if result.error else None,
            )
        )
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=results) for topic, results in topics.items()
        ]
    )


async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    moves = [
        Move(topic.name, partition.partition_index, partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    ]
    allowed = request.allow_replication_factor_change or context.api_version == 0
    results = await context.metadata.change(
        lambda image, config: alter_reassignments(moves, image, config, allow_factor_change=allowed)
    )
    topics: dict[str, list[ReassignablePartitionResponse]] = defaultdict(list)
    for move, error in results:
        topics[move.topic].append(
            ReassignablePartitionResponse(
                partition_index=move.partition,
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
            )
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(name=name, partitions=partitions) for name, partitions in topics.items()
        ],
    )


async def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
    topics: dict[str, list[OngoingPartitionReassignment]] = defaultdict(list)
    for reassignment in reassignments(context.metadata.image):
        if wanted is None or (reassignment.topic, reassignment.index) in wanted:
            topics[reassignment.topic].append(
                OngoingPartitionReassignment(
                    partition_index=reassignment.index,
                    replicas=list(reassignment.replicas),
                    adding_replicas=list(reassignment.adding),
                    removing_replicas=list(reassignment.removing),
                )
            )
    return ListPartitionReassignmentsResponse(
        topics=[
            OngoingTopicReassignment(name=name, partitions=partitions) for name, partitions in topics.items()
        ]
    )


async def unregister_broker(request: UnregisterBrokerRequest, context: Context) -> UnregisterBrokerResponse:
    """Only for a fenced broker: a working one would lose its partitions, and nobody would lead them."""
    broker = context.metadata.image.brokers.get(request.broker_id)
    try:
        if broker is not None and not broker.fenced:
            raise errors.InvalidRequest(f"Broker {request.broker_id} is at work: stop it first")
        await context.metadata.change(
            lambda image, config: brokers.unregister(request.broker_id, image, config)
        )
    except errors.ProtocolError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
    return UnregisterBrokerResponse()


async def describe_quorum(request: DescribeQuorumRequest, context: Context) -> DescribeQuorumResponse:
    """The metadata log is not kept by the brokers, so nobody votes on it by fetching. Told as it is: the
    controller leads, every living broker may become controller, and how far the log is as known here."""
    image = context.metadata.image
    living = [broker for broker in image.brokers.values() if not broker.fenced]
    quorum = ResponsePartitionData(
        leader_id=image.controller_id,
        leader_epoch=image.controller_epoch,
        high_watermark=image.position,
        current_voters=[
            ReplicaState(
                replica_id=broker.broker_id,
                log_end_offset=image.position if broker.broker_id == context.config.node_id else -1,
            )
            for broker in living
        ],
    )
    topics = []
    for topic in {topic.topic_name: topic for topic in request.topics}.values():
        if topic.topic_name != CLUSTER_METADATA:
            unknown = errors.UnknownTopicOrPartition.code
            partitions = [
                ResponsePartitionData(partition_index=partition.partition_index, error_code=unknown)
                for partition in topic.partitions
            ]
        else:
            partitions = [quorum]
        topics.append(ResponseTopicData(topic_name=topic.topic_name, partitions=partitions))
    nodes = [
        Node(
            node_id=broker.broker_id,
            listeners=[Listener(name=e.name, host=e.host, port=e.port) for e in broker.endpoints],
        )
        for broker in living
    ]
    return DescribeQuorumResponse(topics=topics, nodes=nodes)
