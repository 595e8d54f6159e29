"""`ottla.aio.Producer`: as `ottla.Producer`, on the caller's loop."""

import asyncio
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.aio.whole import whole
from ottla.client.core.accumulator import Admission
from ottla.client.core.cluster import Topic
from ottla.client.core.deliveries import Batch
from ottla.client.core.producer import Headers, Place, ProducerCore, Route, exact_offsets, member_of
from ottla.client.core.runtime import Alone, Runtime
from ottla.client.core.transactions import Transactions
from ottla.client.errors import IllegalState, TimedOut
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import ProducerSettings
from ottla.client.timeouts import FLUSH_SECONDS_MAX, Timeout, seconds
from ottla.client.tracing import passed_on
from ottla.client.values import GroupMetadata, OffsetAndMetadata, RecordMetadata, TopicPartition
from ottla.wire import kernel

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

    from ottla.client.arrow import ArrowSender

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class Sent(kernel.Receipt[Batch]):
    """What `await producer.send(...)` gives: await it once more for where the record went."""

    __slots__ = ()

    def done(self) -> bool:
        return self.batch.settled

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.batch.settled:
            yield from _settled(self.batch).__await__()
        error = self.batch.error_of(self.index)
        if error is not None:
            raise error
        return self.batch.metadata(self.index)


