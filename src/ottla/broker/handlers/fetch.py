"""Fetch. v7 brings sessions, v9 leader epochs, v11 racks, v12 divergence, v13 topic ids, v15 replica epochs.

Followers fetch as consumers do, but up to the end of the log; what they ask for tells what they have.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ottla import errors
from ottla.broker.context import Context
from ottla.broker.handlers.leaders import current_leader, endpoints_of
from ottla.broker.nearest import nearest_replica
from ottla.broker.sessions import Key, Turn, Wanted
from ottla.broker.waits import Ticket, woken
from ottla.replication.partition import Partition
from ottla.replication.throttle import Throttle
from ottla.replication.waiters import Waiters
from ottla.storage.log import Log
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

TOPIC_IDS_FROM = 13
RACKS_FROM = 11
REPLICA_STATE_FROM = 15
READ_COMMITTED = 1
UNKNOWN = (errors.UnknownTopicOrPartition, errors.UnknownTopicId)


@dataclass(slots=True)
class _Reader:
    """A consumer, or the follower `replica_id`: how much it may see, and what wakes it."""

    replica_id: int
    broker_epoch: int
    read_committed: bool
    now_ms: int  # when it asked
    reads_anywhere: bool  # from version 11 on a consumer may be at a replica that does not lead
    is_heard: bool = False  # a follower's progress counts once, when it asks

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0

    def visible_end(self, partition: Partition, log: Log) -> int:
        if self.is_follower:
            return log.end_offset
        return partition.visible_end(log, read_committed=self.read_committed)

    def log_of(self, partition: Partition, leader_epoch: int) -> Log:
        if self.is_follower or not self.reads_anywhere:
            return partition.leader_log(leader_epoch)
        return partition.readable_log(leader_epoch)

    def sees_beyond(self, end: int, partition: Partition) -> bool:
        return partition.log is not None and self.visible_end(partition, partition.log) > end

    def on_asked(self, partition: Partition, wanted: Wanted) -> None:
        if not self.is_heard:
            partition.on_follower_fetch(
                self.replica_id, wanted.fetch_offset, wanted.log_start_offset, self.broker_epoch, self.now_ms
            )

    def waiters(self, partition: Partition) -> Waiters:
        return (
            partition.written if self.is_follower else partition.waiters(read_committed=self.read_committed)
        )


@dataclass(slots=True)
class _Round:
    """One look at all partitions: what was found, and what to wait for if it is too little."""

    data: dict[Key, PartitionData]
    waiting: list[tuple[Partition, int]]  # (partition, the offset behind what it could show)
    size: int = 0
    urgent: bool = False  # an error or a divergence is told at once


async def fetch(request: FetchRequest, context: Context) -> FetchResponse:
    broker = context.broker
    clock = broker.clock
    by_id = context.api_version >= TOPIC_IDS_FROM
    try:
        turn = broker.sessions.turn(request, by_id=by_id, now_ms=clock.monotonic_ms())
    except errors.ProtocolError as error:
        return FetchResponse(error_code=error.code)
    reader = _reader(request, context.api_version, clock.monotonic_ms())
    deadline_ms = clock.monotonic_ms() + request.max_wait_ms
    while True:
        found = _look(turn, request, reader, context)
        reader.is_heard = True
        if found.urgent or found.size >= request.min_bytes or clock.monotonic_ms() >= deadline_ms:
            break
        if not await _changed(found, reader, deadline_ms, context):
            found = _look(turn, request, reader, context)
            break
    return _response(turn, turn.tell(found.data), by_id, context)


def _reader(request: FetchRequest, version: int, now_ms: int) -> _Reader:
    state = request.replica_state
    replica_id = state.replica_id if version >= REPLICA_STATE_FROM else request.replica_id
    return _Reader(
        replica_id,
        state.replica_epoch,
        request.isolation_level == READ_COMMITTED,
        now_ms,
        version >= RACKS_FROM,
    )


async def _changed(found: _Round, reader: _Reader, deadline_ms: int, context: Context) -> bool:
    """Waits until a partition has more to show (True) or the time is up (False)."""
    if any(reader.sees_beyond(end, partition) for partition, end in found.waiting):
        return True  # what a follower told may have set off an append to a partition already looked at
    clock = context.broker.clock

    def listen(wake: Callable[[], None]) -> list[Ticket]:
        def soon() -> None:
            clock.call_soon(wake)  # after the append that woke us has answered its own client

        return [reader.waiters(partition).add(end + 1, soon) for partition, end in found.waiting]

    return await woken(clock, deadline_ms, listen)


def _look(turn: Turn, request: FetchRequest, reader: _Reader, context: Context) -> _Round:
    config = context.broker.config
    left = min(request.max_bytes, config.fetch_max_bytes, config.ottla_connection_responses_max_bytes)
    found = _Round({}, [])
    now_ms = context.broker.clock.monotonic_ms()
    for wanted in turn.wanted:
        key = wanted.topic, wanted.partition
        try:
            partition = _partition(wanted, context)
            log = reader.log_of(partition, wanted.current_leader_epoch)
            nearest = nearest_replica(partition, wanted.fetch_offset, request.rack_id, context.broker)
            if nearest is not None and not reader.is_follower:
                data = _elsewhere(wanted, log, nearest)
            else:
                throttle = _throttle(partition, reader, context)
                data = _read(partition, log, wanted, reader, left, found.size == 0, throttle, now_ms)
        except errors.ProtocolError as error:
            data = _failed(wanted, error, context)
        else:
            found.waiting.append((partition, reader.visible_end(partition, log)))
        if data.records:
            found.size += len(data.records)
            left -= len(data.records)
        if data.error_code or data.diverging_epoch.epoch >= 0 or data.preferred_read_replica >= 0:
            found.urgent = True
        found.data[key] = data
    return found


def _elsewhere(wanted: Wanted, log: Log, replica: int) -> PartitionData:
    """A replica in the consumer's own rack has it too."""
    return PartitionData(
        partition_index=wanted.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        preferred_read_replica=replica,
        records=b"",
    )


