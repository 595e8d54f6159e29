"""Where things are in a log: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from collections import Counter
from collections.abc import Callable

from ottla import errors
from ottla.broker.requests.context import Context
from ottla.broker.requests.refusals import protocol_error
from ottla.broker.stepping import STEP_BYTES
from ottla.broker.waits import Ticket, Wait, woken
from ottla.metadata.names import is_internal
from ottla.replication.partition import Partition
from ottla.storage.folder import LogFolder
from ottla.storage.log import Log
from ottla.storage.search import Found, Looks, Search
from ottla.wire.compression import OverLimit
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
PARTITION_UNITS, HEADER_UNITS, LOOK_UNITS = 10_000, 1_000, 200_000  # of work: about as many nanoseconds


async def list_offsets(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    """v4 fences by epoch; v7 to v11 add special timestamps."""
    times = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    wanted = {
        (topic.name, partition.partition_index): partition
        for topic in request.topics
        for partition in topic.partitions
    }
    read_committed = request.isolation_level == READ_COMMITTED
    topics: dict[str, list[ListOffsetsPartitionResponse]] = {topic.name: [] for topic in request.topics}
    for key, partition in wanted.items():
        listed = await _listed(key[0], partition, read_committed, times[key] > 1, context)
        topics[key[0]].append(listed)
        await context.pace(PARTITION_UNITS)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=partitions) for name, partitions in topics.items()
        ]
    )


async def _listed(
    topic: str, wanted: ListOffsetsPartition, read_committed: bool, is_repeated: bool, context: Context
) -> ListOffsetsPartitionResponse:
    try:
        if is_repeated:
            raise errors.InvalidRequest()
        if context.api_version < FIRST_VERSION.get(wanted.timestamp, 0):
            raise errors.UnsupportedVersion()
        partition = context.replicas.partition(topic, wanted.partition_index)
        log = partition.leader_log(wanted.current_leader_epoch)
        if wanted.timestamp >= LATEST and not partition.knows_its_end:
            # Its high watermark may be below what the last leader has shown.
            raise errors.OffsetNotAvailable() if context.api_version >= 5 else errors.LeaderNotAvailable()
        timestamp, offset, epoch = await _find(partition, log, wanted.timestamp, read_committed, context)
    except errors.ProtocolError as error:
        return ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index, error_code=error.code, timestamp=-1, offset=-1
        )
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


async def _find(
    partition: Partition, log: Log, timestamp: int, read_committed: bool, context: Context
) -> tuple[int, int, int]:
    end = partition.visible_end(log, read_committed=read_committed)
    match timestamp:
        case -1:
            return -1, end, partition.state.leader_epoch
        case -2 | -4:
            return -1, log.log_start_offset, log.epochs.epoch_of(log.log_start_offset)
        case -3:
            search = log.search_newest(up_to=end)
        case -5 | -6:
            return NOWHERE  # nothing is kept elsewhere
        case _ if timestamp < 0:
            raise errors.UnsupportedVersion(f"timestamp {timestamp} has no meaning")
        case _:
            search = log.search(timestamp, up_to=end)
    located = await _searched(search, partition, log, context)
    return NOWHERE if located is None else (located.timestamp, located.offset, located.leader_epoch)


async def _searched(search: Search, partition: Partition, log: Log, context: Context) -> Found | None:
    """Others have their turn between two steps: records of one timestamp are walked one by one."""
    tenure = partition.tenure
    located: Found | None = None
    while True:
        try:
            with log.reading():
                step = search.send(located)
        except StopIteration as stop:
            result: Found | None = stop.value
            return result
        if isinstance(step, int):
            located = None
            await context.pace(step * HEADER_UNITS)
        else:
            located = await _looked(step, context)
        if partition.leader_log() is not log or partition.tenure != tenure:
            raise errors.NotLeaderOrFollower()


async def _looked(look: Looks, context: Context) -> Found | None:
    await context.pace(LOOK_UNITS)
    try:
        return look(limit=STEP_BYTES, scratch=context.scratch)
    except OverLimit:
        return await context.heavy_work.run(look)


async def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: Context
) -> OffsetForLeaderEpochResponse:
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            partitions.append(_end_of_epoch(topic.topic, wanted, context))
            await context.pace(PARTITION_UNITS)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def _end_of_epoch(topic: str, wanted: OffsetForLeaderPartition, context: Context) -> EpochEndOffset:
    try:
        partition = context.replicas.partition(topic, wanted.partition)
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
    deadline_ms = context.clock.monotonic_ms() + request.timeout_ms
    wanted = {
        (topic.name, partition.partition_index): partition
        for topic in request.topics
        for partition in topic.partitions
    }
    topics: dict[str, list[DeleteRecordsPartitionResult]] = {topic.name: [] for topic in request.topics}
    for (name, _), partition in wanted.items():
        topics[name].append(_delete_before(name, partition, context))
        await context.pace(PARTITION_UNITS)
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=name, partitions=partitions) for name, partitions in topics.items()
        ]
    )
    saved: Wait[list[LogFolder]] = Wait()
    context.housekeeping.checkpointed(_homes(request, context), saved.set)
    unsaved = await saved
    for topic in response.topics:
        for result in topic.partitions:
            if result.error_code:
                continue
            if context.replicas.home((topic.name, result.partition_index)) in unsaved:
                result.error_code = errors.KafkaStorageError.code  # the disk is full: they may come back
                result.low_watermark = -1
                continue
            await _trim_everywhere(topic.name, result, deadline_ms, context)
    return response


async def _trim_everywhere(
    topic: str, result: DeleteRecordsPartitionResult, deadline_ms: int, context: Context
) -> None:
    wanted = result.low_watermark

    def is_alive(broker_id: int) -> bool:
        known = context.metadata.image.brokers.get(broker_id)
        return known is not None and not known.fenced

    def listen(wake: Callable[[], None]) -> list[Ticket]:
        # Soon: the news that wakes us is heard in parts, and that a broker is lost comes last.
        return [partition.trimmed.add(0, lambda: context.clock.call_soon(wake))]

    try:
        partition = context.replicas.partition(topic, result.partition_index)
        while (low := partition.low_watermark(is_alive)) < wanted:
            result.low_watermark = low
            if not await woken(context.clock, deadline_ms, listen):
                raise errors.RequestTimedOut()
        result.low_watermark = low
    except Exception as failure:
        waiting = f"waiting for the replicas of partition {result.partition_index} of {topic}"
        result.error_code = protocol_error(failure, waiting).code


def _homes(request: DeleteRecordsRequest, context: Context) -> list[LogFolder]:
    replicas = context.replicas
    keys = [
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    homes = {id(home): home for key in keys if (home := replicas.home(key)) is not None}
    return list(homes.values())


def _delete_before(
    topic: str, wanted: DeleteRecordsPartition, context: Context
) -> DeleteRecordsPartitionResult:
    try:
        if is_internal(topic):  # the coordinators know what of it is not needed any more
            raise errors.InvalidTopicException(f"Cannot delete records of internal topic {topic}")
        log = context.replicas.partition(topic, wanted.partition_index).leader_log()
        if not log.config.delete:
            raise errors.PolicyViolation()
        offset = log.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
        if offset < 0:
            raise errors.OffsetOutOfRange()
        low_watermark = log.delete_records_before(offset)
    except Exception as failure:
        error = protocol_error(failure, f"deleting records of partition {wanted.partition_index} of {topic}")
        return DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=-1, error_code=error.code
        )
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=low_watermark)
