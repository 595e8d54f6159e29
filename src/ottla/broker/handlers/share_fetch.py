"""ShareFetch and ShareAcknowledge 1-2: records to members of share groups, and what these make of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla import errors
from ottla.broker.handlers.fetched_bytes import answer_bytes_max
from ottla.broker.handlers.leaders import current_leader, endpoints_of
from ottla.broker.requests.context import Context
from ottla.broker.sharing.delays import ON_THE_LOOP, Dues, TooLarge, dues_in
from ottla.broker.sharing.parked import Marks, Parked
from ottla.broker.sharing.partitions import SharePartition
from ottla.broker.sharing.sessions import FINAL_EPOCH, INITIAL_EPOCH, Place, ShareSession
from ottla.broker.sharing.settings import ShareSettings
from ottla.coordination.share.outcomes import Acquired
from ottla.coordination.share.records import ShareKey
from ottla.ports import Buffer
from ottla.replication.partition import Partition
from ottla.security.operations import READ, TOPIC
from ottla.wire.batch import headers as headers_of
from ottla.wire.messages import share_acknowledge as ack
from ottla.wire.messages import share_fetch as fetch

READ_UNITS = 10_000
ACKNOWLEDGE_UNITS = 20_000  # of work, what a batch of acknowledgements takes
PLACE_UNITS = 5_000  # of work, what it takes to look at a partition
LOAD_UNITS = 100_000  # and what it takes to load one: its state may have to be begun and written
PLACES_SPARE = 1_000  # in a session, beyond the partitions that there are
READ_BYTES = 1024 * 1024  # of a partition at once: a member takes some hundred records
READ_BYTES_MIN = 64 * 1024
RECORD_LIMIT = 1  # share_acquire_mode: never more than max_records; 0: whole batches
Batches = list[tuple[int, int, list[int]]]


@dataclass(slots=True)
class _Outcome:
    """What a partition's part of the answer says."""

    error: errors.ProtocolError | None = None
    acknowledge_error: errors.ProtocolError | None = None
    records: Buffer = b""
    acquired: list[fetch.AcquiredRecords] = field(default_factory=list)
    acknowledged: bool = False


