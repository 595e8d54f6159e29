"""Turns chunks into records, in order, and knows how far the user has got. No I/O."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ottla.client.core.chunks import Chunk
from ottla.client.errors import ClientError
from ottla.client.serializers import Deserializer
from ottla.client.values import ConsumerRecord, OffsetAndMetadata, TopicPartition
from ottla.errors import CorruptMessage, OttlaError
from ottla.wire import kernel
from ottla.wire.batch import BatchHeader
from ottla.wire.corruption import BadRecord


class Unreadable(ClientError):
    """A record or a batch that cannot be handed out. Nothing behind it is, until the user seeks past it."""

    def __init__(self, partition: TopicPartition, offset: int, cause: Exception) -> None:
        text = cause.message if isinstance(cause, OttlaError) and hasattr(cause, "message") else str(cause)
        where = "" if str(partition) in text else f"{partition}, offset {offset}: "
        super().__init__(f"{where}{text}")
        self.partition = partition
        self.offset = offset


class Run:
    """The records of one chunk, those handed out before `at`; `end` is behind the chunk, markers and all."""

    __slots__ = ("at", "end", "partition", "records")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.records: list[ConsumerRecord] = []
        self.at = 0
        self.end: OffsetAndMetadata | None = None  # None: the rest cannot be read


class Reader:
    """What arrived and was not handed out yet, and the positions behind what was."""

    def __init__(self, key: Deserializer | None = None, value: Deserializer | None = None) -> None:
        self._key, self._value = key, value
        self._runs: deque[Run] = deque()
        self._chunks: deque[Chunk] = deque()
        self._problem: Unreadable | None = None
        self.positions: dict[TopicPartition, OffsetAndMetadata] = {}

    def add(self, chunks: Iterable[Chunk]) -> None:
        self._chunks.extend(chunks)

    @property
    def has_records(self) -> bool:
        return any(run.at < len(run.records) for run in self._runs)

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Up to `limit` records. Raises `Unreadable` once everything before it was handed out."""
        taken: list[ConsumerRecord] = []
        while len(taken) < limit:
            if not self._runs:
                if self._problem is not None or not self._chunks:
                    break
                self._open(self._chunks.popleft())
            self._take_from(self._runs[0], limit, taken)
        if not taken and self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem
        return taken

    def _take_from(self, run: Run, limit: int, taken: list[ConsumerRecord]) -> None:
        part = run.records[run.at : run.at + limit - len(taken)]
        if part:
            taken += part
            run.at += len(part)
            self.positions[run.partition] = OffsetAndMetadata(part[-1][2] + 1, "", part[-1][8])
        if run.at < len(run.records):
            return
        self._runs.popleft()
        at = self.positions.get(run.partition)
        # Behind the last record may lie markers: the lag is 0 only when they are passed too.
        if run.end is not None and (at is None or at.offset < run.end.offset):
            self.positions[run.partition] = run.end

    def take_chunks(self) -> list[Chunk]:
        """Everything as it came; it counts as read."""
        taken = list(self._chunks)
        self._chunks.clear()
        for chunk in taken:
            end, epoch = chunk.end()
            self.positions[chunk.partition] = OffsetAndMetadata(end, "", epoch)
        return taken

    def place(self, partition: TopicPartition, at: OffsetAndMetadata | None) -> None:
        """The user is elsewhere now: what was read ahead is of no use."""
        self.positions.pop(partition, None)
        self._runs = deque(run for run in self._runs if run.partition != partition)
        self._chunks = deque(c for c in self._chunks if c.partition != partition)
        if self._problem is not None and self._problem.partition == partition:
            self._problem = None
        if at is not None:
            self.positions[partition] = at

    def first_waiting(self, partition: TopicPartition) -> int | None:
        """The offset at which the first chunk in store begins."""
        return next((c.fetch_offset for c in list(self._chunks) if c.partition == partition), None)

    def not_handed_out(
        self, wanted: Iterable[TopicPartition] | None = None, *, opened_only: bool = True
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where each partition begins that has something in store: opened as records, or at all."""
        first_offsets: dict[TopicPartition, int] = {}
        for run in self._runs:
            if run.at < len(run.records):
                first_offsets.setdefault(run.partition, run.records[run.at][2])
        if not opened_only:
            for chunk in self._chunks:
                first_offsets.setdefault(chunk.partition, chunk.fetch_offset)
        chosen = first_offsets if wanted is None else [p for p in wanted if p in first_offsets]
        return {p: self.positions.get(p, OffsetAndMetadata(first_offsets[p])) for p in chosen}

    def _open(self, chunk: Chunk) -> None:
        """As one run. What cannot be read ends it, and is told when everything before it was handed out."""
        run = Run(chunk.partition)
        self._runs.append(run)
        try:
            for header, payload in chunk.payloads():
                _add(run.records, chunk, header, payload)
        except (CorruptMessage, BadRecord) as error:
            behind = run.records[-1][2] + 1 if run.records else chunk.fetch_offset
            self._problem = Unreadable(chunk.partition, behind, error)
        else:
            end, epoch = chunk.end()
            run.end = OffsetAndMetadata(end, "", epoch)
        if self._key is not None or self._value is not None:
            self._deserialize(run)

    def _deserialize(self, run: Run) -> None:
        key_of, value_of = _with_headers(self._key), _with_headers(self._value)
        done: list[ConsumerRecord] = []
        try:
            for record in run.records:
                key = None if record.key is None else key_of(record.key, record.headers)
                value = None if record.value is None else value_of(record.value, record.headers)
                done.append(record._replace(key=key, value=value))
        except Exception as error:  # the user's own function: whatever it raises
            self._problem = Unreadable(run.partition, run.records[len(done)][2], error)
            run.end = None
        run.records = done


def _with_headers(deserialize: Deserializer | None) -> Callable[[bytes, Any], Any]:
    """Those that say so are given the record's headers, which may name a schema."""
    if deserialize is None:
        return lambda data, _: data
    if getattr(deserialize, "reads_headers", False):
        return deserialize  # type: ignore[return-value]
    return lambda data, _: deserialize(data)


def _add(records: list[ConsumerRecord], chunk: Chunk, header: BatchHeader, payload: bytes) -> None:
    """The batch's records from the chunk's first offset on."""
    late = header.log_append_time
    records += kernel.tuples(
        ConsumerRecord,
        payload,
        header.count,
        chunk.fetch_offset,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if late else None,
        *chunk.partition,
        int(late),
        header.leader_epoch,
    )
