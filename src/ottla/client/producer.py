"""`Producer`: send returns a future at once; a thread of its own gathers, sends and retries."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.accumulator import Accumulator, Queue
from ottla.client.cluster import Cluster, Topic
from ottla.client.deliveries import ROW_OVERHEAD_BYTES, Delivery, headers_size
from ottla.client.engine import Engine
from ottla.client.errors import BufferFull, IllegalState, TimedOut
from ottla.client.identity import Identity
from ottla.client.partitioner import partitioner_for
from ottla.client.sender import Sender
from ottla.client.serializers import by_type, serializer_for
from ottla.client.settings import ProducerSettings
from ottla.client.transactions import Transactions
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.errors import MessageTooLarge, UnknownTopicOrPartition

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

    from ottla.client.arrow import ArrowDelivery, ArrowSender

ROUTE_S = 1.0
Headers = Iterable[tuple[str, bytes | None]]


class Route(NamedTuple):
    """Where records of a topic may go, as of lately."""

    topic: Topic
    queues: dict[int, Queue]
    until: float


class Producer:
    """`Producer({"bootstrap.servers": ...})` or keyword arguments. Threads may share one."""

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        self.settings = ProducerSettings.parse(settings or {}, **more)
        self._key_bytes = serializer_for(self.settings.key_serializer)
        self._value_bytes = serializer_for(self.settings.value_serializer)
        self._key_plain, self._value_plain = self._key_bytes is by_type, self._value_bytes is by_type
        self._partition = partitioner_for(self.settings.partitioner, self.settings.batch_size).partition
        self._accumulator = Accumulator(
            batch_size=self.settings.batch_size,
            linger_ms=self.settings.linger_ms,
            memory_max=self.settings.buffer_memory,
        )
        self._cluster = Cluster(self.settings)
        transactional = self.settings.transactional_id is not None
        self._identity = (Transactions if transactional else Identity)(self._cluster, self._accumulator)
        self._sender: Sender | None = None
        self._engine = Engine("producer")
        self._routes: dict[str, Route] = {}
        self._transactional = transactional
        self._max_block_ms = self.settings.max_block_ms
        self._request_size_max = self.settings.max_request_size
        self._arrow: ArrowSender | None = None
        self._engine.run(self._start())

    # -- sending -----------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
        callback: Callable[..., Any] | None = None,
    ) -> Delivery:
        """Queues a record. `callback(metadata, error)` runs on the producer's thread and must not block.

        Blocks up to `max.block.ms` while the topic is unknown or `buffer.memory` is full.
        """
        now = time.time()
        route = self._routes.get(topic)
        if route is None or now > route.until:
            route = self._route(topic)
        # A call for each record is the dearest part of it: what is bytes already is not asked about.
        if type(value) is not bytes or not self._value_plain:
            value = self._value_bytes(value)
        size = ROW_OVERHEAD_BYTES + (0 if value is None else len(value))
        if key is not None:
            if type(key) is not bytes or not self._key_plain:
                key = self._key_bytes(key)
            size += 0 if key is None else len(key)
        kept = tuple(headers) if headers else ()
        if kept:
            size += headers_size(kept)
        if size > self._request_size_max:
            raise MessageTooLarge(
                f"the record takes {size} bytes, max.request.size is {self.settings.max_request_size}"
            )
        if partition is None:
            partition = self._partition(route.topic, key, size)
        elif partition not in route.queues:
            raise UnknownTopicOrPartition(f"{topic} has {len(route.queues)} partitions, not one {partition}")
        if self._transactional:
            self._transactions_open()
        stamp = int(now * 1000) if timestamp is None else timestamp
        row = (-1, stamp, key, value, kept)
        appended = self._accumulator.append(route.queues[partition], row, size, callback, self._max_block_ms)
        if appended is None:
            limits = f"buffer.memory={self.settings.buffer_memory}, max.block.ms={self.settings.max_block_ms}"
            raise BufferFull(f"the buffer stayed full ({limits}): the brokers are slower than this, or away")
        delivery, wake = appended
        if wake:
            self._wake()
        return delivery

    def would_block(self, topic: str) -> bool:
        """Whether `send` would wait: for news of the topic, or for room."""
        route = self._routes.get(topic)
        known = route is not None and time.time() <= route.until
        return not known or self._accumulator.memory * 2 > self.settings.buffer_memory

    def send_batch(self, rows: "pa.RecordBatch | pa.Table", topic: str | None = None) -> "ArrowDelivery":
        """Queues Arrow rows: value and, as wanted, key, topic, partition, headers, timestamp.

        Far quicker than record by record. Keys go where `send` puts them; no serializer is applied.
        """
        from ottla.client.arrow import ArrowSender

        if isinstance(self._identity, Transactions):
            self._identity.ensure_open()
        if self._arrow is None:
            self._arrow = ArrowSender(
                self.settings,
                self._accumulator,
                self._topic,
                self._wake,
                transactional=self._identity.transactional,
            )
        return self._arrow.send(rows, topic)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until all that was sent is acknowledged or has failed (its futures tell which)."""
        self._refuse_own_thread("flush")
        self._accumulator.flush_begins()
        try:
            self._wake()
            if not self._accumulator.wait_settled(timeout):
                raise TimedOut(
                    f"{self._accumulator.unsettled} batches were not acknowledged within {timeout} s"
                )
        finally:
            self._accumulator.flush_ends()

    def partitions_for(self, topic: str) -> list[int]:
        return sorted(self._topic(topic).partitions)

    def metrics(self) -> dict[str, float]:
        """Totals since the start, under Kafka's names."""
        assert self._sender is not None
        available = self.settings.buffer_memory - self._accumulator.memory
        here = {
            "requests-in-flight": self._sender.in_flight,
            "buffer-total-bytes": self.settings.buffer_memory,
            "buffer-available-bytes": available,
        }
        return self._sender.counts.named() | here

    def close(self, timeout: float | None = None) -> None:
        """Sends what is left, then ends. What is not acknowledged in time fails."""
        if self._engine.is_closed:
            return
        try:
            self.flush(timeout)
        except TimedOut:
            pass
        finally:
            self._engine.run(self._stop())
            self._engine.close()

    def __enter__(self) -> "Producer":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and isinstance(self._identity, Transactions) and self._identity.open:
            self.close(0)
        else:
            self.close()

    # -- transactions ------------------------------------------------------------------------------

    def init_transactions(self) -> None:
        """Once, before the first transaction: ends what an earlier producer of this id left open."""
        self._engine.run(self._transactions.init())

    def begin_transaction(self) -> None:
        self._transactions.begin()

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | str
    ) -> None:
        """Commits a consumer's offsets with the records: `consumer.group_metadata()` says for whom."""
        member = GroupMetadata(group) if isinstance(group, str) else group
        exact = {
            TopicPartition(*partition): OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for partition, offset in offsets.items()
        }
        self._engine.run(self._transactions.send_offsets(exact, member))

    def commit_transaction(self) -> None:
        """All or an error; after an error only `abort_transaction` is left."""
        transactions = self._transactions
        self.flush()
        self._engine.run(transactions.end(committed=True))

    def abort_transaction(self) -> None:
        transactions = self._transactions
        if transactions.open:
            self._engine.run(self._drop(IllegalState("the transaction was aborted")))
            self.flush()
        self._engine.run(transactions.end(committed=False))

    @property
    def producer_id_and_epoch(self) -> tuple[int, int]:
        """What another process needs to end this producer's transaction."""
        return self._identity.producer

    # -- inside ------------------------------------------------------------------------------------

    @property
    def _transactions(self) -> Transactions:
        if not isinstance(self._identity, Transactions):
            raise IllegalState("transactions need the setting transactional.id")
        self._refuse_own_thread("transactions")
        return self._identity

    def _topic(self, name: str) -> Topic:
        route = self._routes.get(name)
        return (self._route(name) if route is None or time.time() > route.until else route).topic

    def _route(self, name: str) -> "Route":
        """Looked up now and then: a topic may have grown."""
        topic = self._engine.run(self._look_up(name))
        queues = {
            index: self._accumulator.queue_of(TopicPartition(name, index)) for index in topic.partitions
        }
        route = self._routes[name] = Route(topic, queues, time.time() + ROUTE_S)
        return route

    def _transactions_open(self) -> None:
        assert isinstance(self._identity, Transactions)
        self._identity.ensure_open()

    async def _look_up(self, name: str) -> Topic:
        create = self.settings.allow_auto_create_topics
        return await self._cluster.retrying(
            lambda: self._cluster.topic(name, create=create),
            f"topic {name} is not known",
            timeout_ms=self.settings.max_block_ms,
        )

    def _wake(self) -> None:
        sender = self._sender
        assert sender is not None
        if not sender.wake_requested:  # each wake costs a system call and a switch of threads
            sender.wake_requested = True
            self._engine.soon(sender.wake)

    def _refuse_own_thread(self, what: str) -> None:
        if self._engine.is_current_thread:
            raise IllegalState(f"{what} from a delivery callback would wait for itself")

    async def _start(self) -> None:
        self._sender = Sender(self._cluster, self._accumulator, self._identity)
        self._task = asyncio.ensure_future(self._sender.run())

    async def _drop(self, error: Exception) -> None:
        assert self._sender is not None
        self._sender.fail_waiting(error)

    async def _stop(self) -> None:
        self._task.cancel()
        await self._cluster.close()
        await self._drop(IllegalState("the producer was closed"))
