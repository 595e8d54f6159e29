"""`ColumnarReader`: ranges of offsets to Arrow record batches, fetched ahead while the caller works."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla import errors
from ottla.client.blocking.engine import Engine
from ottla.client.columnar.ranges import Range
from ottla.client.core.chunks import Chunk
from ottla.client.core.cluster import ZERO_ID, Cluster
from ottla.client.core.fetcher import Fetcher
from ottla.client.core.offsets import EARLIEST, list_offsets
from ottla.client.core.runtime import Task
from ottla.client.errors import ClientError, OutOfRange, TimedOut
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.wire import batch as batches
from ottla.wire import columns
from ottla.wire.batch import BatchHeader
from ottla.wire.corruption import BadRecord

__all__ = ["ColumnarReader", "DataLost", "Range", "TopicChanged"]

log = logging.getLogger(__name__)
# Large answers: a request costs the broker and us about the same whatever it carries.
DEFAULTS: dict[str, Any] = {
    "max.partition.fetch.bytes": 4 * 1024 * 1024,
    "fetch.max.bytes": 16 * 1024 * 1024,
    "isolation.level": "read_committed",
}
_FIXED: dict[str, Any] = {"auto.offset.reset": "none", "enable.auto.commit": False, "check.crcs": False}
_TAKE_S = 1.0


class DataLost(ClientError):
    """Records that were to be read are gone: expired, deleted, or cut off by an unclean election."""


class TopicChanged(DataLost):
    """The topic was deleted, or deleted and re-created: the offsets are those of the deleted one."""


class ColumnarReader:
    """`read` gives record batches in the schema of `ottla.wire.columns`. One read at a time."""

    def __init__(self, settings: Mapping[str, object] | None = None, /, **more: object) -> None:
        self.settings = ConsumerSettings.parse({**DEFAULTS, **(settings or {}), **more, **_FIXED})
        self._engine = Engine("columnar reader")
        self._cluster = Cluster(self.settings, LOOP)
        # Lives as long as its connections, so that fetch sessions outlive a read.
        self._fetcher: Fetcher | None = None
        self._task: Task[None] | None = None
        self.bytes_read = 0

    def read(
        self,
        ranges: Iterable[Range],
        *,
        headers: bool = False,
        tolerate_loss: bool = False,
        idle_timeout_ms: int = 120_000,
    ) -> Iterator[pa.RecordBatch]:
        """All records of the ranges; those of one partition in order.

        Gaps (compaction, transactions) are nothing special. Records that should be there and are gone raise
        `DataLost`, or are logged and passed over if that is to be tolerated.
        """
        by_partition = {wanted.where: wanted for wanted in ranges}
        for chunks in self.read_chunks(
            by_partition.values(), tolerate_loss=tolerate_loss, idle_timeout_ms=idle_timeout_ms
        ):
            rows = self._decode(chunks, by_partition, headers)
            if rows.num_rows:
                yield rows

    def read_chunks(
        self, ranges: Iterable[Range], *, tolerate_loss: bool = False, idle_timeout_ms: int = 120_000
    ) -> Iterator[list[Chunk]]:
        """The same as the brokers sent it: whole batches, also those that begin before a range or end behind it."""
        remaining = {wanted.where: wanted for wanted in ranges if wanted.end > wanted.start}
        remaining = self._engine.run(self._begin(remaining, tolerate_loss))
        heard = time.monotonic()
        try:
            while remaining:
                chunks = self._engine.run(self._take(remaining, tolerate_loss))
                if chunks:
                    heard = time.monotonic()
                    for chunk in chunks:
                        if chunk.partition in remaining and chunk.end()[0] >= remaining[chunk.partition].end:
                            remaining.pop(chunk.partition)
                    yield chunks
                elif (time.monotonic() - heard) * 1000 > idle_timeout_ms:
                    raise TimedOut(f"nothing came for {idle_timeout_ms} ms of {_named(remaining.values())}")
        finally:
            self._engine.run(self._end())

    def close(self) -> None:
        if not self._engine.is_closed:
            self._engine.run(self._stop())
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- on the loop -------------------------------------------------------------------------------

    async def _begin(
        self, ranges: dict[TopicPartition, Range], tolerate: bool
    ) -> dict[TopicPartition, Range]:
        fetcher = await self._prepare(ranges)
        current = self._of_current_topics(ranges, tolerate)
        fetcher.assign(current, {partition: wanted.end for partition, wanted in current.items()})
        for partition, wanted in current.items():
            fetcher.seek(partition, wanted.start)
        return current

    async def _prepare(self, ranges: Mapping[TopicPartition, Range]) -> Fetcher:
        """A fetcher that runs, and a cluster that knows the topics."""
        if self._fetcher is None:
            self._fetcher = Fetcher(self._cluster)
            self._task = LOOP.spawn(self._fetcher.run())
        for topic in {wanted.topic for wanted in ranges.values()}:
            await self._know(topic, next(r.topic_id for r in ranges.values() if r.topic == topic))
        return self._fetcher

    async def _know(self, topic: str, topic_id: bytes) -> None:
        """A fresh look when what we know does not fit."""
        known = self._cluster.image.topics.get(topic)
        if known is None or known.id != topic_id:
            await self._cluster.retrying(lambda: self._cluster.refresh([topic]), f"{topic} cannot be read")

    def _of_current_topics(
        self, ranges: Mapping[TopicPartition, Range], tolerate: bool
    ) -> dict[TopicPartition, Range]:
        """Leaves out ranges whose topic was deleted or re-created. A topic id never comes back, so records that were
        fetched under another id are noticed here, before they are handed out."""
        current: dict[TopicPartition, Range] = {}
        for partition, wanted in ranges.items():
            known = self._cluster.image.topics.get(wanted.topic)
            if known is None:
                self._lost(
                    TopicChanged(f"topic {wanted.topic} is gone; {_named([wanted])} cannot be read"),
                    tolerate,
                )
            elif ZERO_ID not in (wanted.topic_id, known.id) and known.id != wanted.topic_id:
                text = (
                    f"topic {wanted.topic} was deleted and re-created; "
                    f"{_named([wanted])} was of the deleted one"
                )
                self._lost(TopicChanged(text), tolerate)
            else:
                current[partition] = wanted
        return current

    async def _take(self, remaining: dict[TopicPartition, Range], tolerate: bool) -> list[Chunk]:
        assert self._fetcher is not None
        try:
            chunks = await self._fetcher.take(_TAKE_S)
        except OutOfRange as gone:
            await self._skip(remaining, gone, tolerate)
            return []
        current = self._of_current_topics(remaining, tolerate)
        for partition in set(remaining) - set(current):
            remaining.pop(partition)
        return [chunk for chunk in chunks if chunk.partition in remaining]

    async def _skip(self, remaining: dict[TopicPartition, Range], gone: OutOfRange, tolerate: bool) -> None:
        """The log begins behind where we are, or ends before it: both mean that records are gone."""
        assert self._fetcher is not None
        wanted = remaining[gone.partition]
        begins = (await list_offsets(self._cluster, {gone.partition: EARLIEST}))[gone.partition].offset
        text = f"{_named([wanted])}: the records from {gone.offset} on are gone, the log begins at {begins}"
        self._lost(DataLost(text), tolerate)
        if begins <= gone.offset or begins >= wanted.end:
            remaining.pop(gone.partition)
        else:
            self._fetcher.seek(gone.partition, begins)

    def _lost(self, error: DataLost, tolerate: bool) -> None:
        if not tolerate:
            raise error
        log.warning("%s; reading goes on behind them", error)

    async def _end(self) -> None:
        if self._fetcher is not None:
            self._fetcher.assign([])

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        await self._cluster.close()

    # -- decoding ----------------------------------------------------------------------------------

    def _decode(
        self, chunks: list[Chunk], ranges: dict[TopicPartition, Range], headers: bool
    ) -> pa.RecordBatch:
        parts: list[columns.Part] = []
        hidden: dict[int, set[int]] = {}
        for chunk in chunks:
            end = ranges[chunk.partition].end
            part = columns.Part(*chunk.partition, chunk.data, chunk.fetch_offset, end)
            parts.append(part)
            self.bytes_read += len(chunk.data)
            if chunk.aborted:
                hidden[id(part)] = _aborted(chunk)

        def skip(part: columns.Part, header: BatchHeader) -> bool:
            return id(part) in hidden and header.base_offset in hidden[id(part)]

        try:
            return columns.decode(parts, headers=headers, skip=skip)
        except (errors.CorruptMessage, errors.InvalidRecord, BadRecord):
            for part in parts:
                _find_corrupt(part, headers, skip)
            raise


def _aborted(chunk: Chunk) -> set[int]:
    """The first offsets of the batches whose transactions were aborted."""
    visible = {header.base_offset for header, _ in chunk.batches()}
    return {h.base_offset for _, h in batches.headers(chunk.data) if h.base_offset not in visible}


def _find_corrupt(part: columns.Part, headers: bool, skip: Any) -> None:
    """Decodes batch by batch, to tell which one it is."""
    view = memoryview(part.data)
    for position, header in batches.headers(part.data):
        batch = part._replace(data=view[position : position + header.size])
        try:
            columns.decode([batch], headers=headers, skip=lambda _, record: skip(part, record))
        except (errors.CorruptMessage, errors.InvalidRecord, BadRecord) as error:
            raise errors.CorruptMessage(
                f"{part.topic}-{part.partition}: the batch at offset {header.base_offset} "
                f"(to {header.last_offset}) is corrupt: {error}"
            ) from error


def _named(ranges: Iterable[Range]) -> str:
    return ", ".join(f"{wanted.where} [{wanted.start}, {wanted.end})" for wanted in ranges)
