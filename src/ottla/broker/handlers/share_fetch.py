"""ShareFetch and ShareAcknowledge 1-2: records to members of share groups, and what these make of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from ottla import errors
from ottla.broker.handlers.leaders import current_leader, endpoints_of
from ottla.broker.requests.context import Context
from ottla.broker.sharing.partitions import SharePartition
from ottla.broker.sharing.sessions import FINAL_EPOCH, INITIAL_EPOCH, Place, ShareSession
from ottla.broker.sharing.settings import ShareSettings
from ottla.broker.waits import Ticket, woken
from ottla.coordination.share.records import ShareKey
from ottla.coordination.share.window import Acquired
from ottla.ports import Buffer
from ottla.replication.partition import Partition
from ottla.security.operations import READ, TOPIC
from ottla.wire.messages import share_acknowledge as ack
from ottla.wire.messages import share_fetch as fetch

READ_UNITS = 10_000
READ_BYTES = 1024 * 1024  # of a partition at once: a member takes some hundred records
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
    group_id, member_id = request.group_id or "", request.member_id or ""
    settings = context.sharing.partitions.settings_of(group_id)
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
    await _acknowledge_all(group_id, member_id, acknowledged, outcomes, settings, context)
    if request.share_session_epoch == FINAL_EPOCH:
        await _release_all(session, context)
    elif not request.is_renew_ack:
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
    await _acknowledge_all(group_id, member_id, acknowledged, outcomes, settings, context)
    if request.share_session_epoch == FINAL_EPOCH:
        await _release_all(session, context)
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
    session, ended = context.sharing.sessions.turn(
        group_id, member_id, request.share_session_epoch, context.client, asked, forgotten
    )
    if ended:  # the member begins again: what it held comes back
        for share in context.sharing.partitions.held_by(group_id):
            await context.sharing.partitions.released(share, member_id)
    return session


# -- acknowledgements --------------------------------------------------------------------------------------


async def _acknowledge_all(
    group_id: str,
    member_id: str,
    acknowledged: dict[Place, Batches],
    outcomes: dict[Place, _Outcome],
    settings: ShareSettings,
    context: Context,
) -> None:
    for place, found in acknowledged.items():
        outcome = outcomes[place] = _Outcome(acknowledged=True)
        try:
            share = await _share(group_id, place, context)
            await share.acknowledge(member_id, found, settings)
        except errors.ProtocolError as error:
            outcome.acknowledge_error = error


async def _release_all(session: ShareSession, context: Context) -> None:
    """The session ends: what the member still holds goes to others at once."""
    for share in context.sharing.partitions.held_by(session.group_id):
        try:
            await context.sharing.partitions.released(share, session.member_id)
        except errors.ProtocolError:
            continue  # the lock's time frees it


def _batches(part: fetch.FetchPartition | ack.AcknowledgePartition) -> Batches:
    return [
        (each.first_offset, each.last_offset, each.acknowledge_types) for each in part.acknowledgement_batches
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
    while True:
        shares = await _shares(session, outcomes, context)
        if await _acquire(request, session.member_id, shares, outcomes, settings, context):
            return
        told = any(outcome.error or outcome.acknowledged for outcome in outcomes.values())
        if told or not shares or context.clock.monotonic_ms() >= deadline_ms:
            return

        if not await woken(context.clock, deadline_ms, partial(_listen, shares, settings)):
            return


def _listen(
    shares: list[tuple[Place, SharePartition]], settings: ShareSettings, wake: Callable[[], None]
) -> list[Ticket]:
    tickets: list[Ticket] = []
    for _, share in shares:
        tickets.append(share.watch(wake))
        if share.window.has_room:
            waiters = share.partition.waiters(read_committed=settings.read_committed)
            tickets.append(waiters.add(share.window.end_offset + 1, wake))
    return tickets


async def _shares(
    session: ShareSession, outcomes: dict[Place, _Outcome], context: Context
) -> list[tuple[Place, SharePartition]]:
    shares = []
    for place in session.rotated():
        try:
            shares.append((place, await _share(session.group_id, place, context)))
        except errors.ProtocolError as error:
            outcomes.setdefault(place, _Outcome()).error = error
    return shares


async def _share(group_id: str, place: Place, context: Context) -> SharePartition:
    topic_id, index = place
    name = context.metadata.topic_name(topic_id)
    if not context.allows(READ, TOPIC, name):
        raise errors.TopicAuthorizationFailed()
    partition: Partition = context.replicas.partition(name, index)
    partition.leader_log()  # raises where another broker leads
    return await context.sharing.partitions.get(ShareKey(group_id, topic_id, index), partition)


async def _acquire(
    request: fetch.ShareFetchRequest,
    member_id: str,
    shares: list[tuple[Place, SharePartition]],
    outcomes: dict[Place, _Outcome],
    settings: ShareSettings,
    context: Context,
) -> bool:
    """Whether anything was acquired."""
    config = context.config
    left = min(request.max_bytes, config.fetch_max_bytes, config.ottla_connection_responses_max_bytes)
    records_left = request.max_records if request.max_records > 0 else settings.rules.locks_max
    strict = request.share_acquire_mode == RECORD_LIMIT
    any_acquired = False
    for place, share in shares:
        if left <= 0 or records_left <= 0:
            break
        outcome = outcomes.setdefault(place, _Outcome())
        try:
            taken = await _acquire_one(share, member_id, left, records_left, settings, context, strict=strict)
        except errors.ProtocolError as error:
            outcome.error = error
            continue
        if taken is None:
            continue
        outcome.records, outcome.acquired = taken
        any_acquired = True
        left -= len(outcome.records)
        records_left -= sum(each.last_offset - each.first_offset + 1 for each in outcome.acquired)
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
        at_once = 1 if came_back else min(max_bytes - size, READ_BYTES)
        taken = log.read(offset, max_bytes=at_once, up_to=end, at_least_one=True)
        if not taken.data:
            break
        before = (window.end_offset, window.start_offset, offset)
        data, acquired = share.acquire(
            member_id, taken.data, end, settings, max_records - count, log, strict=strict
        )
        if acquired:
            pieces.append(data)
            rows += [_row(run) for run in acquired]
            count += sum(run.last_offset - run.first_offset + 1 for run in acquired)
            size, after = size + len(data), acquired[-1].last_offset
        await context.pace(READ_UNITS + len(taken.data))
        if acquired and not came_back:
            break
        if before == (window.end_offset, window.start_offset, window.next_fetch_offset):
            break
    if not rows:
        return None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces), rows


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
        data.error_code, data.error_message = _told(outcome.error)
        data.acknowledge_error_code, data.acknowledge_error_message = _told(outcome.acknowledge_error)
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
        data.error_code, data.error_message = _told(outcome.acknowledge_error)
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

    def of(self, place: Place, *told: errors.ProtocolError | None) -> tuple[int, int]:
        """The leader and its epoch; -1 where the member has asked the right broker."""
        if not any(
            isinstance(error, errors.NotLeaderOrFollower | errors.FencedLeaderEpoch) for error in told
        ):
            return -1, -1
        leader, epoch = current_leader(self._context, *place)
        self._named.add(leader)
        return leader, epoch

    def endpoints(self) -> Iterable[tuple[int, str, int, str | None]]:
        return endpoints_of(self._context, self._named - {-1})


def _told(error: errors.ProtocolError | None) -> tuple[int, str | None]:
    return (errors.NONE, None) if error is None else (error.code, error.message)
