"""What brokers ask of the controller: AlterPartition, AllocateProducerIds. Clients are not told of them."""

from collections import defaultdict

from ottla import errors
from ottla.broker.requests.context import Context
from ottla.metadata import brokers
from ottla.metadata.partitions import IsrProposal, ProposalResult, alter_partitions
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

EPOCHS_FROM = 3


async def alter_partition(request: AlterPartitionRequest, context: Context) -> AlterPartitionResponse:
    proposals = [
        IsrProposal(
            topic.topic_id,
            each.partition_index,
            each.leader_epoch,
            each.partition_epoch,
            _isr(each, context.api_version),
            each.leader_recovery_state,
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    try:
        results = await context.metadata.change(
            lambda image, config: alter_partitions(
                request.broker_id, request.broker_epoch, proposals, image, config
            )
        )
    except errors.ProtocolError as error:
        return AlterPartitionResponse(error_code=error.code)
    topics: dict[bytes, list[ResponsePartitionData]] = defaultdict(list)
    for result in results:
        topics[result.proposal.topic_id].append(_told(result))
    return AlterPartitionResponse(
        topics=[ResponseTopicData(topic_id=topic_id, partitions=found) for topic_id, found in topics.items()]
    )


def _isr(asked: PartitionData, version: int) -> list[tuple[int, int]]:
    if version < EPOCHS_FROM:
        return [(each, -1) for each in asked.new_isr]
    return [(each.broker_id, each.broker_epoch) for each in asked.new_isr_with_epochs]


def _told(result: ProposalResult) -> ResponsePartitionData:
    told = ResponsePartitionData(
        partition_index=result.proposal.partition, error_code=result.error.code if result.error else 0
    )
    if result.partition is not None:
        told.leader_id, told.leader_epoch = result.partition.leader, result.partition.leader_epoch
        told.isr, told.partition_epoch = list(result.partition.isr), result.partition.partition_epoch
        told.leader_recovery_state = result.partition.recovery_state
    return told


async def allocate_producer_ids(
    request: AllocateProducerIdsRequest, context: Context
) -> AllocateProducerIdsResponse:
    try:
        block = await context.metadata.change(
            lambda image, config: brokers.allocate_producer_ids(
                request.broker_id, request.broker_epoch, image
            )
        )
    except errors.ProtocolError as error:
        return AllocateProducerIdsResponse(error_code=error.code)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))
