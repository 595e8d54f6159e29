"""Whole batches that somebody else made, written as they are: a new header, the records' bytes untouched."""

from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from ottla.client.blocking.engine import Engine
from ottla.client.core.chunks import Chunk as Chunk
from ottla.client.core.deliveries import Batch
from ottla.client.core.deliveries import Row as Row
from ottla.client.errors import BufferFull, ClientError
from ottla.client.exactly_once.owner import TransactionOwner
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.ports import Buffer
from ottla.wire import batch as batches

T = TypeVar("T")
SENT_AT_ONCE_BYTES = 64 * 1024
BESIDE_BYTES = 512 * 1024  # of a batch; a record of the owner's own takes less than that


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
    """A `TransactionOwner` that also writes whole batches, and tells where each went.

    What ends a transaction are coroutines for the owner's loop: `run` waits for one from another thread. Callers that
    read on the same loop (`engine`) get from a fetched batch to its commit without a switch of threads.
    """

    def __init__(
        self, settings: Mapping[str, object] | None = None, /, *, engine: Engine | None = None, **more: object
    ) -> None:
        self._shared_engine = engine
        super().__init__(settings, **more)
        self._sent: list[WholeBatch] = []
        self._beside: list[Batch] = []
        self._offsets_overlap = True
        self._waiting_bytes = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._engine.run(work)

    def write_batch(
        self, partition: TopicPartition, encoded: bytearray, count: int, attached: Any = None
    ) -> None:
        """Queues a batch of `count` records with consecutive offsets. The bytes are the producer's from here on.

        A little waits for what else the transaction writes, up to `add_offsets` or `take_written`: one request for
        all of it.
        """
        batch = WholeBatch(partition, encoded, count, int(self._runtime.now() * 1000), attached)
        self._queue(batch)
        self._sent.append(batch)
        self._waiting_bytes += len(encoded)
        if self._waiting_bytes >= SENT_AT_ONCE_BYTES:
            self._waiting_bytes = 0
            self._wake()

    def write_rows(self, partition: TopicPartition, rows: Iterable[Row]) -> None:
        """Queues records of the owner's own beside the batches."""
        batch: Batch | None = None
        for row in rows:
            if batch is None or batch.size >= BESIDE_BYTES:
                self._queue_beside(batch)
                batch = Batch(partition, int(self._runtime.now() * 1000))
            batch.add(row)
        self._queue_beside(batch)

    # -- on the loop -------------------------------------------------------------------------------

    async def add_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata
    ) -> None:
        """Positions into the transaction while its records are on their way: one round trip for both.

        Apache Kafka's coordinator refuses to add offsets while it adds a partition, and the retry takes longer than
        that saves. A broker that did so once is given the records first from then on.
        """
        self._waiting_bytes = 0
        self._sender.send_now()
        if not self._offsets_overlap:
            await self._settled()
        transactions = self._transactions_wanted()
        before, questions = transactions.offset_attempts, 1 if transactions.is_second_generation else 2
        await transactions.send_offsets(offsets, member)
        self._offsets_overlap &= transactions.offset_attempts - before <= questions

    async def take_written(self) -> list[Written]:
        """Waits for all batches; where they went. Each lies in one piece, or this is an error."""
        self._sender.wake()
        await self._settled()
        beside, self._beside = self._beside, []
        for batch in beside:
            if batch.error is not None:
                raise batch.error
        sent, self._sent = self._sent, []
        return [_written(batch) for batch in sent]

    async def end(self) -> None:
        """Commits, and begins the next transaction."""
        transactions = self._transactions_wanted()
        transactions.ending = transactions.open
        await self._settled()
        await transactions.end(committed=True)
        transactions.begin()

    async def _settled(self) -> None:
        event = self._runtime.event()
        for batch in (*self._sent, *self._beside):
            if not batch.settled:
                batch.wake_when_settled(event.set)
                while not batch.settled:
                    await event.wait()
                    event.clear()

    # -- inside ------------------------------------------------------------------------------------

    def _queue(self, batch: Batch) -> None:
        on_loop = self._engine.is_current_thread
        if not on_loop:  # there the sender looks the topic up by itself if it has to
            self._topic(batch.partition.topic)
        limit_ms = 0 if on_loop else self.settings.max_block_ms
        if not self._accumulator.add(batch, limit_ms):
            raise BufferFull(
                f"the buffer stayed full for max.block.ms={limit_ms}: the brokers are slower, or away"
            )

    def _queue_beside(self, batch: Batch | None) -> None:
        if batch is not None:
            self._queue(batch)
            self._beside.append(batch)

    def abandon(self) -> None:
        super().abandon()
        self._forget_sent()

    def _drop_gathered(self) -> None:
        super()._drop_gathered()
        self._forget_sent()

    def _forget_sent(self) -> None:
        self._sent, self._beside, self._waiting_bytes = [], [], 0

    def _begin_engine(self) -> Engine:
        return self._shared_engine or super()._begin_engine()

    def _end_engine(self) -> None:
        if self._shared_engine is None:
            super()._end_engine()


def _written(batch: WholeBatch) -> Written:
    count = len(batch.rows)
    error = batch.error_of(0) or batch.error_of(count - 1)
    if error is not None:
        raise error
    first, last = batch.metadata(0).offset, batch.metadata(count - 1).offset
    if first < 0 or last - first != count - 1:
        raise OffsetsUnknown(f"{batch.partition}: {count} records were written at {first} to {last}")
    return Written(batch.partition, first, count, batch.attached)