async def share_fetch(request: fetch.ShareFetchRequest, context: Context) -> fetch.ShareFetchResponse:
    settings = context.sharing.partitions.settings_of(request.group_id or "")
    asked = {
        (topic.topic_id, part.partition_index): part for topic in request.topics for part in topic.partitions
    }
    forgotten = [
        (topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions
    ]
    acknowledged = {place: _batches(part) for place, part in asked.items() if part.acknowledgement_batches}
    try:
        _check(request, bool(acknowledged))
        session = await _turn(request, asked, forgotten, context)
    except errors.ProtocolError as error:
        return fetch.ShareFetchResponse(error_code=error.code, error_message=error.message)
    outcomes: dict[Place, _Outcome] = {}
    is_last = request.share_session_epoch == FINAL_EPOCH
    await _acknowledge_all(session, acknowledged, outcomes, settings, context, is_last=is_last)
    if not is_last and not request.is_renew_ack:
        await _deliver(request, session, outcomes, settings, context)
    return _fetch_response(outcomes, asked, settings, context)


async def share_acknowledge(
    request: ack.ShareAcknowledgeRequest, context: Context
) -> ack.ShareAcknowledgeResponse:
    group_id, member_id = request.group_id or "", request.member_id or ""
    settings = context.sharing.partitions.settings_of(group_id)
    acknowledged = {
        (topic.topic_id, part.partition_index): _batches(part)
        for topic in request.topics
        for part in topic.partitions
    }
    try:
        if request.share_session_epoch == INITIAL_EPOCH:
            raise errors.InvalidShareSessionEpoch()
        session, _ = context.sharing.sessions.turn(
            group_id, member_id, request.share_session_epoch, context.client, (), ()
        )
    except errors.ProtocolError as error:
        return ack.ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    outcomes: dict[Place, _Outcome] = {}
    is_last = request.share_session_epoch == FINAL_EPOCH
    await _acknowledge_all(session, acknowledged, outcomes, settings, context, is_last=is_last)
    return _acknowledge_response(outcomes, settings, context)


def _check(request: fetch.ShareFetchRequest, acknowledges: bool) -> None:
    if not request.group_id or not request.member_id:
        raise errors.InvalidRequest("a share fetch names its group and its member")
    if request.share_session_epoch == INITIAL_EPOCH and acknowledges:
        raise errors.InvalidRequest("the first fetch of a session acknowledges nothing")


async def _turn(
    request: fetch.ShareFetchRequest,
    asked: dict[Place, fetch.FetchPartition],
    forgotten: list[Place],
    context: Context,
) -> ShareSession:
    group_id, member_id = request.group_id or "", request.member_id or ""
    most = context.metadata.image.partition_count + 100
    if len(asked) > most:
        raise errors.InvalidRequest(f"{len(asked)} partitions in one request; there are not so many")
    sharing = context.sharing
    is_first = not sharing.sessions.has_group(group_id)
    session, ended = sharing.sessions.turn(
        group_id,
        member_id,
        request.share_session_epoch,
        context.client,
        asked,
        forgotten,
        partitions_max=context.metadata.image.partition_count + PLACES_SPARE,
    )
    if is_first:
        sharing.partitions.forget_settled(group_id)
    if ended:  # the member begins again: what it held comes back
        await sharing.partitions.release(group_id, member_id)
    return session


# -- acknowledgements --------------------------------------------------------------------------------------


async def _acknowledge_all(
    session: ShareSession,
    acknowledged: dict[Place, Batches],
    outcomes: dict[Place, _Outcome],
    settings: ShareSettings,
    context: Context,
    *,
    is_last: bool,
) -> None:
    """With the last request of a session what the member still holds goes to others at once."""
    try:
        for place, acknowledgements in acknowledged.items():
            outcome = outcomes[place] = _Outcome(acknowledged=True)
            try:
                share = await _share(session.group_id, place, context)
                await share.acknowledge(session.member_id, acknowledgements, settings)
                await context.pace(ACKNOWLEDGE_UNITS * len(acknowledgements))
            except errors.ProtocolError as error:
                outcome.acknowledge_error = error
    finally:  # also when the connection is gone, which ends only sessions that have not ended yet
        ended = context.sharing.end(session) if is_last else None
    if ended is not None:
        await ended


def _batches(part: fetch.FetchPartition | ack.AcknowledgePartition) -> Batches:
    return [
        (batch.first_offset, batch.last_offset, batch.acknowledge_types)
        for batch in part.acknowledgement_batches
    ]


# -- delivery ----------------------------------------------------------------------------------------------


async def _deliver(
    request: fetch.ShareFetchRequest,
    session: ShareSession,
    outcomes: dict[Place, _Outcome],
    settings: ShareSettings,
    context: Context,
) -> None:
    deadline_ms = context.clock.monotonic_ms() + context.wait_ms(request.max_wait_ms)
    marks: Marks = {}
    shares = await _shares(session.rotated(), session, outcomes, context)
    if await _acquire(request, session.member_id, shares, outcomes, marks, settings, context):
        return
    if _is_told(outcomes) or not shares or context.clock.monotonic_ms() >= deadline_ms:
        return
    with Parked(settings, context.clock) as parked:
        for place, share in shares:
            parked.listen(place, share, marks.get(place))
            await context.pace(PLACE_UNITS)
        while news := await parked.news(deadline_ms):
            shares = await _shares(news, session, outcomes, context)
            if await _acquire(request, session.member_id, shares, outcomes, marks, settings, context):
                return
            if _is_told(outcomes):
                return
            for place, share in shares:
                parked.listen(place, share, marks.get(place))


def _is_told(outcomes: dict[Place, _Outcome]) -> bool:
    return any(outcome.error or outcome.acknowledged for outcome in outcomes.values())


async def _shares(
    places: list[Place], session: ShareSession, outcomes: dict[Place, _Outcome], context: Context
) -> list[tuple[Place, SharePartition]]:
    shares = []
    for place in places:
        try:
            shares.append((place, await _share(session.group_id, place, context)))
        except errors.ProtocolError as error:
            outcomes.setdefault(place, _Outcome()).error = error
        await context.pace(PLACE_UNITS)
    return shares


async def _share(group_id: str, place: Place, context: Context) -> SharePartition:
    topic_id, index = place
    name = context.metadata.topic_name(topic_id)
    if not context.allows(READ, TOPIC, name):
        raise errors.TopicAuthorizationFailed()
    partition: Partition = context.replicas.partition(name, index)
    partition.leader_log()  # raises where another broker leads
    key, shares = ShareKey(group_id, topic_id, index), context.sharing.partitions
    if not shares.is_loaded(key):
        await context.pace(LOAD_UNITS)
    return await shares.get(key, partition)


async def _acquire(
    request: fetch.ShareFetchRequest,
    member_id: str,
    shares: list[tuple[Place, SharePartition]],
    outcomes: dict[Place, _Outcome],
    marks: Marks,
    settings: ShareSettings,
    context: Context,
) -> bool:
    """Whether anything was acquired. `marks` says of the others how they were."""
    left = max(answer_bytes_max(request.max_bytes, context), 1)  # one batch is always delivered
    records_left = request.max_records if request.max_records > 0 else settings.rules.locks_max
    strict = request.share_acquire_mode == RECORD_LIMIT
    any_acquired = False
    for place, share in shares:
        if left <= 0 or records_left <= 0:
            break
        outcome = outcomes.setdefault(place, _Outcome())
        try:
            taken = await _acquire_one(share, member_id, left, records_left, settings, context, strict=strict)
            if taken is None:
                marks[place] = share.mark(settings)
        except errors.ProtocolError as error:
            outcome.error = error
            continue
        if taken is None:
            await context.pace(PLACE_UNITS)
            continue
        outcome.records, outcome.acquired = taken
        any_acquired = True
        left -= len(outcome.records)
        records_left -= sum(range_.last_offset - range_.first_offset + 1 for range_ in outcome.acquired)
    return any_acquired


async def _acquire_one(
    share: SharePartition,
    member_id: str,
    max_bytes: int,
    max_records: int,
    settings: ShareSettings,
    context: Context,
    *,
    strict: bool,
) -> tuple[Buffer, list[fetch.AcquiredRecords]] | None:
    """Batch by batch what came back; then, in one read, what was never delivered."""
    pieces: list[Buffer] = []
    rows: list[fetch.AcquiredRecords] = []
    count = size = 0
    window, after = share.window, -1
    # Batches that hold nothing for this reader now are passed over: markers, what was aborted or is not yet due.
    while not share.is_closed and count < max_records and size < max_bytes:
        log = share.partition.leader_log()
        window.on_log_start(log.log_start_offset)
        end = share.partition.visible_end(log, read_committed=settings.read_committed)
        offset = window.next_fetch_offset
        if not after < offset < end or not window.is_worth_fetching(end):
            break
        came_back = offset < window.end_offset
        at_once = 1 if came_back else min(max_bytes - size, _bytes_of(max_records - count, share))
        taken = log.read(offset, max_bytes=at_once, up_to=end, at_least_one=True)
        read = _enough(taken.data, offset, max_records - count)
        if not read:
            break
        before = (window.end_offset, window.start_offset, offset)
        dues = await _dues(read, window.seen_offset, context)
        if share.is_closed:
            break
        data, acquired = share.acquire(
            member_id, read, offset, end, settings, max_records - count, log, dues, strict=strict
        )
        if acquired:
            pieces.append(data)
            rows += [_row(run) for run in acquired]
            count += sum(run.last_offset - run.first_offset + 1 for run in acquired)
            size, after = size + len(data), acquired[-1].last_offset
        await context.pace(READ_UNITS + len(read) + dues.bytes_)
        if acquired and not came_back:
            break
        if before == (window.end_offset, window.start_offset, window.next_fetch_offset):
            break
    if not rows:
        return None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces), rows


