"""Consumers without a group: they read everything from the start, as clients do, and check what they get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla import errors
from ottla.testing.world.client import Script, Sleep, send
from ottla.testing.world.ledger import TopicPartition
from ottla.testing.world.network import LOST
from ottla.wire import batch as batches
from ottla.wire import records as wire_records
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

if TYPE_CHECKING:
    from ottla.testing.world.world import World

FETCH_VERSION = 12  # the last that names topics
READ_COMMITTED = 1


def reader(world: World, topic: str, *, read_committed: bool) -> Script:
    """Until the world has told it to finish and it has caught up."""
    offsets = dict.fromkeys(world.partitions(topic), 0)
    while True:
        answer = yield send(_request(offsets, read_committed), FETCH_VERSION)
        if answer is not LOST:
            for response in answer.responses:
                for data in response.partitions:
                    if data.error_code == errors.NONE:
                        take(world, (response.topic, data.partition_index), data, offsets, read_committed)
        if world.finishing and all(world.is_at_the_end(place, at) for place, at in offsets.items()):
            return
        yield Sleep(world.random.uniform(0, 200))


def take(
    world: World,
    name: TopicPartition,
    data: PartitionData,
    offsets: dict[TopicPartition, int],
    read_committed: bool,
) -> None:
    """A client's part in read_committed: it is told which transactions were aborted, and skips those."""
    records = bytes(data.records or b"")
    aborted = sorted(
        (transaction.first_offset, transaction.producer_id) for transaction in data.aborted_transactions or []
    )
    aborting: set[int] = set()
    for position, header in batches.headers(records):
        while aborted and aborted[0][0] <= header.last_offset:
            aborting.add(aborted.pop(0)[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif not (read_committed and header.is_transactional and header.producer_id in aborting):
            for record in wire_records.read(records, position):
                if record.offset >= offsets[name]:
                    world.ledger.on_read(
                        name, record.offset, record.value or b"", read_committed=read_committed
                    )
        offsets[name] = max(offsets[name], header.next_offset)


def _request(offsets: dict[TopicPartition, int], read_committed: bool) -> FetchRequest:
    topics: dict[str, list[FetchPartition]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append(
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=400)
        )
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=2_000,
        isolation_level=READ_COMMITTED if read_committed else 0,
        topics=[FetchTopic(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )
