"""Fetch. v7 brings sessions, v9 leader epochs, v11 racks, v12 divergence, v13 topic ids, v15 replica epochs.

Followers fetch as consumers do, but up to the end of the log; what they ask for tells what they have.
"""

from dataclasses import dataclass
from typing import cast

from ottla import errors
from ottla.broker.fetching.nearest import nearest_replica
from ottla.broker.fetching.parked import Parked
from ottla.broker.fetching.readers import Reader, reader_of
from ottla.broker.fetching.sessions import Turn
from ottla.broker.fetching.wanted import Key, Readable, Wanted, wanted_of
from ottla.broker.handlers.leaders import current_leader, endpoints_of
from ottla.broker.requests.context import Context
from ottla.ports import Buffer
from ottla.replication.partition import Partition
from ottla.replication.throttle import Throttle
from ottla.security.operations import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME, READ, TOPIC
from ottla.security.quotas import FETCH as CONSUMER_BYTE_RATE
from ottla.storage.log import Log
from ottla.storage.reading import Slice
from ottla.wire.codec import SPLICE_BYTES_MIN, Pieces
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
# Of work: about as many nanoseconds for a partition.
QUIET_UNITS, ASK_UNITS, LOOK_UNITS, READ_UNITS = 300, 1_000, 5_000, 10_000
PIECE_BYTES = 1000 << 10  # read of one partition before others have their turn; less than a buffer for reads
UNKNOWN = (errors.UnknownTopicOrPartition, errors.UnknownTopicId)
# Shared by all answers: replaced where there is something to say, never changed.
NO_EPOCH, NO_LEADER, NO_SNAPSHOT = EpochEndOffset(), LeaderIdAndEpoch(), SnapshotId()


@dataclass(slots=True)
class _Look:
    """What each partition of a fetch is good for. Nothing is read yet."""

    settled: dict[Key, PartitionData]  # answers without records: errors, divergence, a nearer replica
    readable: dict[Key, Readable]
    resting: list[Readable]  # of a session, with nothing new since the last fetch: not in the answer
    listening: list[Readable]  # the same, and they ring when they grow (those of followers)
    keys: list[Key]  # of the first two, in the order of the request
    urgent: bool = False  # an answer that is not held back

    def settle(self, key: Key, data: PartitionData, *, urgent: bool) -> None:
        self.settled[key] = data
        self.readable.pop(key, None)
        self.urgent |= urgent

    def to_wait_for(self) -> list[Readable]:
        return [*self.readable.values(), *self.resting]


async def fetch(request: FetchRequest, context: Context) -> FetchResponse:
    now_ms = context.clock.monotonic_ms()
    by_id = context.api_version >= TOPIC_IDS_FROM
    reader = reader_of(request, context.api_version)
    asked = await _asked(request, by_id, context)
    # Each partition is answered, so that a few bytes of a request take hundreds here.
    if len(asked) > context.metadata.image.partition_count + STRANGERS_MAX:
        return FetchResponse(error_code=errors.InvalidRequest.code)
    try:
        turn = context.sessions.turn(
            request,
            asked,
            by_id=by_id,
            is_follower=reader.is_follower,
            owner=context.client,
            now_ms=now_ms,
            partitions_max=context.metadata.image.partition_count + SESSION_STRANGERS_MAX,
        )
    except errors.ProtocolError as error:
        return FetchResponse(error_code=error.code)
    request.topics = []  # all of it is in the turn: what may be large is not held twice
    bytes_max = _bytes_max(request, context)
    look = await _look(turn, request.rack_id, reader, context)
    if reader.is_follower:
        _acknowledge(look, reader, now_ms, context)
    readable = look.to_wait_for()
    if not look.urgent and (readable or look.listening):
        bytes_min = min(request.min_bytes, bytes_max)
        parked = Parked(
            readable,
            look.listening,
            reader,
            bytes_min,
            context.clock,
            turn.bell,
            keeps_listening=turn.is_kept,
        )
        wait_ms = context.wait_ms(request.max_wait_ms)
        if wait_ms > 0 and not parked.is_enough():
            turn.rest(readable)
            await parked.until(now_ms + wait_ms)
            look = await _look(turn, request.rack_id, reader, context)
    data = await _read_all(look, reader, min(bytes_max, context.memory.answer_bytes_max()), context)
    told = await _told(turn, data, context)
    turn.rest(
        each for key, each in look.readable.items() if not data[key].records and not data[key].error_code
    )
    return _response(turn, told, by_id, context)


