"""`ottla.aio.ShareConsumer`: as `ottla.ShareConsumer`, on the caller's loop."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Self

from ottla.client.core.sharing import ShareCore
from ottla.client.loop.runtime import LOOP
from ottla.client.share_consumer import Acknowledge, settings_of
from ottla.client.timeouts import Timeout, seconds
from ottla.client.values import ConsumerRecord
from ottla.errors import OttlaError


class ShareConsumer:
    """Made on the loop where it is used."""

    def __init__(self, settings: Mapping[str, object] | None = None, /, **more: object) -> None:
        self.settings, modes = settings_of(settings, more)
        self._core = ShareCore(self.settings, LOOP, modes)

    async def subscribe(self, topics: Iterable[str] | str) -> None:
        await self._core.subscribe([topics] if isinstance(topics, str) else list(topics))

    async def poll(self, timeout: Timeout = 1.0, *, timeout_ms: float | None = None) -> list[ConsumerRecord]:
        return await self._core.poll(seconds("poll", timeout, timeout_ms) or 0.0)

    def acknowledge(self, record: ConsumerRecord, kind: Acknowledge = Acknowledge.ACCEPT) -> None:
        self._core.acknowledge(record.topic, record.partition, record.offset, int(kind))

    def delivery_count(self, record: ConsumerRecord) -> int:
        return self._core.delivery_counts.get((record.topic, record.partition, record.offset), 1)

    async def commit(self) -> None:
        await self._core.commit()

    async def close(self) -> None:
        await self._core.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None:
            await self.close()
            return
        with suppress(OttlaError):  # the error that ended the block is the one to tell
            await self.close()
