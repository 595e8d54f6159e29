"""Turns chunks into records, in order, and knows how far the user has got. No I/O."""

from collections import deque
from collections.abc import Iterable

from ottla.client.chunks import Chunk
from ottla.client.errors import ClientError
from ottla.client.serializers import Deserializer
from ottla.client.values import ConsumerRecord, OffsetAndMetadata, TopicPartition
from ottla.errors import CorruptMessage, OttlaError


class Unreadable(ClientError):
    """A record or a batch that cannot be handed out. Nothing behind it is, until the user seeks past it."""

    def __init__(self, partition: TopicPartition, offset: int, cause: Exception) -> None:
        text = cause.message if isinstance(cause, OttlaError) and hasattr(cause, "message") else str(cause)
        where = "" if str(partition) in text else f"{partition}, offset {offset}: "
        super().__init__(f"{where}{text}")
        self.partition = partition
        self.offset = offset


class Reader:
    """What arrived and was not handed out yet, and the positions behind what was."""

    def __init__(self, key: Deserializer | None = None, value: Deserializer | None = None) -> None:
        self._key, self._value = key, value
        self._records: deque[ConsumerRecord] = deque()
        self._chunks: deque[Chunk] = deque()
        self._opened_to: dict[TopicPartition, int] = {}  # behind the last record that was opened
        self._ends: dict[TopicPartition, tuple[int, OffsetAndMetadata]] = {}
        self._problem: Unreadable | None = None
        self.positions: dict[TopicPartition, OffsetAndMetadata] = {}

    def add(self, chunks: Iterable[Chunk]) -> None:
        self._chunks.extend(chunks)

    @property
    def has_records(self) -> bool:
        return bool(self._records)

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Up to `limit` records. Raises `Unreadable` once everything before it was handed out."""
        while self._problem is None and len(self._records) < limit and self._chunks:
            self._open(self._chunks.popleft())
        taken = [self._records.popleft() for _ in range(min(limit, len(self._records)))]
        for record in taken:
            # The last of each partition stays: this is cheaper than asking which that is.
            partition = TopicPartition(record[0], record[1])
            self.positions[partition] = OffsetAndMetadata(record[2] + 1, "", record[8])
        if self._ends:
            self._skip_gaps()
        if not taken and self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem
        return taken

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
        self._ends.pop(partition, None)
        self._opened_to.pop(partition, None)
        self._records = deque(r for r in self._records if (r.topic, r.partition) != partition)
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
        found: dict[TopicPartition, int] = {}
        for record in self._records:
            found.setdefault(TopicPartition(record[0], record[1]), record[2])
        if not opened_only:
            for chunk in self._chunks:
                found.setdefault(chunk.partition, chunk.fetch_offset)
        chosen = found if wanted is None else [p for p in wanted if p in found]
        return {p: self.positions.get(p, OffsetAndMetadata(found[p])) for p in chosen}

    def _open(self, chunk: Chunk) -> None:
        topic, partition = chunk.partition
        key_of, value_of, append = self._key, self._value, self._records.append
        at = chunk.fetch_offset
        try:
            for header, (offset, timestamp, key, value, headers) in chunk.records():
                at = offset
                append(
                    ConsumerRecord(
                        topic,
                        partition,
                        offset,
                        timestamp,
                        key if key is None or key_of is None else key_of(key),
                        value if value is None or value_of is None else value_of(value),
                        headers,
                        int(header.log_append_time),
                        header.leader_epoch,
                    )
                )
                self._opened_to[chunk.partition] = offset + 1
        except CorruptMessage as error:
            self._problem = Unreadable(chunk.partition, self._opened_to.get(chunk.partition, at), error)
        except Exception as error:  # the user's own function: whatever it raises
            self._problem = Unreadable(chunk.partition, at, error)
        else:
            end, epoch = chunk.end()
            self._ends[chunk.partition] = (
                self._opened_to.get(chunk.partition, 0),
                OffsetAndMetadata(end, "", epoch),
            )

    def _skip_gaps(self) -> None:
        """Behind the last record may lie markers: the lag is 0 only when they are passed too."""
        for partition, (opened_to, end) in list(self._ends.items()):
            at = self.positions.get(partition)
            if opened_to == 0 or (at is not None and at.offset >= opened_to):
                del self._ends[partition]
                if at is None or at.offset < end.offset:
                    self.positions[partition] = end
