"""Fetch. v7 brings sessions, v9 leader epochs, v11 racks, v12 divergence, v13 topic ids, v15 replica epochs.

Followers fetch as consumers do, but up to the end of the log; what they ask for tells what they have.
"""

from dataclasses import dataclass

from ottla import errors
from ottla.broker.fetching.nearest import nearest_replica
from ottla.broker.fetching.parked import Parked
from ottla.broker.fetching.readers import Reader, reader_of
from ottla.broker.fetching.sessions import Turn
from ottla.broker.fetching.wanted import Key, Readable, Wanted, wanted_of
from ottla.broker.handlers.fetch_reads import NO_EPOCH, NO_LEADER, NO_SNAPSHOT, empty_data, read_partition
from ottla.broker.handlers.fetched_bytes import answer_bytes_max
from ottla.broker.handlers.leaders import current_leader, endpoints_of
from ottla.broker.requests.context import Context
from ottla.broker.requests.refusals import protocol_error
from ottla.replication.partition import Partition
from ottla.replication.throttle import Throttle
from ottla.security.operations import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME, READ, TOPIC
from ottla.storage.log import Log
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

TOPIC_IDS_FROM = 13
STRANGERS_MAX = 10_000  # partitions that do not exist: more than a client with old metadata asks for
SESSION_STRANGERS_MAX = 100  # of those, in a fetch session
# Of work: about as many nanoseconds for a partition.
QUIET_UNITS, ASK_UNITS, LOOK_UNITS = 300, 1_000, 5_000
UNKNOWN = (errors.UnknownTopicOrPartition, errors.UnknownTopicId)


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
    bytes_max = answer_bytes_max(request.max_bytes, context)
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
    news = await _news(turn, data, context)
    turn.rest(
        readable
        for key, readable in look.readable.items()
        if not data[key].records and not data[key].error_code
    )
    return _response(turn, news, by_id, context)


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


async def _news(turn: Turn, data: dict[Key, PartitionData], context: Context) -> dict[Key, PartitionData]:
    """What goes into the response."""
    news = {}
    work = context.client.work
    for key, partition_data in data.items():
        if turn.tells(key, partition_data):
            news[key] = partition_data
        if work.spend(ASK_UNITS):
            await context.rest()
    return news


async def _look(turn: Turn, rack: str, reader: Reader, context: Context) -> _Look:
    look = _Look({}, {}, [], [], [])
    follows = reader.is_follower
    # With a rack, the nearest replica may be another one each time. What rests is not asked for its rights again: a
    # consumer gets nothing of it, but a follower acknowledges records, and the session may be that of a consumer.
    may_rest = turn.incremental and not rack and (not follows or _may_follow(context))
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
    """A follower's fetch offset acknowledges every record before it.

    All partitions are acknowledged before any is read: an acknowledgement may commit a record, and then a coordinator
    may append the next one. Of many partitions most ask for the same offset as before: those cost one line."""
    epoch = reader.broker_epoch
    changed = look.to_wait_for()
    for readable in look.listening:
        follower, wanted = readable.follower, readable.wanted
        if follower is not None and follower.is_at(wanted.fetch_offset, wanted.log_start_offset, epoch):
            follower.on_same_fetch(now_ms)
        else:
            changed.append(readable)
    for readable in changed:
        _acknowledge_one(look, readable, reader, now_ms, context)


def _acknowledge_one(look: _Look, readable: Readable, reader: Reader, now_ms: int, context: Context) -> None:
    wanted, partition = readable.wanted, readable.partition
    try:
        isr = partition.on_follower_fetch(
            reader.replica_id, wanted.fetch_offset, wanted.log_start_offset, reader.broker_epoch, now_ms
        )
    except errors.ProtocolError as error:
        _refuse(look, readable, error, context)
        return
    if isr is not None:
        context.isr.on_wanted(partition, isr)
    # A follower outside of the ISR may come into it with any fetch.
    in_sync = reader.replica_id in partition.state.isr
    readable.follower = partition.followers.get(reader.replica_id) if in_sync else None


def _refuse(look: _Look, readable: Readable, error: errors.ProtocolError, context: Context) -> None:
    wanted = readable.wanted
    key = wanted.topic, wanted.partition
    if wanted.resting is readable:
        wanted.wake()
        (look.listening if readable in look.listening else look.resting).remove(readable)
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
            data = empty_data(log, wanted, reader)
            data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            return data
    if not log.log_start_offset <= wanted.fetch_offset <= log.end_offset:
        if not reader.is_follower:
            raise errors.OffsetOutOfRange()
        data = empty_data(log, wanted, reader)
        data.error_code = errors.OffsetOutOfRange.code  # with where the log starts: it goes on there
        return data
    return None


def _elsewhere(wanted: Wanted, log: Log, replica: int) -> PartitionData:
    """Sends the consumer to a replica in its own rack that has the offset."""
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
    return _may_follow(context) if reader.is_follower else context.allows(READ, TOPIC, topic)


def _may_follow(context: Context) -> bool:
    return context.allows(CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)


def _throttle(partition: Partition, reader: Reader, context: Context) -> Throttle | None:
    return context.throttles.leading(partition, reader.replica_id) if reader.is_follower else None


async def _read_all(
    look: _Look, reader: Reader, bytes_max: int, context: Context
) -> dict[Key, PartitionData]:
    """In the order of the request, until the answer is full."""
    read: dict[Key, PartitionData] = {}
    taken_bytes = 0
    now_ms = context.clock.monotonic_ms()
    work = context.client.work
    for key in look.keys:
        if work.spend(LOOK_UNITS):
            await context.rest()
        readable = look.readable.get(key)
        if readable is None:
            read[key] = look.settled[key]
            continue
        try:
            left = bytes_max - taken_bytes
            data = read[key] = await read_partition(readable, reader, left, taken_bytes == 0, now_ms, context)
        except Exception as failure:  # also what nobody expects of a damaged file: the others are answered
            error = protocol_error(failure, f"reading {readable.partition.name}")
            read[key] = _failed(readable.wanted, error, context)
        else:
            taken_bytes += len(data.records or b"")
    return read


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


def _response(turn: Turn, news: dict[Key, PartitionData], by_id: bool, context: Context) -> FetchResponse:
    topics: dict[str | bytes, FetchableTopicResponse] = {}
    for (topic, _), data in news.items():
        entry = topics.get(topic)
        if entry is None:
            entry = topics[topic] = FetchableTopicResponse()
            if isinstance(topic, bytes):
                entry.topic_id = topic
            else:
                entry.topic = topic
        entry.partitions.append(data)
    leaders = {data.current_leader.leader_id for data in news.values()} - {-1}
    endpoints = [
        NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in endpoints_of(context, leaders)
    ]
    return FetchResponse(
        session_id=turn.session_id, responses=list(topics.values()), node_endpoints=endpoints
    )
