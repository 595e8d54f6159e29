"""A viewer's way to the cluster: clients with one identity, and the sampler that asks with it."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ottla import aio
from ottla.client.admin import Admin
from ottla.console.ages import Ages
from ottla.console.board import TOPICS, Board
from ottla.console.mirrors import MirrorTopics
from ottla.console.sampler import Sampler

T = TypeVar("T")
SAMPLE_TIMEOUT_MS, PAGE_TIMEOUT_MS = 4_000, 10_000


class Workspace:
    """Viewers with the same identity share one. Clients are opened when first needed."""

    def __init__(self, settings: Mapping[str, Any], metrics: Sequence[str] = ()) -> None:
        self.settings = dict(settings)
        self.admin = aio.Admin(self._with(PAGE_TIMEOUT_MS))
        self._sampling_admin = aio.Admin(self._with(SAMPLE_TIMEOUT_MS))
        self.sampler = Sampler(self._sampling_admin, metrics=metrics)
        self.used_at = time.monotonic()
        self.board = Board()
        self.ages = Ages()
        self.mirror_topics = MirrorTopics()
        self._blocking: Admin | None = None
        self._blocking_lock = asyncio.Lock()

    @property
    def has_homecare(self) -> bool:
        return all(topic in self.sampler.snapshot.topics for topic in TOPICS)

    def _with(self, timeout_ms: int) -> dict[str, Any]:
        return {
            "client.id": "ottla-console",
            **self.settings,
            "default.api.timeout.ms": timeout_ms,
            "request.timeout.ms": timeout_ms,
        }

    def consumer(self, **more: Any) -> aio.Consumer:
        """For looking: in no group, and with small answers."""
        settings = {
            "max.partition.fetch.bytes": 256 * 1024,
            "fetch.max.bytes": 4 * 1024 * 1024,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        return aio.Consumer({**self._with(PAGE_TIMEOUT_MS), **settings})

    def producer(self) -> aio.Producer:
        return aio.Producer(
            {**self._with(PAGE_TIMEOUT_MS), "delivery.timeout.ms": PAGE_TIMEOUT_MS, "linger.ms": 0}
        )

    async def in_thread(self, work: Callable[[Admin], T]) -> T:
        """For what is written with the blocking client; one at a time."""
        async with self._blocking_lock:
            return await asyncio.to_thread(self._blockingly, work)

    def _blockingly(self, work: Callable[[Admin], T]) -> T:
        if self._blocking is None:
            self._blocking = Admin(self._with(PAGE_TIMEOUT_MS))
        return work(self._blocking)

    async def close(self) -> None:
        self.sampler.close()
        await self.board.close()
        await self.admin.close()
        await self._sampling_admin.close()
        if self._blocking is not None:
            await asyncio.to_thread(self._blocking.close)