def _partition(wanted: Wanted, context: Context) -> Partition:
    broker = context.broker
    name = wanted.topic if isinstance(wanted.topic, str) else broker.topic_name(wanted.topic)
    return broker.partition(name, wanted.partition)


def _throttle(partition: Partition, reader: _Reader, context: Context) -> Throttle | None:
    return context.broker.throttles.leading(partition, reader.replica_id) if reader.is_follower else None


def _read(
    partition: Partition,
    log: Log,
    wanted: Wanted,
    reader: _Reader,
    left: int,
    first: bool,
    throttle: Throttle | None,
    now_ms: int,
) -> PartitionData:
    data = PartitionData(
        partition_index=wanted.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=-1 if reader.is_follower else log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=[] if reader.read_committed else None,
        records=b"",
    )
    if wanted.last_fetched_epoch >= 0:
        epoch, end_offset = log.end_of_epoch(wanted.last_fetched_epoch)
        if end_offset < 0:
            raise errors.OffsetOutOfRange(f"leader epoch {wanted.last_fetched_epoch} is not known here")
        if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            return data
    end = reader.visible_end(partition, log)
    if not log.log_start_offset <= wanted.fetch_offset <= log.end_offset:
        if reader.is_follower:
            data.error_code = errors.OffsetOutOfRange.code  # and where the log starts, to go on there
            return data
        raise errors.OffsetOutOfRange()
    if reader.is_follower:
        reader.on_asked(partition, wanted)
        data.high_watermark = log.high_watermark
    if throttle is not None and throttle.opens_in_ms(now_ms):
        return data  # it asks again
    if wanted.fetch_offset < end and (left > 0 or first):
        most = max(0, min(left, wanted.partition_max_bytes))
        taken = log.read(wanted.fetch_offset, max_bytes=most, up_to=end, at_least_one=first)
        data.records = taken.data
        if throttle is not None:
            throttle.take(len(taken.data), now_ms)
        if reader.read_committed:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
                for each in log.aborted_transactions(wanted.fetch_offset, taken.next_offset)
            ]
    return data


def _failed(wanted: Wanted, error: errors.ProtocolError, context: Context) -> PartitionData:
    data = PartitionData(
        partition_index=wanted.partition,
        error_code=error.code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=[] if isinstance(error, UNKNOWN) else None,  # as Kafka has it
        records=b"",
    )
    if isinstance(error, errors.NotLeaderOrFollower | errors.FencedLeaderEpoch):
        leader, epoch = current_leader(context, wanted.topic, wanted.partition)
        data.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    return data


def _response(turn: Turn, told: dict[Key, PartitionData], by_id: bool, context: Context) -> FetchResponse:
    topics: dict[str | bytes, FetchableTopicResponse] = {}
    for (topic, _), data in told.items():
        entry = topics.get(topic)
        if entry is None:
            entry = topics[topic] = FetchableTopicResponse()
            if isinstance(topic, bytes):
                entry.topic_id = topic
            else:
                entry.topic = topic
        entry.partitions.append(data)
    leaders = {data.current_leader.leader_id for data in told.values()} - {-1}
    endpoints = [
        NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in endpoints_of(context, leaders)
    ]
    return FetchResponse(
        session_id=turn.session_id, responses=list(topics.values()), node_endpoints=endpoints
    )
