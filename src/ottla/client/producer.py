"""`Producer`: send returns a future at once; a thread of its own gathers, sends and retries."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.blocking.callbacks import Callbacks
from ottla.client.blocking.deliveries import Delivery
from ottla.client.blocking.engine import Engine
from ottla.client.core.accumulator import Accumulator, Queue
from ottla.client.core.cluster import Cluster, Topic
from ottla.client.core.deliveries import (
    ROW_OVERHEAD_BYTES,
    ROW_OVERHEAD_BYTES_MAX,
    Row,
    headers_size,
)
from ottla.client.core.identity import Identity
from ottla.client.core.partitioner import Default, partitioner_for
from ottla.client.core.sender import Sender
from ottla.client.core.transactions import Transactions
from ottla.client.errors import BufferFull, IllegalState, TimedOut
from ottla.client.loop.runtime import LOOP
from ottla.client.serializers import by_type, serializer_for
from ottla.client.settings import ProducerSettings
from ottla.client.timeouts import FLUSH_SECONDS_MAX, Timeout, seconds
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.errors import MessageTooLarge, UnknownTopicOrPartition
from ottla.wire.kernel import Lane

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

    from ottla.client.arrow import ArrowDelivery, ArrowSender

ROUTE_S = 1.0
Headers = Iterable[tuple[str, bytes | None]]


class Route(NamedTuple):
    """Where records of a topic may go, as of lately."""

    topic: Topic
    queues: list[Queue]  # by partition
    until: float
    lane: Lane


class Producer:
    """`Producer({"bootstrap.servers": ...})` or keyword arguments. Threads may share one."""

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        self.settings = ProducerSettings.parse(settings or {}, **more)
        self._key_bytes = serializer_for(self.settings.key_serializer)
        self._value_bytes = serializer_for(self.settings.value_serializer)
        self._partitioner = partitioner_for(self.settings.partitioner, self.settings.batch_size, LOOP.chance)
        self._callbacks = Callbacks("producer-callbacks")
        self._accumulator = Accumulator(
            batch_size=min(self.settings.batch_size, self.settings.max_request_size),
            linger_ms=self.settings.linger_ms,
            memory_max=self.settings.buffer_memory,
            receipt=Delivery,
            now=LOOP.now,
            date=LOOP.date,
            monitor=threading.Condition,
            call_soon=self._callbacks.submit,
        )
        self._cluster = Cluster(self.settings, LOOP)
        transactional = self.settings.transactional_id is not None
        self._identity = (Transactions if transactional else Identity)(
            self._cluster, self._accumulator.all_queues
        )
        self._sender: Sender | None = None
        self._engine = Engine("producer", self._after_fork)
        self._routes: dict[str, Route] = {}
        self._transactional = transactional
        # Bytes and nothing need no call of ours on their way into the batch.
        self._direct = self._key_bytes is by_type and self._value_bytes is by_type
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
        """Queues a record. `callback(metadata, error)` runs on the producer's thread for callbacks; it may send.

        Blocks up to `max.block.ms` while the topic is unknown or `buffer.memory` is full.
        """
        kept = tuple(headers) if headers else ()
        delivery: Delivery | None = None
        if self._direct:
            route = self._routes.get(topic)
            if route is not None:
                if self._transactional:
                    self._transactions_open()
                delivery = route.lane.send(value, key, partition, kept, timestamp)
        if delivery is None:
            value = self._value_bytes(value)
            key = None if key is None else self._key_bytes(key)
            delivery = self._send(topic, value, key, partition, kept, timestamp)
        if callback is not None:
            delivery.add_done_callback(callback)
        return delivery

    def _send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: tuple[tuple[str, bytes | None], ...],
        timestamp: int | None,
    ) -> Delivery:
        """The way of a record that a lane does not take at once: it is looked up, a new batch is begun."""
        route = self._routes.get(topic)
        if route is None or time.time() > route.until:
            route = self._route(topic)
        size = len(value or b"") + len(key or b"") + headers_size(headers)
        if size + ROW_OVERHEAD_BYTES > self.settings.max_request_size:
            limit = self.settings.max_request_size
            raise MessageTooLarge(
                f"the record takes {size + ROW_OVERHEAD_BYTES} bytes, max.request.size is {limit}"
            )
        if self._transactional:
            self._transactions_open()
        chosen = self._choose(route, key, size) if partition is None else partition
        if not 0 <= chosen < len(route.queues):
            raise UnknownTopicOrPartition(f"{topic} has {len(route.queues)} partitions, not one {chosen}")
        sent: Delivery | None = route.lane.send(value, key, chosen, headers, timestamp)
        if sent is not None:
            return sent
        stamp = int(time.time() * 1000) if timestamp is None else timestamp
        row = Row(stamp, key, value, headers)
        wait_ms = self.settings.max_block_ms
        delivery = self._accumulator.open(route.queues[chosen], row, size + ROW_OVERHEAD_BYTES_MAX, wait_ms)
        if delivery is None:
            limits = f"buffer.memory={self.settings.buffer_memory}, max.block.ms={self.settings.max_block_ms}"
            raise BufferFull(f"the buffer stayed full ({limits}): the brokers are slower than this, or away")
        self._wake()
        return delivery

    def _choose(self, route: Route, key: bytes | None, size: int) -> int:
        """The lane knows where it sticks; where to stick next, and any other choice, is the partitioner's."""
        if key is not None or not isinstance(self._partitioner, Default):
            return self._partitioner.partition(route.topic, key, size)
        current, left = route.lane.sticky
        if left <= 0 or current not in route.topic.partitions:
            current, left = self._partitioner.another(route.topic, current), self.settings.batch_size
        route.lane.stick(current, left - size - ROW_OVERHEAD_BYTES)
        return current

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

    def flush(self, timeout: Timeout = None, *, timeout_ms: float | None = None) -> None:
        """Waits until all that was sent before is acknowledged or has failed (its futures tell which).

        `timeout` is in seconds, or a `timedelta`.
        """
        limit_s = seconds("flush", timeout, timeout_ms, whole_max=FLUSH_SECONDS_MAX)
        self._refuse_own_thread("flush")
        self._engine.ensure_usable()
        self._accumulator.flush_begins()
        try:
            self._wake()
            if not self._accumulator.wait_settled(limit_s):
                raise TimedOut(
                    f"{self._accumulator.unsettled} batches were not acknowledged within {limit_s} s"
                )
        finally:
            self._accumulator.flush_ends()

    def partitions_for(self, topic: str) -> list[int]:
        return sorted(self._topic(topic).partitions)

    def metrics(self) -> dict[str, float]:
        """Totals since the start, under Kafka's names."""
        self._engine.ensure_usable()
        assert self._sender is not None
        available = self.settings.buffer_memory - self._accumulator.memory
        here = {
            "requests-in-flight": self._sender.in_flight,
            "buffer-total-bytes": self.settings.buffer_memory,
            "buffer-available-bytes": available,
        }
        return self._sender.counts.named() | here

    def close(self, timeout: Timeout = None, *, timeout_ms: float | None = None) -> None:
        """Sends what is left, then ends. What is not acknowledged in time fails."""
        limit_s = seconds("close", timeout, timeout_ms, whole_max=FLUSH_SECONDS_MAX)
        if self._engine.is_closed or self._engine.is_forked:
            return
        try:
            self.flush(timeout_ms=None if limit_s is None else limit_s * 1000)
        except TimedOut:
            pass
        finally:
            self._engine.run(self._stop())
            self._engine.close()
            self._callbacks.close(limit_s)

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
        transactions.ending = transactions.open
        self._flush_all()
        self._engine.run(transactions.end(committed=True))

    def abort_transaction(self) -> None:
        transactions = self._transactions
        if transactions.open:
            transactions.ending = True
            self._engine.run(self._drop(IllegalState("the transaction was aborted"), unsent_only=True))
            self._flush_all()
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
        count = len(topic.partitions)
        queues = [self._accumulator.queue_of(TopicPartition(name, index)) for index in range(count)]
        until = time.time() + ROUTE_S
        hashes = isinstance(self._partitioner, Default)
        lane = self._accumulator.lane(queues, int(until * 1000), hashes=hashes)
        before = self._routes.get(name)
        if before is not None:
            lane.stick(*before.lane.sticky)
        route = self._routes[name] = Route(topic, queues, until, lane)
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

    def _flush_all(self) -> None:
        """Also what another thread was just putting into its batch when the transaction began to end."""
        self.flush()
        while self._accumulator.unsettled:
            self.flush()

    def _after_fork(self, error: Exception) -> None:
        self._routes.clear()  # so that `send` asks the engine, which refuses
        self._accumulator.abandon(error)

    def _refuse_own_thread(self, what: str) -> None:
        if self._engine.is_current_thread or self._callbacks.is_current_thread:
            raise IllegalState(f"{what} from a delivery callback would wait for itself")

    async def _start(self) -> None:
        self._sender = Sender(self._cluster, self._accumulator, self._identity)
        self._task = asyncio.ensure_future(self._sender.run())

    async def _drop(self, error: Exception, *, unsent_only: bool = False) -> None:
        assert self._sender is not None
        self._sender.fail_waiting(error, unsent_only=unsent_only)

    async def _stop(self) -> None:
        self._task.cancel()
        self._accumulator.close()
        await self._cluster.close()
        await self._drop(IllegalState("the producer was closed"))