def _bytes_of(records: int, share: SharePartition) -> int:
    """To read for so many records, by those before them."""
    if not share.record_bytes:
        return READ_BYTES
    return max(READ_BYTES_MIN, min(2 * records * share.record_bytes, READ_BYTES))


def _enough(data: Buffer, offset: int, records: int) -> Buffer:
    """The batches up to the one that has the last of so many records: no more is taken, or has to be looked into."""
    for position, header in headers_of(data):
        if not header.is_control:
            records -= header.last_offset - max(header.base_offset, offset) + 1
        if records <= 0:
            return memoryview(data)[: position + header.size]
    return data


async def _dues(data: Buffer, from_offset: int, context: Context) -> Dues:
    """In a thread if a batch is too large for the loop."""
    now_ms = context.clock.now_ms()
    try:
        return dues_in(data, from_offset, now_ms, ON_THE_LOOP)
    except TooLarge:
        return await context.heavy_work.run(lambda: dues_in(data, from_offset, now_ms))


def _row(run: Acquired) -> fetch.AcquiredRecords:
    return fetch.AcquiredRecords(
        first_offset=run.first_offset, last_offset=run.last_offset, delivery_count=run.delivery_count
    )


# -- answers -----------------------------------------------------------------------------------------------


def _fetch_response(
    outcomes: dict[Place, _Outcome],
    asked: dict[Place, fetch.FetchPartition],
    settings: ShareSettings,
    context: Context,
) -> fetch.ShareFetchResponse:
    topics: dict[bytes, fetch.ShareFetchableTopicResponse] = {}
    leaders = _Leaders(context)
    for place, outcome in outcomes.items():
        if not (outcome.error or outcome.acquired or outcome.acknowledged or place in asked):
            continue
        topic_id, index = place
        leader, epoch = leaders.of(place, outcome.error, outcome.acknowledge_error)
        data = fetch.PartitionData(
            partition_index=index,
            records=outcome.records,
            acquired_records=outcome.acquired,
            current_leader=fetch.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
        )
        data.error_code, data.error_message = _code_and_message(outcome.error)
        data.acknowledge_error_code, data.acknowledge_error_message = _code_and_message(
            outcome.acknowledge_error
        )
        topic = topics.setdefault(topic_id, fetch.ShareFetchableTopicResponse(topic_id=topic_id))
        topic.partitions.append(data)
    return fetch.ShareFetchResponse(
        acquisition_lock_timeout_ms=settings.lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=[
            fetch.NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in leaders.endpoints()
        ],
    )


