"""A batch of Arrow rows on its way to a partition: encoded once, stamped whenever it is sent."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.core.deliveries import Batch
from ottla.client.values import TopicPartition
from ottla.frozen import frozen
from ottla.ports import Buffer
from ottla.wire import batch as batches
from ottla.wire import columns

Failures = list[tuple[int, TopicPartition, Exception]]
_NO_BOUND = 1 << 40


@frozen
class Encoding:
    """How rows become batches."""

    codec: int
    level: int | None
    transactional: bool
    now_ms: int  # of rows without a timestamp
    created_ms: int


class ColumnBatch(Batch):
    """`numbers` are the rows' numbers in what the user wrote, so that an error can name one."""

    __slots__ = ("_encoded", "_encoding", "_failures", "_numbers")

    rows: Any

    def __init__(
        self,
        partition: TopicPartition,
        rows: pa.RecordBatch,
        numbers: pa.Array,
        encoding: Encoding,
        encoded: bytearray,
        failures: Failures,
    ) -> None:
        super().__init__(partition, encoding.created_ms)
        self.rows = rows
        self._numbers = numbers
        self._encoding = encoding
        self._encoded = encoded
        self._failures = failures

    @property
    def size(self) -> int:
        return len(self._encoded)

    def encode(self, codec: int, level: int | None, *, transactional: bool) -> Buffer:
        batches.stamp_producer(
            self._encoded,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=self.sequence,
        )
        return self._encoded

    def fail(self, error: Exception) -> None:
        self._failures.append((self._numbers[0].as_py(), self.partition, error))
        super().fail(error)

    def split(self) -> tuple[Batch, Batch]:
        """Two halves with this batch's sequences: the broker's bound is smaller than we thought."""
        middle = len(self.rows) // 2
        first, second = self._half(0, middle), self._half(middle, len(self.rows) - middle)
        self._parts = (first, second)
        return first, second

    def _free(self) -> None:
        self.data = None

    def _half(self, first: int, count: int) -> Batch:
        rows, numbers = self.rows.slice(first, count), self._numbers.slice(first, count)
        (half,) = cut(self.partition, rows, numbers, self._encoding, self._failures, batch_bytes=_NO_BOUND)
        half.sequence = -1 if self.sequence < 0 else (self.sequence + first) & 0x7FFFFFFF
        half._parent = self
        return half


def cut(
    partition: TopicPartition,
    rows: pa.RecordBatch,
    numbers: pa.Array,
    encoding: Encoding,
    failures: Failures,
    batch_bytes: int = columns.BATCH_BYTES,
) -> Iterator[ColumnBatch]:
    """The rows as batches that a broker takes. Those that fail tell it to `failures`."""
    for encoded in columns.encode(
        rows,
        now_ms=encoding.now_ms,
        batch_bytes=batch_bytes,
        codec=encoding.codec,
        level=encoding.level,
        transactional=encoding.transactional,
    ):
        count = encoded.end_row - encoded.first_row
        part, part_numbers = rows.slice(encoded.first_row, count), numbers.slice(encoded.first_row, count)
        yield ColumnBatch(partition, part, part_numbers, encoding, encoded.batch, failures)
