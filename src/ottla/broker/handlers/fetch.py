"""Fetch. v7 brings sessions, v9 leader epochs, v11 racks, v12 divergence, v13 topic ids, v15 replica epochs.

Followers fetch as consumers do, but up to the end of the log; what they ask for tells what they have.
"""

from dataclasses import dataclass

from ottla import errors
from ottla.broker.context import Context
from ottla.broker.handlers.leaders import current_leader, endpoints_of
from ottla.broker.nearest import nearest_replica
from ottla.broker.parked import Parked
from ottla.broker.readers import Reader, reader_of
from ottla.broker.sessions import Turn
from ottla.broker.wanted import Key, Readable, Wanted
from ottla.replication.partition import Partition
from ottla.replication.throttle import Throttle
from ottla.security.operations import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME, READ, TOPIC
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
    SnapshotId,
)

TOPIC_IDS_FROM = 13
STRANGERS_MAX = 10_000  # partitions that do not exist: more than a client with old metadata asks for
SESSION_STRANGERS_MAX = 100  # of those, in a fetch session
UNKNOWN = (errors.UnknownTopicOrPartition, errors.UnknownTopicId)
# Shared by all answers: replaced where there is something to say, never changed.
NO_EPOCH, NO_LEADER, NO_SNAPSHOT = EpochEndOffset(), LeaderIdAndEpoch(), SnapshotId()


@dataclass(slots=True)
class _Look:
    """What each partition of a fetch is good for. Nothing is read yet."""

    settled: dict[Key, PartitionData]  # answers without records: errors, divergence, a nearer replica
    readable: dict[Key, Readable]
    resting: list[Readable]  # of a session, with nothing new since the last fetch: not in the answer
    keys: list[Key]  # of the first two, in the order of the request
    urgent: bool = False  # an answer that is not held back

    def settle(self, key: Key, data: PartitionData, *, urgent: bool) -> None:
        self.settled[key] = data
        self.readable.pop(key, None)
        self.urgent |= urgent

    def all_readable(self) -> list[Readable]:
        return [*self.readable.values(), *self.resting]


async def fetch(request: FetchRequest, context: Context) -> FetchResponse:
    broker = context.broker
    now_ms = broker.clock.monotonic_ms()
    by_id = context.api_version >= TOPIC_IDS_FROM
    reader = reader_of(request, context.api_version)
    if _names_too_many(request, by_id, broker.image.partition_count + STRANGERS_MAX):
        return FetchResponse(error_code=errors.InvalidRequest.code)
    try:
        turn = broker.sessions.turn(
            request,
            by_id=by_id,
            is_follower=reader.is_follower,
            owner=context.client,
            now_ms=now_ms,
            partitions_max=broker.image.partition_count + SESSION_STRANGERS_MAX,
        )
    except errors.ProtocolError as error:
        return FetchResponse(error_code=error.code)
    request.topics = []  # all of it is in the turn: what may be large is not held twice
    bytes_max = _bytes_max(request, context)
    look = _look(turn, request.rack_id, reader, context)
    if reader.is_follower:
        _acknowledge(look, reader, now_ms, context)
    if not look.urgent and (readable := look.all_readable()):
        bytes_min = min(request.min_bytes, bytes_max)
        parked = Parked(readable, reader, bytes_min, broker.clock, keeps_listening=turn.is_kept)
        wait_ms = context.wait_ms(request.max_wait_ms)
        if wait_ms > 0 and not parked.is_enough():
            turn.rest(readable)
            await parked.until(now_ms + wait_ms)
            look = _look(turn, request.rack_id, reader, context)
    data = _read_all(look, reader, min(bytes_max, context.memory.answer_bytes_max()), context)
    told = turn.tell(data)
    turn.rest(
        each for key, each in look.readable.items() if not data[key].records and not data[key].error_code
    )
    return _response(turn, told, by_id, context)


def _names_too_many(request: FetchRequest, by_id: bool, limit: int) -> bool:
    """Each partition is answered, so that a few bytes of a request take hundreds here."""
    if sum(len(topic.partitions) for topic in request.topics) <= limit:
        return False
    named = {
        (topic.topic_id if by_id else topic.topic, partition.partition)
        for topic in request.topics
        for partition in topic.partitions
    }
    return len(named) > limit


def _bytes_max(request: FetchRequest, context: Context) -> int:
    config = context.broker.config
    limit: int = min(config.fetch_max_bytes, config.ottla_connection_responses_max_bytes)
    return min(request.max_bytes, limit)


def _look(turn: Turn, rack: str, reader: Reader, context: Context) -> _Look:
    look = _Look({}, {}, [], [])
    may_rest = turn.incremental and not rack  # the nearest replica may be another one each time
    for wanted in turn.wanted:
        resting = wanted.resting
        if resting is not None:
            if may_rest and resting.is_quiet(reader.visible_end(resting.partition, resting.log)):
                look.resting.append(resting)
                continue
            wanted.wake()
        key = wanted.topic, wanted.partition
        look.keys.append(key)
        try:
            partition = _partition(wanted, reader, context)
            log = reader.log_of(partition, wanted.current_leader_epoch)
            data = _without_records(partition, log, wanted, rack, reader, context)
        except errors.ProtocolError as error:
            # The others are waited for beside a partition that does not exist.
            look.settle(key, _failed(wanted, error, context), urgent=not isinstance(error, UNKNOWN))
            continue
        if data is not None:
            look.settle(key, data, urgent=True)
        else:
            throttle = _throttle(partition, reader, context)
            look.readable[key] = Readable(wanted, partition, log, partition.state, throttle)
    return look


