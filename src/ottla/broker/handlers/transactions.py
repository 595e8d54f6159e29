"""Transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, markers, and what tools ask."""

from ottla import errors
from ottla.broker.requests.context import Context
from ottla.broker.requests.refusals import protocol_error
from ottla.broker.waits import Wait
from ottla.coordination.transactions.listing import merged
from ottla.coordination.transactions.markers import Markers
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

BATCHED_FROM = 4  # AddPartitionsToTxn between brokers
TopicPartition = tuple[str, int]
MARKER_UNITS = 20_000  # of work: about as many nanoseconds


async def init_producer_id(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    if request.transactional_id == "" or (request.producer_id < 0) != (request.producer_epoch < 0):
        return _no_producer_id(errors.InvalidRequest())
    filled: Wait[None] = Wait()
    context.transactions.producer_ids.when_filled(filled.set)
    try:
        await filled
        if request.transactional_id is None:
            return InitProducerIdResponse(producer_id=context.transactions.producer_ids.next_producer_id())
        response: InitProducerIdResponse = await context.transactions.coordinator.call(
            request.transactional_id,
            lambda machine, token, now_ms: machine.on_init_producer_id(
                request, context.api_version, token, now_ms
            ),
        )
    except errors.ProtocolError as error:
        return _no_producer_id(error)
    return response


def _no_producer_id(error: errors.ProtocolError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)


async def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: Context
) -> AddPartitionsToTxnResponse:
    """Partitions that do not exist are refused, and with them the whole transaction's request."""
    if context.api_version >= BATCHED_FROM:
        return await _add_batched(request, context)
    unknown = _unknown(request.v3_and_below_topics, context)
    if unknown:
        results = _refused(request.v3_and_below_topics, unknown)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    return await context.transactions.coordinator.call(
        request.v3_and_below_transactional_id,
        lambda machine, token, now_ms: machine.on_add_partitions_to_txn(
            request, context.api_version, token, now_ms
        ),
    )


async def _add_batched(request: AddPartitionsToTxnRequest, context: Context) -> AddPartitionsToTxnResponse:
    response = AddPartitionsToTxnResponse()
    for transaction in request.transactions:
        unknown = _unknown(transaction.topics, context)
        if unknown:
            response.results_by_transaction.append(
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=_refused(transaction.topics, unknown),
                )
            )
            continue
        try:
            response.results_by_transaction += await _add_one(transaction, context)
        except Exception as failure:
            error = protocol_error(
                failure, f"adding partitions to transaction {transaction.transactional_id}"
            )
            codes = {
                (topic.name, index): error.code for topic in transaction.topics for index in topic.partitions
            }
            response.results_by_transaction.append(
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=_refused(transaction.topics, codes),
                )
            )
    return response


async def _add_one(
    transaction: AddPartitionsToTxnTransaction, context: Context
) -> list[AddPartitionsToTxnResult]:
    request = AddPartitionsToTxnRequest(transactions=[transaction])
    response: AddPartitionsToTxnResponse = await context.transactions.coordinator.call(
        transaction.transactional_id,
        lambda machine, token, now_ms: machine.on_add_partitions_to_txn(
            request, context.api_version, token, now_ms
        ),
    )
    return response.results_by_transaction


def _unknown(topics: list[AddPartitionsToTxnTopic], context: Context) -> dict[TopicPartition, int]:
    return {
        (topic.name, index): errors.UnknownTopicOrPartition.code
        for topic in topics
        for index in topic.partitions
        if context.metadata.image.partition(topic.name, index) is None
    }


def _refused(
    topics: list[AddPartitionsToTxnTopic], codes: dict[TopicPartition, int]
) -> list[AddPartitionsToTxnTopicResult]:
    """Those without a fault of their own were not attempted."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=codes.get((topic.name, index), errors.OperationNotAttempted.code),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


async def add_offsets_to_txn(request: AddOffsetsToTxnRequest, context: Context) -> AddOffsetsToTxnResponse:
    await context.metadata.ensure_topic(context.groups.topic)
    offsets_partition = context.groups.index_of(request.group_id)
    return await context.transactions.coordinator.call(
        request.transactional_id,
        lambda machine, token, now_ms: machine.on_add_offsets_to_txn(
            request, context.api_version, offsets_partition, token, now_ms
        ),
    )


async def end_txn(request: EndTxnRequest, context: Context) -> EndTxnResponse:
    return await context.transactions.coordinator.call(
        request.transactional_id,
        lambda machine, token, now_ms: machine.on_end_txn(request, context.api_version, token, now_ms),
    )


async def write_txn_markers(request: WriteTxnMarkersRequest, context: Context) -> WriteTxnMarkersResponse:
    """From a coordinator on another broker, or from a person who ends a hanging transaction."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=marker.producer_id, topics=await _written(marker, context))
            for marker in request.markers
        ]
    )


async def _written(marker: WritableTxnMarker, context: Context) -> list[WritableTxnMarkerTopicResult]:
    partitions = {(topic.name, index) for topic in marker.topics for index in topic.partition_indexes}
    markers = Markers(
        "",
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
        frozenset(partitions),
        0,
    )
    writing = {}
    for partition in sorted(partitions):
        writing[partition] = _begin_to_write(partition, markers, context)
        await context.pace(MARKER_UNITS)
    codes = {partition: await settled for partition, settled in writing.items()}
    return [
        WritableTxnMarkerTopicResult(
            name=topic.name,
            partitions=[
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=codes[topic.name, index])
                for index in topic.partition_indexes
            ],
        )
        for topic in marker.topics
    ]


def _begin_to_write(partition: TopicPartition, markers: Markers, context: Context) -> Wait[int]:
    settled: Wait[int] = Wait()
    if context.metadata.image.partition(*partition) is None:
        settled.set(errors.UnknownTopicOrPartition.code)
    else:
        context.transactions.markers.write(partition, markers, lambda _, code: settled.set(code))
    return settled


async def describe_transactions(
    request: DescribeTransactionsRequest, context: Context
) -> DescribeTransactionsResponse:
    response = DescribeTransactionsResponse()
    for transactional_id in dict.fromkeys(request.transactional_ids):
        try:
            response.transaction_states += await _describe_one(transactional_id, context)
        except errors.ProtocolError as error:
            response.transaction_states.append(
                TransactionState(transactional_id=transactional_id, error_code=error.code)
            )
    return response


async def _describe_one(transactional_id: str, context: Context) -> list[TransactionState]:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    response: DescribeTransactionsResponse = await context.transactions.coordinator.call(
        transactional_id,
        lambda machine, token, now_ms: machine.on_describe_transactions(request, token, now_ms),
    )
    return response.transaction_states


async def list_transactions(request: ListTransactionsRequest, context: Context) -> ListTransactionsResponse:
    parts: list[ListTransactionsResponse] = [
        await shard.call(lambda machine, token, now_ms: machine.on_list_transactions(request, token, now_ms))
        for shard in list(context.transactions.coordinator.loaded())
    ]
    return merged(parts)
