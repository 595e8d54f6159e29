"""A batch of Arrow rows on its way to a partition: encoded once, stamped whenever it is sent."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.core.deliveries import Batch
from ottla.client.values import TopicPartition
from ottla.frozen import frozen
from ottla.ports import Buffer
from ottla.wire import batch as batches
from ottla.wire import columns

_NO_BOUND = 1 << 40


@dataclass(slots=True)
class Outcomes:
    """What became of the batches: errors, and where a partition ended with its last acknowledged one (-1: not told)."""

    failures: list[tuple[int, TopicPartition, Exception]] = field(default_factory=list)
    ends: dict[TopicPartition, int] = field(default_factory=dict)


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

    __slots__ = ("_encoded", "_encoding", "_numbers", "_outcomes")

    rows: Any

    def __init__(
        self,
        partition: TopicPartition,
        rows: pa.RecordBatch,
        numbers: pa.Array,
        encoding: Encoding,
        encoded: bytearray,
        outcomes: Outcomes,
    ) -> None:
        super().__init__(partition, encoding.created_ms)
        self.rows = rows
        self._numbers = numbers
        self._encoding = encoding
        self._encoded = encoded
        self._outcomes = outcomes

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

    def succeed(self, base_offset: int, log_append_time_ms: int | None) -> None:
        end = base_offset + len(self.rows) if base_offset >= 0 else -1
        self._outcomes.ends[self.partition] = end
        super().succeed(base_offset, log_append_time_ms)

    def fail(self, error: Exception) -> None:
        self._outcomes.failures.append((self._numbers[0].as_py(), self.partition, error))
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
        (half,) = cut(self.partition, rows, numbers, self._encoding, self._outcomes, batch_bytes=_NO_BOUND)
        half.sequence = -1 if self.sequence < 0 else (self.sequence + first) & 0x7FFFFFFF
        half.producer = self.producer
        half._parent = self
        return half


def cut(
    partition: TopicPartition,
    rows: pa.RecordBatch,
    numbers: pa.Array,
    encoding: Encoding,
    outcomes: Outcomes,
    batch_bytes: int = columns.BATCH_BYTES,
) -> Iterator[ColumnBatch]:
    """The rows as batches that a broker takes. Each tells `outcomes` how it ended."""
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
        yield ColumnBatch(partition, part, part_numbers, encoding, encoded.batch, outcomes)
