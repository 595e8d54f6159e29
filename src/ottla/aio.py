"""The same clients with `await`: `Producer`, `Consumer`, `ShareConsumer`, `Admin`. All on your loop; no threads."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.admin import facade as _facade
from ottla.client.aio_share_consumer import ShareConsumer as ShareConsumer
from ottla.client.blocking.guard import CALLER, Guard
from ottla.client.core.cluster import Cluster, Topic
from ottla.client.core.consumer import ConsumerCore
from ottla.client.core.deliveries import Batch
from ottla.client.core.membership import Listeners
from ottla.client.core.offsets import EARLIEST, LATEST
from ottla.client.core.producer import Headers, Place, ProducerCore, Route, exact_offsets, member_of
from ottla.client.core.runtime import Alone, Runtime
from ottla.client.core.transactions import Transactions
from ottla.client.errors import IllegalState, TimedOut
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import ConsumerSettings, ProducerSettings, Settings
from ottla.client.timeouts import FLUSH_SECONDS_MAX, Timeout, seconds
from ottla.client.tracing import passed_on
from ottla.client.values import ConsumerRecord, GroupMetadata, OffsetAndMetadata, RecordMetadata
from ottla.client.values import OffsetAndTimestamp as OffsetAndTimestamp
from ottla.client.values import TopicPartition as TopicPartition
from ottla.wire import kernel

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

    from ottla.client.arrow import ArrowSender

__all__ = ["Admin", "Consumer", "Producer", "ShareConsumer"]

T = TypeVar("T")
Partitions = Iterable[tuple[str, int]]
Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]
Listener = Callable[[frozenset[TopicPartition]], Any]


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
        self, settings: Mapping[str, Any] | None = None, /, *, runtime: Runtime = LOOP, **more: Any
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
        callback: Callable[..., Any] | None = None,
    ) -> Sent:
        """Arguments as of `ottla.Producer.send`. Waits while the topic is unknown or the buffer full."""
        kept = tuple(headers) if headers else ()
        if self._is_traced:
            kept = passed_on(kept)
        sent: Sent | None = None
        route = self._routes.get(topic) if self._direct else None
        if route is not None:
            if self._transactional:
                self._transactions_open()
            sent = route.lane.send(value, key, partition, kept, timestamp)
        if sent is None:
            value = self._value_bytes(value)
            key = None if key is None else self._key_bytes(key)
            placed = self._place(await self._route(topic), value, key, partition, kept, timestamp)
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

        if self._transactional:
            self._transactions_open()
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
            await self._until_there_is_room(partial(self._add, batch))
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
        await _whole(self._transactions_wanted().init())

    def begin_transaction(self) -> None:
        self._transactions_wanted().begin()

    async def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMetadata | str) -> None:
        await _whole(self._transactions_wanted().send_offsets(exact_offsets(offsets), member_of(group)))

    async def commit_transaction(self) -> None:
        transactions = self._transactions_wanted()
        transactions.ending = transactions.open
        await _whole(self._end(transactions, committed=True))

    async def abort_transaction(self) -> None:
        transactions = self._transactions_wanted()
        if transactions.open:
            transactions.ending = True
            await self._drop(IllegalState("the transaction was aborted"), unsent_only=True)
        await _whole(self._end(transactions, committed=False))

    async def close(self, timeout: Timeout = None, *, timeout_ms: float | None = None) -> None:
        """Sends what is left, then ends. What is not acknowledged in time fails."""
        limit_s = seconds("close", timeout, timeout_ms, whole_max=FLUSH_SECONDS_MAX)
        if self._closed:
            return
        self._closed = True
        await _whole(self._close(limit_s))

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
        sent: Sent = await self._until_there_is_room(lambda: self._accumulator.open(*placed, 0))
        self._sender.wake()
        await asyncio.sleep(0)  # a loop of sends would keep the sender from its turn
        return sent

    def _add(self, batch: Batch) -> bool | None:
        return self._accumulator.add(batch, 0) or None

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


class Consumer:
    """As `ottla.Consumer`; `async for record in consumer`. Listeners may be functions or coroutines."""

    def __init__(
        self, settings: Mapping[str, Any] | None = None, /, *, runtime: Runtime = LOOP, **more: Any
    ) -> None:
        self.settings = ConsumerSettings.parse(settings or {}, **more)
        self._guard = Guard("consumer")
        self._shell = _OnTheLoop()
        self._core = ConsumerCore(self.settings, runtime, self._shell, None)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        listeners = Listeners(on_assigned, on_revoked, on_lost)
        await self._whole(self._core.subscribe(topics, pattern, listeners))

    async def unsubscribe(self) -> None:
        await self._whole(self._core.unsubscribe())

    def subscription(self) -> frozenset[str]:
        return self._core.subscription()

    async def assign(self, partitions: Partitions) -> None:
        await self._whole(self._core.assign(partitions))

    def assignment(self) -> frozenset[TopicPartition]:
        return self._core.assignment()

    async def poll(
        self, timeout: Timeout = 1.0, *, timeout_ms: float | None = None, max_records: int | None = None
    ) -> list[ConsumerRecord]:
        """A poll that is cancelled takes no record with it."""
        limit_s = seconds("poll", timeout, timeout_ms) or 0.0
        return await self._run(self._core.poll(limit_s, max_records))

    async def poll_arrow(
        self, timeout: Timeout = 1.0, *, timeout_ms: float | None = None, headers: bool = False
    ) -> "pa.RecordBatch":
        from ottla.client.arrow import decode

        limit_s = seconds("poll_arrow", timeout, timeout_ms) or 0.0
        return await self._run(
            self._core.poll_chunks(limit_s, lambda chunks: decode(chunks, headers=headers))
        )

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """A commit in the loop covers exactly the records seen so far."""
        while True:
            for record in self._core.take_ready() or await self.poll(1.0, max_records=1):
                yield record

    def wakeup(self) -> None:
        """Ends the `poll` under way, or the next one, with `WakeUp`. May be called from any thread."""
        interrupt = self._core.wake()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(interrupt)

    async def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        at = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        await self._whole(self._core.seek(partition, at))

    async def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        await self.seek_to_time(dict.fromkeys(self._core.chosen(partitions), EARLIEST))

    async def seek_to_end(self, partitions: Partitions | None = None) -> None:
        await self.seek_to_time(dict.fromkeys(self._core.chosen(partitions), LATEST))

    async def seek_to_time(self, timestamps: Mapping[TopicPartition, int] | int) -> None:
        await self._whole(self._core.seek_to_time(timestamps))

    async def pause(self, partitions: Partitions | None = None) -> None:
        await self._whole(self._core.pause(partitions, True))

    async def resume(self, partitions: Partitions | None = None) -> None:
        await self._whole(self._core.pause(partitions, False))

    def paused(self) -> frozenset[TopicPartition]:
        return self._core.paused()

    async def position(
        self, partition: tuple[str, int], timeout: Timeout = 60.0, *, timeout_ms: float | None = None
    ) -> int:
        return await self._run(
            self._core.position(partition, seconds("position", timeout, timeout_ms) or 0.0)
        )

    async def lag(
        self, partition: tuple[str, int], timeout: Timeout = 60.0, *, timeout_ms: float | None = None
    ) -> int | None:
        return await self._run(self._core.lag(partition, seconds("lag", timeout, timeout_ms) or 0.0))

    async def committed(
        self, partitions: Partitions | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return await self._run(self._core.committed(partitions))

    async def commit(self, offsets: Offsets | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        return await self._whole(self._core.commit(offsets))

    async def beginning_offsets(self, partitions: Partitions | None = None) -> dict[TopicPartition, int]:
        return await self._run(self._core.edges(partitions, EARLIEST))

    async def end_offsets(self, partitions: Partitions | None = None) -> dict[TopicPartition, int]:
        return await self._run(self._core.edges(partitions, LATEST))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return await self._run(self._core.offsets_for_times(timestamps))

    async def partitions_for(self, topic: str) -> list[int]:
        return await self._run(self._core.partitions_for(topic))

    def group_metadata(self) -> GroupMetadata:
        return self._core.group_metadata()

    def metrics(self) -> dict[str, float]:
        return self._core.metrics()

    async def close(self) -> None:
        """Commits (if it does so by itself), leaves the group, ends."""
        if not self._closed:
            await self._whole(self._end())

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- inside ------------------------------------------------------------------------------------

    async def _end(self) -> None:
        try:
            await self._core.leave()
        finally:
            self._closed = True
            await self._core.stop()

    def _whole(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        return self._run(self._shell.all_of(work))

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """One task at a time; a listener counts as the task whose call it runs in."""
        token = None if CALLER.get() is not None else CALLER.set(object())
        try:
            with self._guard:
                if self._closed:
                    raise IllegalState("the consumer is closed")
                self._loop = asyncio.get_running_loop()
                if token is not None:
                    await self._shell.wait_for_the_last()
                return await work
        finally:
            work.close()
            if token is not None:
                CALLER.reset(token)


class _OnTheLoop:
    """The consumer's shell: its caller is on the loop where the core's tasks run."""

    def __init__(self) -> None:
        self._last: asyncio.Task[Any] | None = None

    def home(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        return work

    def whole(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        return self.all_of(work)

    async def all_of(self, work: Coroutine[Any, Any, T]) -> T:
        """`work` to its end, also if its caller is cancelled; the next call waits for it."""
        before, task = self._last, asyncio.ensure_future(work)
        self._last = task
        try:
            return await asyncio.shield(task)
        finally:
            if task.done():
                self._last = before

    async def wait_for_the_last(self) -> None:
        if self._last is not None and not self._last.done():
            await asyncio.wait({self._last})
        self._last = None


class Admin:
    """As `ottla.Admin`: every method of it, awaited."""

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        self._inner = _AwaitedAdmin(Settings.parse(settings or {}, **more))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)
        if name.startswith("_") or not callable(method):
            raise AttributeError(f"Admin has no method {name!r}")

        async def call(*arguments: Any, **more: Any) -> Any:
            return await _whole(method(*arguments, **more))

        return call

    async def close(self) -> None:
        await self._inner.cluster.close()

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _AwaitedAdmin(_facade.Admin):
    """Its methods give the coroutines that the blocking one would run."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.cluster = Cluster(settings, LOOP)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return work  # type: ignore[return-value]


class _Room(Alone):
    """Tells those who wait for room, or for a flush, that a batch has settled."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def notify_all(self) -> None:
        self._changed.set()

    async def changed(self) -> None:
        self._changed.clear()
        await self._changed.wait()


async def _whole(work: Coroutine[Any, Any, T]) -> T:
    """`work` to its end, also if its caller is cancelled: nothing is left half done."""
    return await asyncio.shield(asyncio.ensure_future(work))


async def _settled(batch: Batch) -> None:
    if not batch.settled:
        future = asyncio.get_running_loop().create_future()
        batch.wake_when_settled(lambda: None if future.done() else future.set_result(None))
        await future


def _call_soon(call: Callable[[], object]) -> None:
    asyncio.get_running_loop().call_soon(call)
