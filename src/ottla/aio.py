"""The same clients with `await`: `ottla.aio.Producer`, `Consumer`, `Admin`.

One implementation serves both: the client works on threads of its own, and a call that may block waits there
instead of on your event loop. What is ready at once (a `send` into a buffer with room) never leaves the loop.
"""

import asyncio
import contextvars
import inspect
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ottla.client import admin as _admin
from ottla.client import consumer as _consumer
from ottla.client import producer as _producer
from ottla.client.blocking.deliveries import Delivery
from ottla.client.blocking.guard import CALLER
from ottla.client.timeouts import FLUSH_SECONDS_MAX, Timeout, seconds
from ottla.client.values import ConsumerRecord, GroupMetadata, OffsetAndMetadata, RecordMetadata
from ottla.client.values import OffsetAndTimestamp as OffsetAndTimestamp
from ottla.client.values import TopicPartition as TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

__all__ = ["Admin", "Consumer", "Producer"]

T = TypeVar("T")
P = ParamSpec("P")
Partitions = Iterable[tuple[str, int]]
Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class _Threads:
    """Where a client's blocking calls wait. The second thread is for a listener that calls the client back."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(2, f"ottla-aio-{name}")

    async def run(self, call: Callable[P, T], *arguments: P.args, **more: P.kwargs) -> T:
        context = contextvars.copy_context()
        if context.get(CALLER) is None:
            context.run(CALLER.set, object())  # two tasks are two callers; a listener is its poll's
        work = asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: context.run(call, *arguments, **more)
        )
        # A call that is given up goes on to its end on its thread: nothing is left half done.
        return await asyncio.shield(work)

    async def close(self, call: Callable[..., object], *arguments: Any, **more: Any) -> None:
        try:
            await self.run(call, *arguments, **more)
        finally:
            self._pool.shutdown(wait=False)


class Sent:
    """What `await producer.send(...)` gives: await it once more for where the record went."""

    __slots__ = ("_delivery",)

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def done(self) -> bool:
        return self._delivery.done()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._delivery.done():
            yield from self._settled().__await__()
        return self._delivery.result(0)

    async def _settled(self) -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._delivery.batch.wake_when_settled(lambda: loop.call_soon_threadsafe(_finish, future))
        await future


class Producer:
    """As `ottla.Producer`. `await producer.send(...)` queues; awaiting what it gives waits for the answer."""

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        self._blocking = _producer.Producer(settings, **more)
        self._threads = _Threads("producer")

    async def send(self, topic: str, value: Any = None, key: Any = None, **more: Any) -> Sent:
        """Arguments as of `ottla.Producer.send`. Waits while the topic is unknown or the buffer full."""
        if self._blocking.would_block(topic):
            return Sent(await self._threads.run(self._blocking.send, topic, value, key, **more))
        return Sent(self._blocking.send(topic, value, key, **more))

    async def send_and_wait(
        self, topic: str, value: Any = None, key: Any = None, **more: Any
    ) -> RecordMetadata:
        return await (await self.send(topic, value, key, **more))

    async def send_batch(
        self, rows: "pa.RecordBatch | pa.Table", topic: str | None = None
    ) -> list[RecordMetadata]:
        """Waits until all rows are acknowledged."""
        return await self._threads.run(lambda: self._blocking.send_batch(rows, topic).result())

    async def flush(self, timeout: Timeout = None, *, timeout_ms: float | None = None) -> None:
        await self._threads.run(self._blocking.flush, timeout, timeout_ms=timeout_ms)

    async def partitions_for(self, topic: str) -> list[int]:
        return await self._threads.run(self._blocking.partitions_for, topic)

    def metrics(self) -> dict[str, float]:
        return self._blocking.metrics()

    async def init_transactions(self) -> None:
        await self._threads.run(self._blocking.init_transactions)

    def begin_transaction(self) -> None:
        self._blocking.begin_transaction()

    async def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMetadata | str) -> None:
        await self._threads.run(self._blocking.send_offsets_to_transaction, offsets, group)

    async def commit_transaction(self) -> None:
        await self._threads.run(self._blocking.commit_transaction)

    async def abort_transaction(self) -> None:
        await self._threads.run(self._blocking.abort_transaction)

    async def close(self, timeout: Timeout = None, *, timeout_ms: float | None = None) -> None:
        limit_s = seconds("close", timeout, timeout_ms, whole_max=FLUSH_SECONDS_MAX)
        await self._threads.close(
            self._blocking.close, timeout_ms=None if limit_s is None else limit_s * 1000
        )

    async def __aenter__(self) -> "Producer":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._threads.close(self._blocking.__exit__, kind)


class Consumer:
    """As `ottla.Consumer`; `async for record in consumer`. Listeners may be functions or coroutines."""

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        self._blocking = _consumer.Consumer(settings, **more)
        self._threads = _Threads("consumer")

    async def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: Callable[[frozenset[TopicPartition]], Any] | None = None,
        on_revoked: Callable[[frozenset[TopicPartition]], Any] | None = None,
        on_lost: Callable[[frozenset[TopicPartition]], Any] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        await self._threads.run(
            self._blocking.subscribe,
            topics,
            pattern=pattern,
            on_assigned=_on_loop(loop, on_assigned),
            on_revoked=_on_loop(loop, on_revoked),
            on_lost=_on_loop(loop, on_lost),
        )

    async def unsubscribe(self) -> None:
        await self._threads.run(self._blocking.unsubscribe)

    def subscription(self) -> frozenset[str]:
        return self._blocking.subscription()

    async def assign(self, partitions: Partitions) -> None:
        await self._threads.run(self._blocking.assign, partitions)

    def assignment(self) -> frozenset[TopicPartition]:
        return self._blocking.assignment()

    async def poll(
        self, timeout: Timeout = 1.0, *, timeout_ms: float | None = None, max_records: int | None = None
    ) -> list[ConsumerRecord]:
        return await self._threads.run(
            self._blocking.poll, timeout, timeout_ms=timeout_ms, max_records=max_records
        )

    async def poll_arrow(
        self, timeout: Timeout = 1.0, *, timeout_ms: float | None = None, headers: bool = False
    ) -> "pa.RecordBatch":
        return await self._threads.run(
            self._blocking.poll_arrow, timeout, timeout_ms=timeout_ms, headers=headers
        )

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """A commit in the loop covers exactly the records seen so far."""
        while True:
            for record in self._blocking.take_ready() or await self.poll(1.0, max_records=1):
                yield record

    def wakeup(self) -> None:
        self._blocking.wakeup()

    async def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        await self._threads.run(self._blocking.seek, partition, offset)

    async def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        await self._threads.run(self._blocking.seek_to_beginning, partitions)

    async def seek_to_end(self, partitions: Partitions | None = None) -> None:
        await self._threads.run(self._blocking.seek_to_end, partitions)

    async def seek_to_time(self, timestamps: Mapping[TopicPartition, int] | int) -> None:
        await self._threads.run(self._blocking.seek_to_time, timestamps)

    async def pause(self, partitions: Partitions | None = None) -> None:
        await self._threads.run(self._blocking.pause, partitions)

    async def resume(self, partitions: Partitions | None = None) -> None:
        await self._threads.run(self._blocking.resume, partitions)

    def paused(self) -> frozenset[TopicPartition]:
        return self._blocking.paused()

    async def position(
        self, partition: tuple[str, int], timeout: Timeout = 60.0, *, timeout_ms: float | None = None
    ) -> int:
        return await self._threads.run(self._blocking.position, partition, timeout, timeout_ms=timeout_ms)

    async def lag(
        self, partition: tuple[str, int], timeout: Timeout = 60.0, *, timeout_ms: float | None = None
    ) -> int | None:
        return await self._threads.run(self._blocking.lag, partition, timeout, timeout_ms=timeout_ms)

    async def committed(
        self, partitions: Partitions | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return await self._threads.run(self._blocking.committed, partitions)

    async def commit(self, offsets: Offsets | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        return await self._threads.run(self._blocking.commit, offsets)

    async def beginning_offsets(self, partitions: Partitions | None = None) -> dict[TopicPartition, int]:
        return await self._threads.run(self._blocking.beginning_offsets, partitions)

    async def end_offsets(self, partitions: Partitions | None = None) -> dict[TopicPartition, int]:
        return await self._threads.run(self._blocking.end_offsets, partitions)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return await self._threads.run(self._blocking.offsets_for_times, timestamps)

    async def partitions_for(self, topic: str) -> list[int]:
        return await self._threads.run(self._blocking.partitions_for, topic)

    def group_metadata(self) -> GroupMetadata:
        return self._blocking.group_metadata()

    def metrics(self) -> dict[str, float]:
        return self._blocking.metrics()

    async def close(self) -> None:
        await self._threads.close(self._blocking.close)

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Admin:
    """As `ottla.Admin`: every method of it, awaited."""

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        self._blocking = _admin.Admin(settings, **more)
        self._threads = _Threads("admin")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._blocking, name)
        if name.startswith("_") or not callable(method):
            raise AttributeError(f"Admin has no method {name!r}")

        async def call(*arguments: Any, **more: Any) -> Any:
            return await self._threads.run(method, *arguments, **more)

        return call

    async def close(self) -> None:
        await self._threads.close(self._blocking.close)

    async def __aenter__(self) -> "Admin":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _on_loop(
    loop: asyncio.AbstractEventLoop, listener: Callable[[frozenset[TopicPartition]], Any] | None
) -> Callable[[frozenset[TopicPartition]], None] | None:
    """The listener on the user's loop, while the consumer's thread waits for it."""
    if listener is None:
        return None

    def call(partitions: frozenset[TopicPartition]) -> None:
        caller = CALLER.get()

        async def run() -> None:
            CALLER.set(caller)
            result = listener(partitions)
            if inspect.isawaitable(result):
                await result

        asyncio.run_coroutine_threadsafe(run(), loop).result()

    return call