async def _asked(request: FetchRequest, by_id: bool, context: Context) -> dict[Key, Wanted]:
    """A partition that is named twice is asked for once: the last one counts, as with Kafka."""
    asked: dict[Key, Wanted] = {}
    work = context.client.work
    for topic in request.topics:
        name: str | bytes = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            asked[name, partition.partition] = wanted_of(name, partition)
            if work.spend(ASK_UNITS):
                await context.rest()
    return asked


async def _told(turn: Turn, data: dict[Key, PartitionData], context: Context) -> dict[Key, PartitionData]:
    """What goes into the response."""
    told = {}
    work = context.client.work
    for key, found in data.items():
        if turn.tells(key, found):
            told[key] = found
        if work.spend(ASK_UNITS):
            await context.rest()
    return told


def _bytes_max(request: FetchRequest, context: Context) -> int:
    config = context.config
    limit: int = min(config.fetch_max_bytes, config.ottla_connection_responses_max_bytes, request.max_bytes)
    quotas = context.quotas
    if quotas is None or context.client.is_peer:
        return limit
    # No more than its quota allows at once: or one answer would cost a slow client hours.
    burst = quotas.burst(CONSUMER_BYTE_RATE, context.client.principal, context.client_id)
    return limit if burst is None else min(limit, max(int(burst), 1))


async def _look(turn: Turn, rack: str, reader: Reader, context: Context) -> _Look:
    look = _Look({}, {}, [], [], [])
    may_rest = turn.incremental and not rack  # the nearest replica may be another one each time
    follows = reader.is_follower
    work = context.client.work
    for wanted in turn.wanted:
        if work.spend(QUIET_UNITS):
            await context.rest()
        resting = wanted.resting
        if resting is not None:
            log = resting.log
            end = log.end_offset if follows else reader.visible_end(resting.partition, log)
            if may_rest and resting.is_quiet(end):
                listens = follows and resting.listens_behind(end)
                (look.listening if listens else look.resting).append(resting)
                continue
            wanted.wake()
        key = wanted.topic, wanted.partition
        look.keys.append(key)
        work.spend(LOOK_UNITS)
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
            look.readable[key] = Readable(wanted, partition, log, partition.state, turn.bell, throttle)
    return look


def _acknowledge(look: _Look, reader: Reader, now_ms: int, context: Context) -> None:
    """A follower has all that is before what it asks for.

    For all partitions before any of them is looked at for records: what it has may be the last that a record
    was waiting for, and then a coordinator appends the next one. Of many partitions most are as they were."""
    epoch = reader.broker_epoch
    changed = look.to_wait_for()
    for each in look.listening:
        follower, wanted = each.follower, each.wanted
        if follower is not None and follower.is_at(wanted.fetch_offset, wanted.log_start_offset, epoch):
            follower.on_same_fetch(now_ms)
        else:
            changed.append(each)
    for each in changed:
        _acknowledge_one(look, each, reader, now_ms, context)


def _acknowledge_one(look: _Look, each: Readable, reader: Reader, now_ms: int, context: Context) -> None:
    wanted, partition = each.wanted, each.partition
    try:
        isr = partition.on_follower_fetch(
            reader.replica_id, wanted.fetch_offset, wanted.log_start_offset, reader.broker_epoch, now_ms
        )
    except errors.ProtocolError as error:
        _refuse(look, each, error, context)
        return
    if isr is not None:
        context.isr.on_wanted(partition, isr)
    # A follower outside of the ISR may come into it with any fetch.
    in_sync = reader.replica_id in partition.state.isr
    each.follower = partition.followers.get(reader.replica_id) if in_sync else None


def _refuse(look: _Look, each: Readable, error: errors.ProtocolError, context: Context) -> None:
    wanted = each.wanted
    key = wanted.topic, wanted.partition
    if wanted.resting is each:
        wanted.wake()
        (look.listening if each in look.listening else look.resting).remove(each)
        look.keys.append(key)
    look.settle(key, _failed(wanted, error, context), urgent=True)


