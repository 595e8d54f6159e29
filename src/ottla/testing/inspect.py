"""What is inside a broker, as plain Python values. Messages are imported by who asks: most tests ask for none."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ottla.broker.broker import Broker
from ottla.errors import NONE, NotLeaderOrFollower, UnknownTopicOrPartition, error_for
from ottla.frozen import frozen
from ottla.storage.indexes import AbortedTransaction
from ottla.storage.log import Log
from ottla.testing.asking import ask
from ottla.wire import batch as batches
from ottla.wire import records as wire_records
from ottla.wire.batch import BatchHeader

TopicPartition = tuple[str, int]
Deserializer = Callable[[bytes], Any]

STEP_BYTES = 1 << 20
CLASSIC = "classic"


@frozen
class TopicRecord:
    """One record. `key`, `value` and header values are bytes unless a deserializer was given."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...] = ()


@frozen
class GroupMember:
    member_id: str
    client_id: str
    partitions: tuple[TopicPartition, ...]


@frozen
class Group:
    """A consumer group: who has what, how far it came, and how much is left."""

    name: str
    protocol: str  # "classic" or "consumer"
    state: str
    members: tuple[GroupMember, ...]
    offsets: dict[TopicPartition, int]
    lags: dict[TopicPartition, int]

    @property
    def lag(self) -> int:
        """Records that no member has committed yet, over all partitions it knows of."""
        return sum(self.lags.values())

    @property
    def assigned(self) -> dict[TopicPartition, str]:
        return {partition: member.member_id for member in self.members for partition in member.partitions}


# -- records -------------------------------------------------------------------------------------------


def topic_records(
    broker: Broker,
    topic: str,
    partition: int | None,
    *,
    committed: bool,
    key: Deserializer | None,
    value: Deserializer | None,
) -> list[TopicRecord]:
    """In the order of partitions, then offsets. `committed`: what a read_committed consumer sees."""
    known = broker.image.topics.get(topic)
    if known is None:
        return []
    if partition is not None and partition >= len(known.partitions):
        raise UnknownTopicOrPartition(f"topic {topic} has no partition {partition}")
    numbers = range(len(known.partitions)) if partition is None else [partition]
    records: list[TopicRecord] = []
    for number in numbers:
        log = broker.replicas.partition(topic, number).leader_log()
        for batch in _visible(log, committed=committed):
            records.append(
                TopicRecord(
                    topic,
                    number,
                    batch.offset,
                    batch.timestamp,
                    batch.key if batch.key is None or key is None else key(batch.key),
                    batch.value if batch.value is None or value is None else value(batch.value),
                    batch.headers,
                )
            )
    return records


def _visible(log: Log, *, committed: bool) -> Iterator[wire_records.Record]:
    end = log.last_stable_offset if committed else log.high_watermark
    offset = log.log_start_offset
    while offset < end:
        taken = log.read(offset, max_bytes=STEP_BYTES, up_to=end)
        aborted = log.aborted_transactions(offset, taken.next_offset) if committed else ()
        for position, header in batches.headers(taken.data):
            if not header.is_control and not _is_aborted(header, aborted):
                for record in wire_records.read(taken.data, position):
                    if record.offset >= log.log_start_offset:
                        yield record
        if taken.next_offset <= offset:
            return
        offset = taken.next_offset


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    return header.is_transactional and any(
        span.producer_id == header.producer_id and span.first_offset <= header.base_offset <= span.last_offset
        for span in aborted
    )


# -- groups --------------------------------------------------------------------------------------------


async def all_groups(broker: Broker) -> dict[str, Group]:
    from ottla.wire.messages.list_groups import ListGroupsRequest

    listed = await ask(broker, ListGroupsRequest())
    return {
        group.group_id: await _group(broker, group.group_id, group.group_type.lower())
        for group in listed.groups
    }


async def _group(broker: Broker, name: str, protocol: str) -> Group:
    if protocol == CLASSIC:
        state, members = await _classic_members(broker, name)
    else:
        state, members = await _consumer_members(broker, name)
    offsets = await _offsets(broker, name)
    assigned = {partition for member in members for partition in member.partitions}
    lags = {
        place: lag
        for place in sorted(assigned | set(offsets))
        if (lag := lag_here(broker, place, offsets.get(place))) is not None
    }
    return Group(name, protocol, state, members, offsets, lags)


async def _classic_members(broker: Broker, name: str) -> tuple[str, tuple[GroupMember, ...]]:
    from ottla.coordination.groups.subscription import parse_assignment
    from ottla.wire.messages.describe_groups import DescribeGroupsRequest

    (group,) = (await ask(broker, DescribeGroupsRequest(groups=[name]))).groups
    members = []
    for member in group.members:
        has = parse_assignment(member.member_assignment) if member.member_assignment else {}
        partitions = tuple(sorted((topic, index) for topic, indexes in has.items() for index in indexes))
        members.append(GroupMember(member.member_id, member.client_id, partitions))
    return group.group_state, tuple(members)


async def _consumer_members(broker: Broker, name: str) -> tuple[str, tuple[GroupMember, ...]]:
    from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    (group,) = (await ask(broker, ConsumerGroupDescribeRequest(group_ids=[name]))).groups
    members = []
    for member in group.members:
        partitions = tuple(
            sorted(
                (has.topic_name, index)
                for has in member.assignment.topic_partitions
                for index in has.partitions
            )
        )
        members.append(GroupMember(member.member_id, member.client_id, partitions))
    return group.group_state, tuple(members)


async def _offsets(broker: Broker, name: str) -> dict[TopicPartition, int]:
    from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

    wanted = OffsetFetchRequestGroup(group_id=name)
    wanted.topics = None  # all of them; as an argument it would mean the default, which is none
    (group,) = (await ask(broker, OffsetFetchRequest(groups=[wanted]), version=9)).groups
    if group.error_code != NONE:
        raise error_for(group.error_code)
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in group.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0
    }


async def all_transactions(broker: Broker) -> dict[str, str]:
    from ottla.wire.messages.list_transactions import ListTransactionsRequest

    response = await ask(broker, ListTransactionsRequest())
    return {
        transaction_state.transactional_id: transaction_state.transaction_state
        for transaction_state in response.transaction_states
    }


def lag_here(broker: Broker, place: TopicPartition, committed: int | None) -> int | None:
    """From the committed offset, or from the start of the log, to what a consumer may read. None where this
    broker does not lead the partition."""
    try:
        log = broker.replicas.partition(*place).leader_log()
    except (UnknownTopicOrPartition, NotLeaderOrFollower):
        return None
    return max(0, log.last_stable_offset - max(log.log_start_offset, committed or 0))
