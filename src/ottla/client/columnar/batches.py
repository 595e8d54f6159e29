"""A batch of Arrow rows on its way to a partition: encoded once, stamped whenever it is sent."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.deliveries import Batch
from ottla.client.values import TopicPartition
from ottla.ports import Buffer
from ottla.wire import batch as batches
from ottla.wire import columns

Failures = list[tuple[int, TopicPartition, Exception]]


class ColumnBatch(Batch):
    """`numbers` are the rows' numbers in what the user wrote, so that an error can name one."""

    __slots__ = ("_codec", "_encoded", "_failures", "_level", "_now_ms", "_transactional", "numbers")

    rows: Any

    @classmethod
    def cut(
        cls,
        partition: TopicPartition,
        rows: pa.RecordBatch,
        numbers: pa.Array,
        failures: Failures,
        *,
        created_ms: int,
        now_ms: int,
        codec: int,
        level: int | None,
        transactional: bool,
        batch_bytes: int = columns.BATCH_BYTES,
    ) -> "Iterator[ColumnBatch]":
        """The rows as batches that a broker takes."""
        for encoded in columns.encode(
            rows,
            now_ms=now_ms,
            batch_bytes=batch_bytes,
            codec=codec,
            level=level,
            transactional=transactional,
        ):
            batch = cls(partition, created_ms)
            count = encoded.end_row - encoded.first_row
            batch.rows = rows.slice(encoded.first_row, count)
            batch.numbers = numbers.slice(encoded.first_row, count)
            batch.size = len(encoded.batch)
            batch._encoded, batch._failures = encoded.batch, failures
            batch._codec, batch._level = codec, level
            batch._now_ms, batch._transactional = now_ms, transactional
            yield batch

    def encode(self, codec: int, level: int | None, *, transactional: bool) -> Buffer:
        batches.stamp_producer(
            self._encoded,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=self.sequence,
        )
        return self._encoded

    def fail(self, error: Exception) -> None:
        self._failures.append((self.numbers[0].as_py(), self.partition, error))
        super().fail(error)

    def split(self) -> tuple[Batch, Batch]:
        """Two halves with this batch's sequences: the broker's bound is smaller than we thought."""
        middle = len(self.rows) // 2
        halves: list[Batch] = []
        for first, count in ((0, middle), (middle, len(self.rows) - middle)):
            (half,) = self.cut(
                self.partition,
                self.rows.slice(first, count),
                self.numbers.slice(first, count),
                self._failures,
                created_ms=self.created_ms,
                now_ms=self._now_ms,
                codec=self._codec,
                level=self._level,
                transactional=self._transactional,
                batch_bytes=1 << 40,
            )
            half.sequence = -1 if self.sequence < 0 else (self.sequence + first) & 0x7FFFFFFF
            half._parent = self
            halves.append(half)
        self._parts = (halves[0], halves[1])
        return halves[0], halves[1]