def _acknowledge_response(
    outcomes: dict[Place, _Outcome], settings: ShareSettings, context: Context
) -> ack.ShareAcknowledgeResponse:
    topics: dict[bytes, ack.ShareAcknowledgeTopicResponse] = {}
    leaders = _Leaders(context)
    for place, outcome in outcomes.items():
        topic_id, index = place
        leader, epoch = leaders.of(place, outcome.acknowledge_error)
        data = ack.PartitionData(
            partition_index=index,
            current_leader=ack.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
        )
        data.error_code, data.error_message = _code_and_message(outcome.acknowledge_error)
        topic = topics.setdefault(topic_id, ack.ShareAcknowledgeTopicResponse(topic_id=topic_id))
        topic.partitions.append(data)
    return ack.ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=settings.lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=[
            ack.NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in leaders.endpoints()
        ],
    )


class _Leaders:
    """Who leads the partitions that were asked of the wrong broker: an answer tells, with their addresses."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._named: set[int] = set()

    def of(self, place: Place, *refusals: errors.ProtocolError | None) -> tuple[int, int]:
        """The leader and its epoch; -1 where the member has asked the right broker."""
        if not any(
            isinstance(error, errors.NotLeaderOrFollower | errors.FencedLeaderEpoch) for error in refusals
        ):
            return -1, -1
        leader, epoch = current_leader(self._context, *place)
        self._named.add(leader)
        return leader, epoch

    def endpoints(self) -> Iterable[tuple[int, str, int, str | None]]:
        return endpoints_of(self._context, self._named - {-1})


def _code_and_message(error: errors.ProtocolError | None) -> tuple[int, str | None]:
    return (errors.NONE, None) if error is None else (error.code, error.message)
