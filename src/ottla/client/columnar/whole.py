"""Whole batches that somebody else made, written as they are: a new header, the records' bytes untouched."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.client.core.chunks import Chunk as Chunk
from ottla.client.core.deliveries import Batch
from ottla.client.errors import BufferFull, ClientError
from ottla.client.exactly_once.owner import TransactionOwner
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.ports import Buffer
from ottla.wire import batch as batches

SENT_AT_ONCE_BYTES = 64 * 1024


class OffsetsUnknown(ClientError):
    """The broker did not say where records went, or somebody else wrote between them."""


class Written(NamedTuple):
    """Where a batch went, with what its writer attached to it."""

    partition: TopicPartition
    base_offset: int
    records: int
    attached: Any


class _Count:
    """Stands for records that nobody looks into."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def timestamp(self, index: int) -> int:
        return -1

    def release(self) -> None:
        """Holds nothing."""


class WholeBatch(Batch):
    """A batch with consecutive offsets, encoded and compressed already."""

    __slots__ = ("_encoded", "attached")

    rows: Any

    def __init__(
        self, partition: TopicPartition, encoded: bytearray, count: int, created_ms: int, attached: Any
    ) -> None:
        super().__init__(partition, created_ms)
        self.rows = _Count(count)
        self._encoded = encoded
        self.attached = attached

    @property
    def size(self) -> int:
        return len(self._encoded)

    def encode(self, codec: int, level: int | None, *, transactional: bool) -> Buffer:
        batches.stamp_producer(
            self._encoded,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=self.sequence,
            transactional=transactional,
        )
        return self._encoded


class BatchOwner(TransactionOwner):
    """A `TransactionOwner` that also writes whole batches, and tells where each went."""

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        super().__init__(settings, **more)
        self._sent: list[WholeBatch] = []
        self._offsets_overlap = True
        self._waiting_bytes = 0

    def write_batch(
        self, partition: TopicPartition, encoded: bytearray, count: int, attached: Any = None
    ) -> None:
        """Queues a batch of `count` records with consecutive offsets. The bytes are the producer's from here on.

        A little waits for what else the transaction writes, up to the next `flush`, `write` or `add_offsets`: one
        request for all of it.
        """
        self._topic(partition.topic)  # known, so that the sender finds its leader
        batch = WholeBatch(partition, encoded, count, int(self._runtime.now() * 1000), attached)
        if not self._accumulator.add(batch, self.settings.max_block_ms):
            limit = self.settings.max_block_ms
            raise BufferFull(
                f"the buffer stayed full for max.block.ms={limit}: the brokers are slower, or away"
            )
        self._sent.append(batch)
        self._waiting_bytes += len(encoded)
        if self._waiting_bytes >= SENT_AT_ONCE_BYTES:
            self._waiting_bytes = 0
            self._wake()

    def add_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata) -> None:
        """Positions into the transaction while its records are on their way: one round trip for both.

        Apache Kafka's coordinator refuses to add offsets while it adds a partition, and the retry takes longer than
        that saves. A broker that did so once is given the records first from then on.
        """
        self._send_gathered()
        self._waiting_bytes = 0
        self._wake()
        if not self._offsets_overlap:
            self.flush()
        transactions = self._transactions
        before, questions = transactions.offset_attempts, 1 if transactions.is_second_generation else 2
        self.send_offsets_to_transaction(offsets, member)
        self._offsets_overlap &= transactions.offset_attempts - before <= questions

    def end(self) -> None:
        """Commits, and begins the next transaction."""
        self.commit_transaction()
        self.begin_transaction()

    def take_written(self) -> list[Written]:
        """Waits for all batches; where they went. Each lies in one piece, or this is an error."""
        self.flush()
        sent, self._sent = self._sent, []
        return [_written(batch) for batch in sent]

    def abandon(self) -> None:
        super().abandon()
        self._sent.clear()

    def _drop_gathered(self) -> None:
        super()._drop_gathered()
        self._sent = []


def _written(batch: WholeBatch) -> Written:
    count = len(batch.rows)
    error = batch.error_of(0) or batch.error_of(count - 1)
    if error is not None:
        raise error
    first, last = batch.metadata(0).offset, batch.metadata(count - 1).offset
    if first < 0 or last - first != count - 1:
        raise OffsetsUnknown(f"{batch.partition}: {count} records were written at {first} to {last}")
    return Written(batch.partition, first, count, batch.attached)
