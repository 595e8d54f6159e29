"""`Producer`: send returns a future at once; a thread of its own gathers, sends and retries."""

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

from ottla.client.blocking.callbacks import Callbacks
from ottla.client.blocking.deliveries import Delivery
from ottla.client.blocking.engine import Engine
from ottla.client.core.cluster import Topic
from ottla.client.core.producer import Headers, Place, ProducerCore, Route, exact_offsets, member_of
from ottla.client.core.transactions import Transactions
from ottla.client.errors import IllegalState, TimedOut
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import ProducerSettings
from ottla.client.timeouts import FLUSH_SECONDS_MAX, Timeout, seconds
from ottla.client.tracing import passed_on
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

    from ottla.client.arrow import ArrowDelivery, ArrowSender


class Producer(ProducerCore[Delivery]):
    """`Producer({"bootstrap.servers": ...})` or keyword arguments. Threads may share one."""

    def __init__(self, settings: Mapping[str, object] | None = None, /, **more: object) -> None:
        parsed = ProducerSettings.parse(settings or {}, **more)
        self._callbacks = Callbacks("producer-callbacks")
        super().__init__(parsed, LOOP, Delivery, threading.Condition, self._callbacks.submit)
        self._engine = self._begin_engine()
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
        callback: Callable[..., object] | None = None,
    ) -> Delivery:
        """Queues a record. `callback(metadata, error)` runs on the producer's thread for callbacks; it may send.

        Blocks up to `max.block.ms` while the topic is unknown or `buffer.memory` is full.
        A record whose transaction ends meanwhile is refused with `IllegalState`.
        """
        record_headers = tuple(headers) if headers else ()
        if self._is_traced:
            record_headers = passed_on(record_headers)
        delivery: Delivery | None = None
        if self._direct:  # written out here: a call more would cost a tenth of a send
            route = self._routes.get(topic)
            if route is not None:
                if self._transactional:
                    self._transactions_open()
                delivery = route.lane.send(value, key, partition, record_headers, timestamp)
        if delivery is None:
            delivery = self._send(topic, value, key, partition, record_headers, timestamp)
        if callback is not None:
            delivery.add_done_callback(callback)
        return delivery

    def _send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: tuple[tuple[str, bytes | None], ...],
        timestamp: int | None,
    ) -> Delivery:
        """Looked up, checked, and at the beginning of a batch if no other takes it."""
        admit = self._identity.admission()
        headers = self._with_schemas(headers, value, key)
        value = self._value_bytes(value)
        key = None if key is None else self._key_bytes(key)
        route = self._fresh_route(topic) or self._route(topic)
        placed = self._place(route, value, key, partition, headers, timestamp, admit)
        if not isinstance(placed, Place):
            return placed
        delivery = self._open_batch(placed, self.settings.max_block_ms)
        if delivery is None:
            raise self._buffer_full()
        self._wake()
        return delivery

    def send_batch(self, rows: "pa.RecordBatch | pa.Table", topic: str | None = None) -> "ArrowDelivery":
        """Queues Arrow rows: value and, as wanted, key, topic, partition, headers, timestamp.

        Far quicker than record by record. Keys go where `send` puts them; no serializer is applied.
        """
        from ottla.client.arrow import ArrowSender

        admit = self._identity.admission()
        if self._arrow is None:
            self._arrow = ArrowSender(
                self.settings,
                self._accumulator,
                self._topic,
                self._wake,
                transactional=self._identity.transactional,
            )
        return self._arrow.send(rows, topic, admit)

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
        return super().metrics()

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
            self._end_engine()
            self._callbacks.close(limit_s)

    def __enter__(self) -> Self:
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
        self._engine.run(self._transactions.send_offsets(exact_offsets(offsets), member_of(group)))

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

    def _begin_engine(self) -> Engine:
        return Engine("producer", self._after_fork)

    def _end_engine(self) -> None:
        self._engine.close()

    @property
    def _transactions(self) -> Transactions:
        transactions = self._transactions_wanted()
        self._refuse_own_thread("transactions")
        return transactions

    def _topic(self, name: str) -> Topic:
        return (self._fresh_route(name) or self._route(name)).topic

    def _route(self, name: str) -> Route:
        return self._take_route(self._engine.run(self._look_up(name)))

    def _wake(self) -> None:
        sender = self._sender
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

    def _refuse_own_thread(self, method: str) -> None:
        if self._engine.is_current_thread or self._callbacks.is_current_thread:
            raise IllegalState(f"{method} from a delivery callback would wait for itself")
