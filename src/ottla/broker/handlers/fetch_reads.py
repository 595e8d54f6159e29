"""The records of one partition for a Fetch: read from the log, in pieces if there are many."""

from typing import cast

from ottla import errors
from ottla.broker.fetching.readers import Reader
from ottla.broker.fetching.wanted import Readable, Wanted
from ottla.broker.requests.context import Context
from ottla.broker.stepping import MUCH_BYTES
from ottla.ports import Buffer
from ottla.storage.log import Log
from ottla.storage.reading import Slice
from ottla.wire.gather import SPLICE_BYTES_MIN, Pieces
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)

READ_UNITS = 10_000  # of work: about as many nanoseconds for a partition
PIECE_BYTES = 1000 << 10  # read of one partition before others have their turn; less than a buffer for reads
# Shared by all answers: replaced where there is something to say, never changed.
NO_EPOCH, NO_LEADER, NO_SNAPSHOT = EpochEndOffset(), LeaderIdAndEpoch(), SnapshotId()


async def read_partition(
    readable: Readable, reader: Reader, left: int, first: bool, now_ms: int, context: Context
) -> PartitionData:
    """The first partition with records gives at least one batch, however large."""
    wanted, log, throttle = readable.wanted, readable.log, readable.throttle
    if not reader.is_follower:
        readable.partition.traffic.fetches += 1
    if context.turns.is_full and _is_much(readable, reader, min(left, wanted.partition_max_bytes)):
        await context.rest()
    if not readable.is_as_it_was():  # others had their turn since it was looked at
        raise errors.NotLeaderOrFollower()
    data = empty_data(log, wanted, reader)
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


def _is_much(readable: Readable, reader: Reader, most: int) -> bool:
    """Whether the read would take up a large part of a turn."""
    log, offset = readable.log, readable.wanted.fetch_offset
    end = reader.visible_end(readable.partition, log)
    if most < MUCH_BYTES or not log.log_start_offset <= offset < end:
        return False
    return (log.bytes_from(log.place_of(offset), end) or 0) >= MUCH_BYTES


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


def empty_data(log: Log, wanted: Wanted, reader: Reader) -> PartitionData:
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
