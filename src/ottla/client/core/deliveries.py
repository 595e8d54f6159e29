"""What a send promises: one light future for each record, settled together with its batch."""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.client.values import RecordMetadata, TopicPartition
from ottla.ports import Buffer
from ottla.wire import batch as batches
from ottla.wire import compression, kernel, records
from ottla.wire.batch import HEADER_BYTES

log = logging.getLogger(__name__)
ROW_OVERHEAD_BYTES = 24  # an upper bound for lengths, deltas and attributes of a usual record
ROW_OVERHEAD_BYTES_MAX = 40  # of any record
UNBOUNDED = 1 << 62


class Row(NamedTuple):
    """A record as `kernel.Rows` takes it."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def headers_size(headers: Iterable[tuple[str, bytes | None]]) -> int:
    return sum(10 + 4 * len(name) + len(value or b"") for name, value in headers)


class Batch:
    """Records on their way to one partition. Filled by callers, then owned by the sender."""

    __slots__ = (
        "_callbacks", "_parent", "_parts", "_settled", "_wakers", "attempts", "base_offset", "call_soon",
        "created_ms", "data", "error", "log_append_time_ms", "memory", "partition", "producer", "rows", "sequence",
    )  # fmt: skip

    def __init__(self, partition: TopicPartition, created_ms: int, bytes_max: int = UNBOUNDED) -> None:
        self.partition = partition
        self.created_ms = created_ms
        self.rows = kernel.Rows(bytes_max - HEADER_BYTES)
        self.memory: int | None = None  # of the buffer; None: as much as its records take
        self.attempts = 0
        self.sequence = -1
        self.producer = (-1, -1)  # the producer id and epoch that `data` was made with
        self.data: Buffer | None = None
        self.base_offset = -1
        self.call_soon: Callable[[Callable[[], object]], object] = _call  # where callbacks run
        self.log_append_time_ms: int | None = None
        self.error: Exception | None = None
        self._settled = False
        self._parts: tuple[Batch, ...] = ()  # what it was split into
        self._parent: Batch | None = None
        self._wakers: deque[Callable[[], object]] = deque()
        self._callbacks: deque[tuple[int, Callable[..., object]]] = deque()

    @property
    def settled(self) -> bool:
        return self._settled

    @property
    def size(self) -> int:
        """Uncompressed, in bytes."""
        return HEADER_BYTES + self.rows.size

    def add(self, row: Row) -> int:
        """The record's index. Only while nobody else knows this batch."""
        return self.rows.append(*row)

    def encode(self, codec: int, level: int | None, *, transactional: bool) -> Buffer:
        """The bytes to send, under the producer and the sequence that it has now."""
        rows = self.rows
        header = batches.BatchHeader(
            base_offset=0,
            size=0,
            leader_epoch=-1,
            magic=0,
            crc=0,
            attributes=codec | (batches.TRANSACTIONAL if transactional else 0),
            last_offset_delta=len(rows) - 1,
            base_timestamp=rows.timestamp(0),
            max_timestamp=rows.max_timestamp,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=self.sequence,
            count=len(rows),
        )
        return batches.assemble(header, compression.compress(codec, rows.payload(), level))

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
        whole = records.read(self.encode(compression.NONE, None, transactional=False))
        middle = len(whole) // 2
        halves = Batch(self.partition, self.created_ms), Batch(self.partition, self.created_ms)
        for half, part, first in zip(halves, (whole[:middle], whole[middle:]), (0, middle), strict=True):
            for record in part:
                half.add(Row(record.timestamp, record.key, record.value, record.headers))
            half.sequence = -1 if self.sequence < 0 else (self.sequence + first) & 0x7FFFFFFF
            half.producer = self.producer  # or the sender would give it a sequence behind all others
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
        stamp = self.rows.timestamp(index) if self.log_append_time_ms is None else self.log_append_time_ms
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, stamp)

    def on_settled(self, index: int, callback: Callable[..., object]) -> None:
        """Has `callback(metadata, error)` called once: by `call_back`, or soon if the batch is settled."""
        self._callbacks.append((index, callback))
        if self._settled:
            self.call_soon(self.call_back)

    def wake_when_settled(self, wake: Callable[[], object]) -> None:
        """Calls `wake` at once on the thread that settles the batch, or now. It must not block."""
        self._wakers.append(wake)
        if self._settled:
            self._wake()

    def just_settled(self) -> list["Batch"]:
        """This batch and those that it was the last missing part of."""
        chain: list[Batch] = []
        batch: Batch | None = self
        while batch is not None and batch.settled:
            chain.append(batch)
            batch = batch._parent
        return chain

    @property
    def has_callbacks(self) -> bool:
        return bool(self._callbacks)

    def call_back(self) -> None:
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

    def abandon(self, error: Exception) -> None:
        """Fails without telling anyone: the threads that would be told do not exist in this process."""
        self.error, self._settled = error, True

    def _settle(self) -> None:
        if self._settled:
            return
        self._settled = True
        self._free()
        self._wake()
        parent = self._parent
        if parent is not None and all(part.settled for part in parent._parts):
            parent._settle()

    def _wake(self) -> None:
        while self._wakers:
            try:
                wake = self._wakers.popleft()
            except IndexError:
                return
            wake()

    def _free(self) -> None:
        """Who keeps futures keeps no records."""
        self.data = None
        self.rows.release()


def _call(call: Callable[[], object]) -> None:
    call()
