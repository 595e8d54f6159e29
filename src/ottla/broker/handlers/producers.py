"""DescribeProducers: who has written to a partition lately."""

from ottla import errors
from ottla.broker.context import Context
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


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
