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
            partition.partition_index,
            partition.leader_epoch,
            partition.partition_epoch,
            _isr(partition, context.api_version),
            partition.leader_recovery_state,
        )
        for topic in request.topics
        for partition in topic.partitions
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
        topics[result.proposal.topic_id].append(_answer(result))
    return AlterPartitionResponse(
        topics=[
            ResponseTopicData(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ]
    )


def _isr(asked: PartitionData, version: int) -> list[tuple[int, int]]:
    if version < EPOCHS_FROM:
        return [(broker_id, -1) for broker_id in asked.new_isr]
    return [(member.broker_id, member.broker_epoch) for member in asked.new_isr_with_epochs]


def _answer(result: ProposalResult) -> ResponsePartitionData:
    answer = ResponsePartitionData(
        partition_index=result.proposal.partition, error_code=result.error.code if result.error else 0
    )
    if result.partition is not None:
        answer.leader_id, answer.leader_epoch = result.partition.leader, result.partition.leader_epoch
        answer.isr, answer.partition_epoch = list(result.partition.isr), result.partition.partition_epoch
        answer.leader_recovery_state = result.partition.recovery_state
    return answer


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