def _acknowledge(look: _Look, reader: Reader, now_ms: int, context: Context) -> None:
    """A follower has all that is before what it asks for.

    For all partitions before any of them is looked at for records: what it has may be the last that a record
    was waiting for, and then a coordinator appends the next one."""
    for each in look.all_readable():
        wanted = each.wanted
        try:
            each.partition.on_follower_fetch(
                reader.replica_id, wanted.fetch_offset, wanted.log_start_offset, reader.broker_epoch, now_ms
            )
        except errors.ProtocolError as error:
            _refuse(look, each, error, context)


def _refuse(look: _Look, each: Readable, error: errors.ProtocolError, context: Context) -> None:
    wanted = each.wanted
    key = wanted.topic, wanted.partition
    if wanted.resting is each:
        wanted.wake()
        look.resting.remove(each)
        look.keys.append(key)
    look.settle(key, _failed(wanted, error, context), urgent=True)


def _without_records(
    partition: Partition, log: Log, wanted: Wanted, rack: str, reader: Reader, context: Context
) -> PartitionData | None:
    """The answer where there is nothing to read; None where there may be."""
    if not reader.is_follower:
        nearest = nearest_replica(partition, wanted.fetch_offset, rack, context.broker)
        if nearest is not None:
            return _elsewhere(wanted, log, nearest)
    if wanted.last_fetched_epoch >= 0:
        epoch, end_offset = log.end_of_epoch(wanted.last_fetched_epoch)
        if end_offset < 0:
            raise errors.OffsetOutOfRange(f"leader epoch {wanted.last_fetched_epoch} is not known here")
        if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
            data = _empty(log, wanted, reader)
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            return data
    if not log.log_start_offset <= wanted.fetch_offset <= log.end_offset:
        if not reader.is_follower:
            raise errors.OffsetOutOfRange()
        data = _empty(log, wanted, reader)
        data.error_code = errors.OffsetOutOfRange.code  # with where the log starts: it goes on there
        return data
    return None


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


def _partition(wanted: Wanted, reader: Reader, context: Context) -> Partition:
    broker = context.broker
    name = wanted.topic if isinstance(wanted.topic, str) else broker.topic_name(wanted.topic)
    if not _may_read(name, reader, context):
        raise errors.TopicAuthorizationFailed
    return broker.partition(name, wanted.partition)


def _may_read(topic: str, reader: Reader, context: Context) -> bool:
    """Asked for every partition of a session, not only for those that this request names."""
    if reader.is_follower:
        return context.allows(CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    return context.allows(READ, TOPIC, topic)


def _throttle(partition: Partition, reader: Reader, context: Context) -> Throttle | None:
    return context.broker.throttles.leading(partition, reader.replica_id) if reader.is_follower else None


def _read_all(look: _Look, reader: Reader, bytes_max: int, context: Context) -> dict[Key, PartitionData]:
    """In the order of the request, until the answer is full."""
    found: dict[Key, PartitionData] = {}
    taken_bytes = 0
    now_ms = context.broker.clock.monotonic_ms()
    for key in look.keys:
        readable = look.readable.get(key)
        if readable is None:
            found[key] = look.settled[key]
            continue
        try:
            data = found[key] = _read(readable, reader, bytes_max - taken_bytes, taken_bytes == 0, now_ms)
        except errors.ProtocolError as error:
            found[key] = _failed(readable.wanted, error, context)
        else:
            taken_bytes += len(data.records or b"")
    return found


def _read(readable: Readable, reader: Reader, left: int, first: bool, now_ms: int) -> PartitionData:
    """The first partition with records gives at least one batch, however large."""
    wanted, log, throttle = readable.wanted, readable.log, readable.throttle
    data = _empty(log, wanted, reader)
    end = reader.visible_end(readable.partition, log)
    if wanted.fetch_offset >= end or not (left > 0 or first) or readable.is_held_back(now_ms):
        return data
    most = max(0, min(left, wanted.partition_max_bytes))
    taken = log.read(wanted.fetch_offset, max_bytes=most, up_to=end, at_least_one=first)
    data.records = taken.data
    if throttle is not None:
        throttle.take(len(taken.data), now_ms)
    if reader.read_committed:
        data.aborted_transactions = [
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in log.aborted_transactions(wanted.fetch_offset, taken.next_offset)
        ]
    return data


def _empty(log: Log, wanted: Wanted, reader: Reader) -> PartitionData:
    return PartitionData(
        partition_index=wanted.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=-1 if reader.is_follower else log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=[] if reader.read_committed else None,
        records=b"",
        diverging_epoch=NO_EPOCH,
        current_leader=NO_LEADER,
        snapshot_id=NO_SNAPSHOT,
    )


def _failed(wanted: Wanted, error: errors.ProtocolError, context: Context) -> PartitionData:
    data = PartitionData(
        partition_index=wanted.partition,
        error_code=error.code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=[] if isinstance(error, UNKNOWN) else None,  # as Kafka has it
        records=b"",
        diverging_epoch=NO_EPOCH,
        current_leader=NO_LEADER,
        snapshot_id=NO_SNAPSHOT,
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