class Producer(ProducerCore[Sent]):
    """As `ottla.Producer`. `await producer.send(...)` queues; awaiting what it gives waits for the answer."""

    def __init__(
        self, settings: Mapping[str, object] | None = None, /, *, runtime: Runtime = LOOP, **more: object
    ) -> None:
        self._room = _Room()
        parsed = ProducerSettings.parse(settings or {}, **more)
        super().__init__(parsed, runtime, Sent, lambda: self._room, _call_soon)
        self._arrow: ArrowSender | None = None
        self._closed = False

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
        callback: Callable[..., object] | None = None,
    ) -> Sent:
        """Arguments as of `ottla.Producer.send`. Waits while the topic is unknown or the buffer full."""
        record_headers = tuple(headers) if headers else ()
        if self._is_traced:
            record_headers = passed_on(record_headers)
        sent: Sent | None = None
        route = self._routes.get(topic) if self._direct else None
        if route is not None:
            if self._transactional:
                self._transactions_open()
            sent = route.lane.send(value, key, partition, record_headers, timestamp)
        if sent is None:
            admit = self._identity.admission()
            record_headers = self._with_schemas(record_headers, value, key)
            value = self._value_bytes(value)
            key = None if key is None else self._key_bytes(key)
            route = await self._route(topic)
            placed = self._place(route, value, key, partition, record_headers, timestamp, admit)
            sent = await self._open(placed) if isinstance(placed, Place) else placed
        if callback is not None:
            sent.batch.on_settled(sent.index, callback)
        return sent

    async def send_and_wait(
        self, topic: str, value: Any = None, key: Any = None, **more: Any
    ) -> RecordMetadata:
        return await (await self.send(topic, value, key, **more))

    async def send_batch(
        self, rows: "pa.RecordBatch | pa.Table", topic: str | None = None
    ) -> list[RecordMetadata]:
        """Waits until all rows are acknowledged."""
        from ottla.client.arrow import ArrowDelivery, ArrowSender, topics_of

        admit = self._identity.admission()
        topics: dict[str, Topic] = {}
        for name in topics_of(rows, topic):
            topics[name] = (await self._route(name)).topic
        if self._arrow is None:
            self._arrow = ArrowSender(
                self.settings,
                self._accumulator,
                lambda name: self._routes[name].topic,
                self._sender.wake,
                transactional=self._transactional,
            )
        sent = []
        for batch in self._arrow.batches(rows, topic):
            await self._until_there_is_room(partial(self._add, batch, admit))
            sent.append(batch)
            self._sender.wake()
        for batch in sent:
            await _settled(batch)
        return ArrowDelivery(sent, rows.num_rows).result(0)

    async def flush(self, timeout: Timeout = None, *, timeout_ms: float | None = None) -> None:
        """Waits until all that was sent before is acknowledged or has failed (its futures tell which)."""
        limit_s = seconds("flush", timeout, timeout_ms, whole_max=FLUSH_SECONDS_MAX)
        await self._start()
        before = self._accumulator.begun()
        self._accumulator.flush_begins()
        try:
            self._sender.wake()
            async with asyncio.timeout(limit_s):
                while not self._accumulator.are_settled(before):
                    await self._room.changed()
        except TimeoutError:
            raise TimedOut(
                f"{self._accumulator.unsettled} batches were not acknowledged within {limit_s} s"
            ) from None
        finally:
            self._accumulator.flush_ends()

    async def partitions_for(self, topic: str) -> list[int]:
        return sorted((await self._route(topic)).topic.partitions)

    async def init_transactions(self) -> None:
        await whole(self._transactions_wanted().init())

    def begin_transaction(self) -> None:
        self._transactions_wanted().begin()

    async def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMetadata | str) -> None:
        await whole(self._transactions_wanted().send_offsets(exact_offsets(offsets), member_of(group)))

    async def commit_transaction(self) -> None:
        transactions = self._transactions_wanted()
        transactions.ending = transactions.open
        await whole(self._end(transactions, committed=True))

    async def abort_transaction(self) -> None:
        transactions = self._transactions_wanted()
        if transactions.open:
            transactions.ending = True
            await self._drop(IllegalState("the transaction was aborted"), unsent_only=True)
        await whole(self._end(transactions, committed=False))

    async def close(self, timeout: Timeout = None, *, timeout_ms: float | None = None) -> None:
        """Sends what is left, then ends. What is not acknowledged in time fails."""
        limit_s = seconds("close", timeout, timeout_ms, whole_max=FLUSH_SECONDS_MAX)
        if self._closed:
            return
        self._closed = True
        await whole(self._close(limit_s))

    async def __aenter__(self) -> "Producer":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        gives_up = kind is not None and isinstance(self._identity, Transactions) and self._identity.open
        await self.close(0 if gives_up else None)

    # -- inside ------------------------------------------------------------------------------------

    async def _route(self, topic: str) -> Route:
        if self._closed:
            raise IllegalState("the producer is closed")
        await self._start()
        return self._fresh_route(topic) or self._take_route(await self._look_up(topic))

    async def _open(self, placed: Place) -> Sent:
        sent: Sent = await self._until_there_is_room(lambda: self._open_batch(placed, 0))
        self._sender.wake()
        await asyncio.sleep(0)  # a loop of sends would keep the sender from its turn
        return sent

    def _add(self, batch: Batch, admit: Admission) -> bool | None:
        return self._accumulator.add(batch, 0, admit) or None

    async def _until_there_is_room(self, attempt: Callable[[], Any]) -> Any:
        began = self._runtime.now()
        deadline = began + self.settings.max_block_ms / 1000
        while (taken := attempt()) is None:
            try:
                async with asyncio.timeout(deadline - self._runtime.now()):
                    await self._room.changed()
            except TimeoutError:
                raise self._buffer_full() from None
            finally:
                now = self._runtime.now()
                self._accumulator.waited_s += now - began
                began = now
        return taken

    async def _end(self, transactions: Transactions, *, committed: bool) -> None:
        while self._accumulator.unsettled:
            await self.flush()
        await transactions.end(committed=committed)

    async def _close(self, limit_s: float | None) -> None:
        try:
            await self.flush(timeout_ms=None if limit_s is None else limit_s * 1000)
        except TimedOut:
            pass
        finally:
            await self._stop()


class _Room(Alone):
    """Tells those who wait for room, or for a flush, that a batch has settled."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def notify_all(self) -> None:
        self._changed.set()

    async def changed(self) -> None:
        self._changed.clear()
        await self._changed.wait()


async def _settled(batch: Batch) -> None:
    if not batch.settled:
        future = asyncio.get_running_loop().create_future()
        batch.wake_when_settled(lambda: None if future.done() else future.set_result(None))
        await future


def _call_soon(call: Callable[[], object]) -> None:
    asyncio.get_running_loop().call_soon(call)
