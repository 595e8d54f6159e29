"""Produce. v12 registers partitions with their transaction by itself; v13 names topics by id."""

from dataclasses import dataclass

from ottla import errors
from ottla.broker.context import Context
from ottla.broker.dispatch import CloseConnection
from ottla.broker.handlers.leaders import current_leader, endpoints_of
from ottla.broker.transactions import Admission
from ottla.broker.waits import woken
from ottla.replication.partition import Partition
from ottla.storage.validation import NotOneBatch, RejectedRecords, RejectedTimestamps
from ottla.wire.corruption import CorruptBatch
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
CHECKED_BY_THE_LOG = (
    errors.InvalidRecord,
    errors.InvalidTimestamp,
    errors.OutOfOrderSequenceNumber,
    errors.InvalidProducerEpoch,
    errors.UnsupportedCompressionType,
    errors.InvalidTxnState,
)


@dataclass(slots=True)
class _Pending:
    """A partition's answer, and how far the high watermark must come before it may leave."""

    response: PartitionProduceResponse
    partition: Partition | None = None
    next_offset: int = -1
    tenure: int = -1


async def produce(request: ProduceRequest, context: Context) -> ProduceResponse | None:
    """Append all, then wait. Up to `appended` the next request of the connection is held back."""
    admission = await context.broker.transactions.admit(request, context)
    deadline_ms = context.broker.clock.monotonic_ms() + request.timeout_ms
    pending = [
        [_append(topic, data, request.acks, admission, context) for data in topic.partition_data]
        for topic in request.topic_data
    ]
    context.appended()  # from here on, waiting may overlap with the next request
    if request.acks == ACKS_NONE:
        _close_on_error(request, pending)
        return None
    responses = []
    for topic, each in zip(request.topic_data, pending, strict=True):
        if request.acks == ACKS_ALL:
            for one in each:
                await _settle(one, deadline_ms, context)
        partitions = [one.response for one in each]
        responses.append(
            TopicProduceResponse(topic_id=topic.topic_id, name=topic.name, partition_responses=partitions)
        )
    return ProduceResponse(responses=responses, node_endpoints=_endpoints(responses, context))


def _append(
    topic: TopicProduceData,
    data: PartitionProduceData,
    acks: int,
    admission: Admission | None,
    context: Context,
) -> _Pending:
    broker = context.broker
    log_start_offset = -1
    try:
        name = topic.name or broker.topic_name(topic.topic_id)
        if acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
            raise errors.InvalidRequiredAcks()
        if admission is not None:
            admission.check((name, data.index))
        broker.check_writable(name, context)
        partition = broker.partition(name, data.index)
        if partition.log is not None:
            log_start_offset = partition.log.log_start_offset
        appended = partition.append(data.records or b"", acks=acks, now_ms=broker.clock.now_ms())
    except errors.ProtocolError as error:
        response = _failed(data.index, error, topic, context)
        if _is_checked_by_the_log(error):
            response.log_start_offset = log_start_offset
        return _Pending(response)
    if admission is not None:
        admission.on_appended((name, data.index))
    response = PartitionProduceResponse(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=partition.log.log_start_offset if partition.log else -1,
    )
    return _Pending(response, partition, appended.next_offset, partition.tenure)


def _is_checked_by_the_log(error: errors.ProtocolError) -> bool:
    """Refused after a look into the log: Kafka tells where that starts."""
    if isinstance(error, errors.CorruptMessage):
        return not isinstance(error, CorruptBatch)  # its records cannot be unpacked
    return isinstance(error, CHECKED_BY_THE_LOG) and not isinstance(error, NotOneBatch)


def _failed(
    index: int, error: errors.ProtocolError, topic: TopicProduceData, context: Context
) -> PartitionProduceResponse:
    response = PartitionProduceResponse(
        index=index, error_code=error.code, base_offset=-1, error_message=error.message
    )
    if isinstance(error, RejectedRecords | RejectedTimestamps):
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in error.record_errors
            if at >= 0
        ]
    if isinstance(error, errors.NotLeaderOrFollower):
        leader, epoch = current_leader(context, topic.name or topic.topic_id, index)
        response.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    return response


async def _settle(pending: _Pending, deadline_ms: int, context: Context) -> None:
    """acks=all: until every in-sync replica has it, or the time is up. It stays appended in any case."""
    partition = pending.partition
    if partition is None:
        return
    waiters, next_offset = partition.committed, pending.next_offset
    try:
        while not partition.is_committed(next_offset, pending.tenure):
            # Woken by the high watermark, or by a change of leadership.
            if not await woken(
                context.broker.clock, deadline_ms, lambda wake: [waiters.add(next_offset, wake)]
            ):
                raise errors.RequestTimedOut()
    except errors.ProtocolError as error:
        pending.response.error_code = error.code
        pending.response.error_message = error.message
        pending.response.base_offset = -1


def _close_on_error(request: ProduceRequest, pending: list[list[_Pending]]) -> None:
    """Nobody reads an answer to acks=0: closing makes the client look up the leaders anew."""
    for topic, each in zip(request.topic_data, pending, strict=True):
        for one in each:
            if one.response.error_code:
                raise CloseConnection(
                    f"acks=0 and {topic.name}-{one.response.index} failed: {one.response.error_message}"
                )


def _endpoints(responses: list[TopicProduceResponse], context: Context) -> list[NodeEndpoint]:
    leaders = {
        partition.current_leader.leader_id for topic in responses for partition in topic.partition_responses
    }
    return [
        NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in endpoints_of(context, leaders - {-1})
    ]
