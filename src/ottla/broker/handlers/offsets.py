"""Where things are in a log: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from collections.abc import Callable

from ottla import errors
from ottla.broker.context import Context
from ottla.broker.waits import Ticket, Wait, woken
from ottla.replication.partition import Partition
from ottla.storage.folder import LogFolder
from ottla.storage.log import Log
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
)
FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
READ_COMMITTED = 1
HIGH_WATERMARK = -1
NOWHERE = -1, -1, -1  # timestamp, offset, leader epoch


async def list_offsets(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    """v4 fences by epoch; v7 to v11 add special timestamps."""
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for each in topic.partitions:
            key = topic.name, each.partition_index
            (twice if key in seen else seen).add(key)
    topics = []
    for topic in request.topics:
        partitions = [
            _listed(topic.name, each, request.isolation_level == READ_COMMITTED, twice, context)
            for each in topic.partitions
        ]
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _listed(
    topic: str,
    wanted: ListOffsetsPartition,
    read_committed: bool,
    twice: set[tuple[str, int]],
    context: Context,
) -> ListOffsetsPartitionResponse:
    try:
        if (topic, wanted.partition_index) in twice:
            raise errors.InvalidRequest()
        if context.api_version < FIRST_VERSION.get(wanted.timestamp, 0):
            raise errors.UnsupportedVersion()
        partition = context.broker.partition(topic, wanted.partition_index)
        log = partition.leader_log(wanted.current_leader_epoch)
        if wanted.timestamp >= LATEST and not partition.knows_its_end:
            # Its high watermark may be below what the last leader has shown.
            raise errors.OffsetNotAvailable() if context.api_version >= 5 else errors.LeaderNotAvailable()
        timestamp, offset, epoch = _find(partition, log, wanted.timestamp, read_committed)
    except errors.ProtocolError as error:
        return ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index, error_code=error.code, timestamp=-1, offset=-1
        )
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _find(partition: Partition, log: Log, timestamp: int, read_committed: bool) -> tuple[int, int, int]:
    end = partition.visible_end(log, read_committed=read_committed)
    match timestamp:
        case -1:
            return -1, end, partition.state.leader_epoch
        case -2 | -4:
            return -1, log.log_start_offset, log.epochs.epoch_of(log.log_start_offset)
        case -3:
            found = log.offset_of_max_timestamp(up_to=end)
        case -5 | -6:
            return NOWHERE  # nothing is kept elsewhere
        case _ if timestamp < 0:
            raise errors.UnsupportedVersion(f"timestamp {timestamp} has no meaning")
        case _:
            found = log.offset_for_timestamp(timestamp, up_to=end)
    return NOWHERE if found is None else (found.timestamp, found.offset, found.leader_epoch)


async def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: Context
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end_of_epoch(topic.topic, each, context) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end_of_epoch(topic: str, wanted: OffsetForLeaderPartition, context: Context) -> EpochEndOffset:
    try:
        partition = context.broker.partition(topic, wanted.partition)
        log = partition.leader_log(wanted.current_leader_epoch)
    except errors.ProtocolError as error:
        return EpochEndOffset(
            error_code=error.code, partition=wanted.partition, leader_epoch=-1, end_offset=-1
        )
    epoch, end_offset = log.end_of_epoch(wanted.leader_epoch)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)


async def delete_records(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    """Answered once the new starts are on disk and at every replica that lives: what was deleted does not come
    back with a kill or with the next leader."""
    deadline_ms = context.broker.clock.monotonic_ms() + request.timeout_ms
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete_before(topic.name, each, context) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    saved: Wait[None] = Wait()
    context.broker.housekeeping.checkpointed(_homes(request, context), lambda: saved.set(None))
    await saved
    for topic in response.topics:
        for each in topic.partitions:
            if not each.error_code:
                await _trim_everywhere(topic.name, each, deadline_ms, context)
    return response


async def _trim_everywhere(
    topic: str, result: DeleteRecordsPartitionResult, deadline_ms: int, context: Context
) -> None:
    broker = context.broker
    wanted = result.low_watermark

    def is_alive(broker_id: int) -> bool:
        known = broker.image.brokers.get(broker_id)
        return known is not None and not known.fenced

    def listen(wake: Callable[[], None]) -> list[Ticket]:
        # Soon: the news that wakes us is heard in parts, and that a broker is lost comes last.
        return [partition.trimmed.add(0, lambda: broker.clock.call_soon(wake))]

    try:
        partition = broker.partition(topic, result.partition_index)
        while (low := partition.low_watermark(is_alive)) < wanted:
            result.low_watermark = low
            if not await woken(broker.clock, deadline_ms, listen):
                raise errors.RequestTimedOut()
        result.low_watermark = low
    except errors.ProtocolError as error:
        result.error_code = error.code


def _homes(request: DeleteRecordsRequest, context: Context) -> list[LogFolder]:
    replicas = context.broker.replicas
    keys = [(topic.name, each.partition_index) for topic in request.topics for each in topic.partitions]
    homes = {id(home): home for key in keys if (home := replicas.home(key)) is not None}
    return list(homes.values())


def _delete_before(
    topic: str, wanted: DeleteRecordsPartition, context: Context
) -> DeleteRecordsPartitionResult:
    broker = context.broker
    try:
        log = broker.partition(topic, wanted.partition_index).leader_log()
        if not log.config.delete:
            raise errors.PolicyViolation()
        offset = log.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
        if offset < 0:
            raise errors.OffsetOutOfRange()
        low_watermark = log.delete_records_before(offset)
    except errors.ProtocolError as error:
        return DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=-1, error_code=error.code
        )
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=low_watermark)
