"""What a send promises: one light future for each record, settled together with its batch."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ottla.client.errors import TimedOut
from ottla.client.values import RecordMetadata, TopicPartition
from ottla.ports import Buffer
from ottla.wire import batch as batches
from ottla.wire.batch import HEADER_BYTES

log = logging.getLogger(__name__)
# As `wire.records.Record`, with the offset -1: the batch counts them upwards. A plain tuple: made for each send.
Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
ROW_OVERHEAD_BYTES = 24  # an upper bound for lengths, deltas and attributes of a usual record


def row_size(row: Row) -> int:
    """What a record takes at most, uncompressed."""
    return ROW_OVERHEAD_BYTES + len(row[2] or b"") + len(row[3] or b"") + headers_size(row[4])


def headers_size(headers: Iterable[tuple[str, bytes | None]]) -> int:
    return sum(10 + 4 * len(name) + len(value or b"") for name, value in headers)


class Batch:
    """Records on their way to one partition. Filled by callers, then owned by the sender."""

    __slots__ = (
        "_callbacks", "_parent", "_parts", "_settled", "_waiting", "attempts", "base_offset", "created_ms",
        "data", "error", "log_append_time_ms", "partition", "producer", "rows", "sequence", "size",
    )  # fmt: skip

    def __init__(self, partition: TopicPartition, created_ms: int) -> None:
        self.partition = partition
        self.created_ms = created_ms
        self.rows: list[Row] = []
        self.size = HEADER_BYTES
        self.attempts = 0
        self.sequence = -1
        self.producer = (-1, -1)  # the producer id and epoch that `data` was made with
        self.data: Buffer | None = None
        self.base_offset = -1
        self.log_append_time_ms: int | None = None
        self.error: Exception | None = None
        self._settled = False
        self._parts: tuple[Batch, ...] = ()  # what it was split into
        self._parent: Batch | None = None
        self._waiting: threading.Event | None = None
        self._callbacks: deque[tuple[int, Callable[..., Any]]] = deque()

    @property
    def settled(self) -> bool:
        return self._settled

    def add(self, row: Row, size: int, callback: Callable[..., Any] | None) -> "Delivery":
        rows = self.rows
        index = len(rows)
        rows.append(row)
        self.size += size
        if callback is not None:
            self._callbacks.append((index, callback))
        return Delivery(self, index)

    def encode(self, codec: int, level: int | None, *, transactional: bool) -> Buffer:
        """The bytes to send, under the producer and the sequence that it has now."""
        return batches.build(
            self.rows,  # type: ignore[arg-type]
            codec=codec,
            level=level,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=self.sequence,
            transactional=transactional,
        )

    def succeed(self, base_offset: int, log_append_time_ms: int | None) -> None:
        self.base_offset = base_offset
        self.log_append_time_ms = (
            log_append_time_ms if log_append_time_ms and log_append_time_ms >= 0 else None
        )
        self._settle()

    def fail(self, error: Exception) -> None:
        self.error = error
        self._settle()

    def split(self) -> tuple["Batch", "Batch"]:
        """Two halves with this batch's sequences. This one settles when both have."""
        middle = len(self.rows) // 2
        halves = Batch(self.partition, self.created_ms), Batch(self.partition, self.created_ms)
        for half, rows, first in zip(
            halves, (self.rows[:middle], self.rows[middle:]), (0, middle), strict=True
        ):
            half.rows = rows
            half.size = HEADER_BYTES + sum(map(row_size, rows))
            half.sequence = -1 if self.sequence < 0 else (self.sequence + first) & 0x7FFFFFFF
            half._parent = self
        self._parts = halves
        return halves

    def error_of(self, index: int) -> Exception | None:
        for part in self._parts:
            if index < len(part.rows):
                return part.error_of(index)
            index -= len(part.rows)
        return self.error

    def metadata(self, index: int) -> RecordMetadata:
        for part in self._parts:
            if index < len(part.rows):
                return part.metadata(index)
            index -= len(part.rows)
        stamp = self.rows[index][1] if self.log_append_time_ms is None else self.log_append_time_ms
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, stamp)

    def on_settled(self, index: int, callback: Callable[..., Any]) -> None:
        """Calls `callback(metadata, error)` once, now or later."""
        self._callbacks.append((index, callback))
        if self._settled:
            self._call()

    def wait(self, timeout: float | None) -> bool:
        if self._settled:
            return True
        if self._waiting is None:
            self._waiting = threading.Event()
        waiting = self._waiting
        return self._settled or waiting.wait(timeout)

    def _settle(self) -> None:
        if self._settled:
            return
        self._settled = True
        self.data = None
        if self._waiting is not None:
            self._waiting.set()
        self._call()
        parent = self._parent
        if parent is not None and all(part.settled for part in parent._parts):
            parent._settle()

    def _call(self) -> None:
        # `popleft` is atomic: a callback added while others run is called by exactly one thread.
        while self._callbacks:
            try:
                index, callback = self._callbacks.popleft()
            except IndexError:
                return
            try:
                error = self.error_of(index)
                callback(None if error else self.metadata(index), error)
            except Exception:
                log.exception("a delivery callback failed")


class Delivery:
    """The future of one record."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        return self._batch.settled

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is, or the error that kept it from getting there."""
        if not self._wait(timeout):
            raise TimedOut(f"the record was not acknowledged within {timeout} s")
        error = self._batch.error_of(self._index)
        if error is not None:
            raise error
        return self._batch.metadata(self._index)

    def exception(self, timeout: float | None = None) -> Exception | None:
        if not self._wait(timeout):
            raise TimedOut(f"the record was not acknowledged within {timeout} s")
        return self._batch.error_of(self._index)

    def add_done_callback(self, callback: Callable[..., Any]) -> None:
        """`callback(metadata, error)`, on the producer's own thread: it must not block."""
        self._batch.on_settled(self._index, callback)

    def _wait(self, timeout: float | None) -> bool:
        # `wait` may have missed a settling between its two looks: look again after a while at the latest.
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._batch.wait(0.5 if deadline is None else min(0.5, deadline - time.monotonic())):
            if deadline is not None and time.monotonic() >= deadline:
                return self._batch.settled
        return True
