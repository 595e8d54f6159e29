"""Arrow in and out of the plain clients: `Consumer.poll_arrow` and `Producer.send_batch`. Extra `arrow`."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.blocking.deliveries import wait
from ottla.client.columnar.batches import ColumnBatch, Encoding, Outcomes, cut
from ottla.client.columnar.partitioning import Partitioning
from ottla.client.core.accumulator import Accumulator, Admission
from ottla.client.core.chunks import Chunk
from ottla.client.core.cluster import Topic
from ottla.client.errors import BufferFull, SettingError, TimedOut
from ottla.client.settings import ProducerSettings
from ottla.client.values import RecordMetadata, TopicPartition
from ottla.wire import columns, compression


def decode(chunks: Iterable[Chunk], *, headers: bool) -> pa.RecordBatch:
    """All visible records of what was fetched, in order."""
    parts = [
        columns.Part(*chunk.partition, data, chunk.fetch_offset)
        for chunk in chunks
        for _, data in chunk.batches()  # checks the CRC, leaves out what was aborted
    ]
    return columns.decode(parts, headers=headers, check_crc=False)


class ArrowDelivery:
    """The future of an Arrow batch: done when all its rows are acknowledged."""

    __slots__ = ("_batches", "rows")

    def __init__(self, batches: list[ColumnBatch], rows: int) -> None:
        self._batches = batches
        self.rows = rows

    def done(self) -> bool:
        return all(batch.settled for batch in self._batches)

    def result(self, timeout: float | None = None) -> list[RecordMetadata]:
        """Where the first row of each of the broker's batches went; or the first error."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return [_first_row(batch) for batch in self._batches]

    def exception(self, timeout: float | None = None) -> Exception | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        for batch in self._batches:
            timeout_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not wait(batch, timeout_s):
                raise TimedOut(f"{self.rows} rows were not all acknowledged within {timeout} s")
        errors = (batch.error_of(i) for batch in self._batches for i in (0, len(batch.rows) - 1))
        return next((error for error in errors if error is not None), None)


class ArrowSender:
    """Rows with the columns value and, as wanted, key, topic, partition, headers, timestamp."""

    def __init__(
        self,
        settings: ProducerSettings,
        accumulator: Accumulator[Any],
        topic: Callable[[str], Topic],
        wake: Callable[[], None],
        *,
        transactional: bool,
    ) -> None:
        self._settings, self._accumulator, self._topic, self._wake = settings, accumulator, topic, wake
        self._transactional = transactional
        self._partitioning = Partitioning(turn=0)

    def send(self, rows: pa.RecordBatch | pa.Table, topic: str | None, admit: Admission) -> ArrowDelivery:
        sent: list[ColumnBatch] = []
        for batch in self.batches(rows, topic):
            if not self._accumulator.add(batch, self._settings.max_block_ms, admit):
                raise buffer_full(self._settings)
            sent.append(batch)
            self._wake()
        return ArrowDelivery(sent, rows.num_rows)

    def batches(self, rows: pa.RecordBatch | pa.Table, topic: str | None) -> Iterator[ColumnBatch]:
        """The rows as batches of their partitions."""
        for batch in rows.combine_chunks().to_batches() if isinstance(rows, pa.Table) else [rows]:
            for name, part in _by_topic(batch, topic):
                yield from self._batches_of(name, part)

    def _batches_of(self, name: str, rows: pa.RecordBatch) -> Iterator[ColumnBatch]:
        settings = self._settings
        encoding = Encoding(
            compression.NAMES.index(settings.compression_type),
            settings.level,
            self._transactional,
            now_ms=int(time.time() * 1000),
            created_ms=int(time.monotonic() * 1000),
        )
        outcomes = Outcomes()
        numbers = pa.array(range(rows.num_rows), pa.int64())
        for partition, part, part_numbers in self._partitioning.split(self._topic(name), rows, numbers):
            yield from cut(TopicPartition(name, partition), part, part_numbers, encoding, outcomes)


def buffer_full(settings: ProducerSettings) -> BufferFull:
    return BufferFull(
        f"the buffer stayed full for max.block.ms={settings.max_block_ms}: "
        "the brokers are slower than this, or away"
    )


def topics_of(rows: pa.RecordBatch | pa.Table, topic: str | None) -> list[str]:
    """The topics that the rows name."""
    batches = rows.combine_chunks().to_batches() if isinstance(rows, pa.Table) else [rows]
    return sorted({name for batch in batches for name, _ in _by_topic(batch, topic)})


def _first_row(batch: ColumnBatch) -> RecordMetadata:
    while batch._parts:
        batch = batch._parts[0]  # type: ignore[assignment]
    stamp = -1 if batch.log_append_time_ms is None else batch.log_append_time_ms
    return RecordMetadata(*batch.partition, batch.base_offset, stamp)


def _by_topic(rows: pa.RecordBatch, topic: str | None) -> Iterable[tuple[str, Any]]:
    if topic is not None:
        return [(topic, rows)]
    if "topic" not in rows.schema.names:
        raise SettingError("no topic: name one, or give the batch a column topic")
    names = rows.column("topic").cast(pa.string())
    if names.null_count:
        raise SettingError("the column topic has nulls; each row needs a topic")
    return [(name, rows.filter(pc.equal(names, name))) for name in pc.unique(names).to_pylist()]
