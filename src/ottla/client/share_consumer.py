"""`ShareConsumer`: takes records as one of the members that share them. One thread at a time."""

from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import Any, Self, TypeVar

from ottla.client.blocking.engine import Engine
from ottla.client.blocking.guard import Guard
from ottla.client.core import sharing
from ottla.client.core.sharing import Modes, ShareCore
from ottla.client.errors import SettingError
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import ConsumerSettings
from ottla.client.timeouts import Timeout, seconds
from ottla.client.unused_settings import SHARE_REFUSED
from ottla.client.values import ConsumerRecord
from ottla.errors import OttlaError

T = TypeVar("T")
MODE, ACQUIRE_MODE = "share.acknowledgement.mode", "share.acquire.mode"


class Acknowledge(IntEnum):
    """What became of a record: done with, for another try, not to be tried again, still being worked on."""

    ACCEPT = sharing.ACCEPT
    RELEASE = sharing.RELEASE
    REJECT = sharing.REJECT
    RENEW = sharing.RENEW


class ShareConsumer:
    """`ShareConsumer({"bootstrap.servers": ..., "group.id": ...})` or keyword arguments with underscores.

    With `share.acknowledgement.mode=implicit` (the default) the records of a poll are accepted by the next poll, by
    `commit` or by `close`. With `explicit` each of them has to be acknowledged before the next poll, unless
    the consumer `holds` them: then it may decide later, within the lock's time.

    A poll brings whole batches, or with `share.acquire.mode=record_limit` never more than `max.poll.records`.
    """

    def __init__(
        self, settings: Mapping[str, object] | None = None, /, *, holds: bool = False, **more: object
    ) -> None:
        self.settings, self._modes = settings_of(settings, more)
        self._holds = holds
        self._guard = Guard("share consumer")
        self._engine = Engine("share consumer", self._guard.refuse)
        self._core: ShareCore | None = None

    def subscribe(self, topics: Iterable[str] | str) -> None:
        names = [topics] if isinstance(topics, str) else list(topics)
        self._run(self._open_core().subscribe(names))

    def poll(self, timeout: Timeout = 1.0, *, timeout_ms: float | None = None) -> list[ConsumerRecord]:
        """Records that are locked for this member, waiting up to `timeout` seconds for the first."""
        return self._run(self._open_core().poll(seconds("poll", timeout, timeout_ms) or 0.0))

    def acknowledge(self, record: ConsumerRecord, kind: Acknowledge = Acknowledge.ACCEPT) -> None:
        """Sent with the next poll or commit."""
        self._open_core().acknowledge(record.topic, record.partition, record.offset, int(kind))

    def delivery_count(self, record: ConsumerRecord) -> int:
        """How often the record was delivered, this time included."""
        return self._open_core().delivery_counts.get((record.topic, record.partition, record.offset), 1)

    def commit(self) -> None:
        """What was decided so far is written when this returns; raises if the broker refused some of it."""
        self._run(self._open_core().commit())

    def close(self) -> None:
        if self._engine.is_closed or self._engine.is_forked:
            return
        try:
            if self._core is not None:
                self._engine.run(self._core.close())
        finally:
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
            return
        with suppress(OttlaError):  # the error that ended the block is the one to tell
            self.close()

    def _open_core(self) -> ShareCore:
        """On the engine's loop, where its events belong."""
        if self._core is None:
            self._core = self._engine.run(self._make())
        return self._core

    async def _make(self) -> ShareCore:
        return ShareCore(self.settings, LOOP, self._modes, holds=self._holds)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            with self._guard:
                return self._engine.run(work)
        finally:
            work.close()


def settings_of(
    settings: Mapping[str, object] | None, more: Mapping[str, object]
) -> tuple[ConsumerSettings, Modes]:
    merged = {**(settings or {}), **{name.replace("_", "."): value for name, value in more.items()}}
    modes = Modes(
        explicit=_second_of(merged, MODE, "implicit", "explicit"),
        record_limit=_second_of(merged, ACQUIRE_MODE, "batch_optimized", "record_limit"),
    )
    for name in merged:
        if (reason := SHARE_REFUSED.get(name.replace(".", "_"))) is not None:
            raise SettingError(f"{name} cannot be set of a share consumer: {reason}")
    parsed = ConsumerSettings.parse(merged)
    if not parsed.group_id:
        raise SettingError("a share consumer needs group.id: the group whose members share the records")
    return parsed, modes


def _second_of(merged: dict[str, object], name: str, first: str, second: str) -> bool:
    """Which of its two values a setting has; the first one without it."""
    value = str(merged.pop(name, first)).lower()
    if value not in (first, second):
        raise SettingError(f"{name}={value}; it is {first} or {second}")
    return value == second
