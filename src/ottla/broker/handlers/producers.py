"""InitProducerId for idempotent producers, DescribeProducers."""

from ottla import errors
from ottla.broker.context import Context
from ottla.broker.waits import Wait
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def init_producer_id(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    wait: Wait[int] = Wait()
    context.broker.producer_ids.take(wait.set)
    try:
        return InitProducerIdResponse(producer_id=await wait, producer_epoch=0)
    except errors.ProtocolError:
        return InitProducerIdResponse(error_code=errors.CoordinatorLoadInProgress.code, producer_id=-1, producer_epoch=-1)


async def describe_producers(
    request: DescribeProducersRequest, context: Context
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_described(topic.name, index, context) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _described(topic: str, index: int, context: Context) -> PartitionResponse:
    try:
        log = context.broker.partition(topic, index).leader_log()
    except errors.ProtocolError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.last_timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.transaction_first_offset,
            )
            for each in log.producers.entries.values()
        ],
    )
