"""`ottla.aio.Consumer`: as `ottla.Consumer`, on the caller's loop."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.blocking.guard import CALLER, Guard
from ottla.client.core.consumer import ConsumerCore, Offsets
from ottla.client.core.membership import Listener, Listeners
from ottla.client.core.offsets import EARLIEST, LATEST
from ottla.client.core.places import Partitions
from ottla.client.core.runtime import Runtime
from ottla.client.errors import IllegalState
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import ConsumerSettings
from ottla.client.timeouts import Timeout, seconds
from ottla.client.values import (
    ConsumerRecord,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

T = TypeVar("T")


class Consumer:
    """As `ottla.Consumer`; `async for record in consumer`. Listeners may be functions or coroutines."""

    def __init__(
        self, settings: Mapping[str, object] | None = None, /, *, runtime: Runtime = LOOP, **more: object
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
