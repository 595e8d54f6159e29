"""Records of a topic for a page: from an offset, a time, the beginning, or the newest; never more than asked for."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.client.values import ConsumerRecord, TopicPartition

if TYPE_CHECKING:
    from ottla.console.workspace import Workspace

BYTES_MAX = 16 * 1024 * 1024  # of keys, values and headers on one page
PATIENCE_S = 8.0
Positions = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Slice:
    """Records in the order of their times, and from where the pages before and after go on."""

    records: list[ConsumerRecord]
    starts: Positions
    stops: Positions
    complete: bool = True  # False: the limit of bytes or of time was reached first


async def edges(
    workspace: "Workspace", partitions: list[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    admin = workspace.admin
    begins, ends = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(partitions, -2)), admin.list_offsets(dict.fromkeys(partitions, -1))
    )
    return {p: at.offset for p, at in begins.items()}, {p: at.offset for p, at in ends.items()}


async def at_time(
    workspace: "Workspace", partitions: list[TopicPartition], stamp_ms: int, ends: Positions
) -> dict[TopicPartition, int]:
    offsets = await workspace.admin.list_offsets(dict.fromkeys(partitions, stamp_ms))
    return {p: at.offset if at.offset >= 0 else ends[p] for p, at in offsets.items()}


async def forward(
    workspace: "Workspace", starts: Positions, ends: Positions, limit: int, isolation: str
) -> Slice:
    """The first `limit` records from these positions on."""
    records, complete = await _read(workspace, starts, ends, limit, isolation)
    shown = records[:limit]
    stops = dict(starts)
    for record in shown:
        stops[TopicPartition(record.topic, record.partition)] = record.offset + 1
    if len(records) <= limit and complete:  # gaps at the end are passed over, too
        stops = {place: ends.get(place, at) for place, at in stops.items()}
    return Slice(shown, starts, stops, complete)


async def backward(
    workspace: "Workspace", begins: Positions, stops: Positions, limit: int, isolation: str
) -> Slice:
    """The last `limit` records before these positions, the newest first."""
    starts = {p: max(begins[p], stop - limit) for p, stop in stops.items()}
    records, complete = await _read(workspace, starts, stops, limit, isolation)
    shown = records[-limit:]
    oldest: dict[TopicPartition, int] = {}
    for record in shown:
        oldest.setdefault(TopicPartition(record.topic, record.partition), record.offset)
    dropped = {TopicPartition(r.topic, r.partition) for r in records[: len(records) - len(shown)]}
    # A partition of which nothing is left out goes on below what was read, gaps included.
    reached = {p: oldest.get(p, stops[p]) if p in dropped else starts[p] for p in stops}
    return Slice(shown[::-1], reached, stops, complete)


async def _read(
    workspace: "Workspace", starts: Positions, stops: Positions, limit: int, isolation: str
) -> tuple[list[ConsumerRecord], bool]:
    remaining = {place: stops[place] for place, start in starts.items() if start < stops[place]}
    if not remaining:
        return [], True
    records: list[ConsumerRecord] = []
    counts = dict.fromkeys(remaining, 0)
    deadline, budget = time.monotonic() + PATIENCE_S, BYTES_MAX
    async with workspace.consumer(isolation_level=isolation) as consumer:
        await consumer.assign(list(remaining))
        for place in remaining:
            await consumer.seek(place, starts[place])
        while remaining and budget > 0 and time.monotonic() < deadline:
            polled = await consumer.poll(0.25)
            done = set()
            for record in polled:
                place = TopicPartition(record.topic, record.partition)
                if place not in remaining or counts[place] >= limit or budget <= 0:
                    continue
                if record.offset < remaining[place]:
                    records.append(record)
                    counts[place] += 1
                    budget -= _size(record)
                if record.offset + 1 >= remaining[place] or counts[place] >= limit:
                    done.add(place)
            if not polled:  # behind the last record there may be nothing but markers
                done |= {place for place in remaining if await consumer.position(place) >= remaining[place]}
            for place in done:
                remaining.pop(place, None)
            if done and remaining:
                await consumer.pause(list(done))
    records.sort(key=lambda record: (record.timestamp, record.partition, record.offset))
    return records, not remaining


def _size(record: Any) -> int:
    headers = sum(len(name) + len(data or b"") + 64 for name, data in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + 64


def positions_text(positions: Positions) -> str:
    """`0:120,1:77`, for an address."""
    return ",".join(f"{place.partition}:{at}" for place, at in sorted(positions.items()))


def parse_positions(topic: str, text: str) -> dict[TopicPartition, int]:
    positions = {}
    for part in text.split(","):
        partition, colon, offset = part.partition(":")
        if not colon or not _is_number(partition, 2**31) or not _is_number(offset, 2**63):
            raise ValueError(f"{text[:80]!r} is not of the form 0:120,1:77")
        positions[TopicPartition(topic, int(partition))] = int(offset)
    return positions


def _is_number(text: str, end: int) -> bool:
    """Below `end`. The length first: Python refuses to read a number of thousands of digits."""
    return text.isdecimal() and len(text) <= 19 and int(text) < end
