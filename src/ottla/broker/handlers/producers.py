"""DescribeProducers: who has written to a partition lately."""

from ottla import errors
from ottla.broker.requests.context import Context
from ottla.storage.producers import ProducerEntry
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

PRODUCER_UNITS = 5_000  # of work: described and written in about 5 microseconds


async def describe_producers(
    request: DescribeProducersRequest, context: Context
) -> DescribeProducersResponse:
    indexes: dict[str, dict[int, None]] = {}  # in the order asked for, each once
    for topic in request.topics:
        indexes.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics = []
    for name, wanted in indexes.items():
        partitions = []
        for index in wanted:
            partitions.append(await _described(name, index, context))
            await context.pace(PRODUCER_UNITS)
        topics.append(TopicResponse(name=name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


async def _described(topic: str, index: int, context: Context) -> PartitionResponse:
    try:
        log = context.replicas.partition(topic, index).leader_log()
    except errors.ProtocolError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    states = []
    for producer in list(log.producers.entries.values()):  # there may be very many, and more come meanwhile
        states.append(_state(producer))
        if context.client.work.spend(PRODUCER_UNITS):
            await context.rest()
    return PartitionResponse(partition_index=index, active_producers=states)


def _state(producer: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_first_offset,
    )
