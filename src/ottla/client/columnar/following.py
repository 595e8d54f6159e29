"""`FollowingReader`: reads that go on. What lies behind a range is fetched, and waited for, while the caller works."""

from collections.abc import Iterable, Iterator, Mapping

from ottla.client.blocking.engine import Engine
from ottla.client.columnar.ranges import Range
from ottla.client.columnar.reader import ColumnarReader
from ottla.client.core.chunks import Chunk
from ottla.client.errors import OutOfRange
from ottla.client.values import TopicPartition

_TAKE_S = 1.0


class FollowingReader(ColumnarReader):
    """`wait` says how far there is something to read; a read that begins at those positions has it at hand.

    A read of anything else ends the following until the next `wait`. As many bytes are kept ahead as `fetch.max.bytes`.
    """

    def __init__(
        self, settings: Mapping[str, object] | None = None, /, *, engine: Engine | None = None, **more: object
    ) -> None:
        super().__init__(settings, **more)
        self._has_shared_engine = engine is not None
        if engine is not None:
            self._engine = engine
        self._followed: dict[TopicPartition, Range] = {}
        # What the last `wait` found, and from where on: handed out without a question to the loop's thread.
        self._held: list[Chunk] = []
        self._positions: dict[TopicPartition, int] = {}

    def wait(self, positions: Iterable[Range], timeout_s: float) -> dict[TopicPartition, int]:
        """Where each partition ends, once one of them has more than its position (`start`; `end` is not looked at).

        Nothing if none has within `timeout_s`, or if reading from one is an error: a read tells which.
        """
        return self._engine.run(self._wait({position.where: position for position in positions}, timeout_s))

    def read_chunks(
        self, ranges: Iterable[Range], *, tolerate_loss: bool = False, idle_timeout_ms: int = 120_000
    ) -> Iterator[list[Chunk]]:
        remaining = {
            wanted_range.where: wanted_range
            for wanted_range in ranges
            if wanted_range.end > wanted_range.start
        }
        held, self._held = self._held, []
        if held and all(
            self._positions.get(where) == wanted_range.start for where, wanted_range in remaining.items()
        ):
            current = self._of_current_topics(self._followed, tolerate_loss)
            held = [chunk for chunk in held if chunk.partition in current]
            for chunk in held:
                if chunk.partition in remaining:
                    remaining[chunk.partition] = remaining[chunk.partition]._replace(start=chunk.end()[0])
            if held:
                yield held
            remaining = {
                where: wanted_range
                for where, wanted_range in remaining.items()
                if where in current and wanted_range.end > wanted_range.start
            }
        if remaining:
            yield from super().read_chunks(
                remaining.values(), tolerate_loss=tolerate_loss, idle_timeout_ms=idle_timeout_ms
            )

    def close(self) -> None:
        if not self._has_shared_engine:
            super().close()
        elif not self._engine.is_closed:
            self._engine.run(self._stop())

    # -- on the loop -------------------------------------------------------------------------------

    async def follow(self, positions: Iterable[Range], timeout_s: float) -> dict[TopicPartition, int]:
        """As `wait`, for callers on the engine's loop: `take_held` has the records then."""
        return await self._wait({position.where: position for position in positions}, timeout_s)

    @property
    def held_bytes(self) -> int:
        return sum(len(chunk.data) for chunk in self._held)

    def take_held(self, *, tolerate_loss: bool = False) -> list[Chunk]:
        """The records that the last `follow` fetched, from its positions on."""
        current = self._of_current_topics(self._followed, tolerate_loss)
        held, self._held = self._held, []
        return [chunk for chunk in held if chunk.partition in current]

    async def _wait(
        self, wanted: Mapping[TopicPartition, Range], timeout_s: float
    ) -> dict[TopicPartition, int]:
        starts = {where: wanted_range.start for where, wanted_range in wanted.items()}
        if not self._held or self._positions != starts:
            self._held = await self._news(wanted, timeout_s)
            self._positions = starts
        if not self._held or self._fetcher is None:
            return {}
        places = self._fetcher.places
        return {where: max(start, places[where].high_watermark) for where, start in starts.items()}

    async def _news(self, wanted: Mapping[TopicPartition, Range], timeout_s: float) -> list[Chunk]:
        fetcher = self._fetcher
        if fetcher is None or not self._follows(wanted):
            fetcher = await self._prepare(wanted)
            fetcher.assign(wanted)
        self._followed = dict(wanted)
        for where, wanted_range in wanted.items():
            if fetcher.next_offset(where) != wanted_range.start:
                fetcher.seek(where, wanted_range.start)
        if not await fetcher.arrival(timeout_s):
            return []
        if fetcher.has_failed:
            self._followed = {}
            fetcher.assign([])
            return []
        return await fetcher.take(0)

    def _follows(self, wanted: Mapping[TopicPartition, Range]) -> bool:
        """Whether exactly these partitions, under these topic ids, are followed already."""
        ids = {where: followed.topic_id for where, followed in self._followed.items()}
        return ids == {where: wanted_range.topic_id for where, wanted_range in wanted.items()}

    async def _begin(
        self, ranges: dict[TopicPartition, Range], tolerate: bool
    ) -> dict[TopicPartition, Range]:
        if self._is_at(ranges):
            return self._of_current_topics(ranges, tolerate)
        self._followed = {}
        return await super()._begin(ranges, tolerate)

    def _is_at(self, ranges: Mapping[TopicPartition, Range]) -> bool:
        """Whether the reads ahead are the ones that are wanted now."""
        fetcher = self._fetcher
        return fetcher is not None and all(
            where in self._followed and fetcher.next_offset(where) == wanted_range.start
            for where, wanted_range in ranges.items()
        )

    async def _take(self, remaining: dict[TopicPartition, Range], tolerate: bool) -> list[Chunk]:
        """Also of partitions whose range is done, or that have none: what is dropped would be fetched again."""
        if not self._followed or self._fetcher is None:
            return await super()._take(remaining, tolerate)
        try:
            chunks = await self._fetcher.take(_TAKE_S)
        except OutOfRange as gone:
            if gone.partition in remaining:
                await self._skip(remaining, gone, tolerate)
            return []
        current = self._of_current_topics(self._followed, tolerate)
        for partition in set(remaining) - set(current):
            remaining.pop(partition)
        return [chunk for chunk in chunks if chunk.partition in current]

    async def _end(self) -> None:
        if not self._followed:
            await super()._end()