def _without_records(
    partition: Partition, log: Log, wanted: Wanted, rack: str, reader: Reader, context: Context
) -> PartitionData | None:
    """The answer where there is nothing to read; None where there may be."""
    if not reader.is_follower:
        nearest = nearest_replica(
            partition, wanted.fetch_offset, rack, context.metadata.image, context.config
        )
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
    name = wanted.topic if isinstance(wanted.topic, str) else context.metadata.topic_name(wanted.topic)
    if not _may_read(name, reader, context):
        raise errors.TopicAuthorizationFailed
    return context.replicas.partition(name, wanted.partition)


def _may_read(topic: str, reader: Reader, context: Context) -> bool:
    """Asked for every partition of a session, not only for those that this request names."""
    if reader.is_follower:
        return context.allows(CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    return context.allows(READ, TOPIC, topic)


def _throttle(partition: Partition, reader: Reader, context: Context) -> Throttle | None:
    return context.throttles.leading(partition, reader.replica_id) if reader.is_follower else None


async def _read_all(
    look: _Look, reader: Reader, bytes_max: int, context: Context
) -> dict[Key, PartitionData]:
    """In the order of the request, until the answer is full."""
    found: dict[Key, PartitionData] = {}
    taken_bytes = 0
    now_ms = context.clock.monotonic_ms()
    work = context.client.work
    for key in look.keys:
        if work.spend(LOOK_UNITS):
            await context.rest()
        readable = look.readable.get(key)
        if readable is None:
            found[key] = look.settled[key]
            continue
        try:
            left = bytes_max - taken_bytes
            data = found[key] = await _read(readable, reader, left, taken_bytes == 0, now_ms, context)
        except errors.ProtocolError as error:
            found[key] = _failed(readable.wanted, error, context)
        else:
            taken_bytes += len(data.records or b"")
    return found


async def _read(
    readable: Readable, reader: Reader, left: int, first: bool, now_ms: int, context: Context
) -> PartitionData:
    """The first partition with records gives at least one batch, however large."""
    wanted, log, throttle = readable.wanted, readable.log, readable.throttle
    if not reader.is_follower:
        readable.partition.traffic.fetches += 1
    if not readable.is_as_it_was():  # others had their turn since it was looked at
        raise errors.NotLeaderOrFollower()
    data = _empty(log, wanted, reader)
    end = reader.visible_end(readable.partition, log)
    if wanted.fetch_offset >= end or not (left > 0 or first) or readable.is_held_back(now_ms):
        return data
    most = max(0, min(left, wanted.partition_max_bytes))
    at_once = most if most <= 2 * PIECE_BYTES else PIECE_BYTES
    taken = log.read(wanted.fetch_offset, max_bytes=at_once, up_to=end, at_least_one=first)
    await context.pace(READ_UNITS + len(taken.data))
    if at_once < most and len(taken.data) < most:
        taken = await _read_on(readable, taken, most, end, context)
    data.records = taken.data
    if reader.is_follower:
        readable.partition.traffic.replication_bytes_out += len(taken.data)
    else:
        readable.partition.traffic.bytes_out += len(taken.data)
    if throttle is not None:
        throttle.take(len(taken.data), now_ms)
    if reader.read_committed:
        data.aborted_transactions = [
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in log.aborted_transactions(wanted.fetch_offset, taken.next_offset)
        ]
    return data


async def _read_on(readable: Readable, first: Slice, most: int, end: int, context: Context) -> Slice:
    """What comes after the first piece, piece by piece. Each of these is read into memory that is used again, which
    takes less time than new memory for all of them."""
    pieces, offset, left = [first.data], first.next_offset, most - len(first.data)
    piece_bytes = PIECE_BYTES
    while left > 0 and offset < end and readable.is_as_it_was() and offset >= readable.log.log_start_offset:
        taken = readable.log.read(offset, max_bytes=min(left, piece_bytes), up_to=end, at_least_one=False)
        if taken.data:
            pieces.append(taken.data)
            offset, left = taken.next_offset, left - len(taken.data)
        elif piece_bytes < left:
            piece_bytes *= 2  # the next batch is larger
        else:
            break
        await context.pace(READ_UNITS + len(taken.data))
    return Slice(_whole(pieces), offset)


def _whole(pieces: list[Buffer]) -> Buffer:
    if len(pieces) == 1:
        return pieces[0]
    if sum(map(len, pieces)) <= SPLICE_BYTES_MIN:
        return b"".join(pieces)  # of several small segments
    return cast(Buffer, Pieces(pieces))


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
    context.replicas.traffic_of(wanted.topic).failed_fetches += 1
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
