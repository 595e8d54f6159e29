"""What both protocols' members share: the consumer asks for a target and says when it is reached."""

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.client.core.cluster import Cluster
from ottla.client.core.runtime import Task
from ottla.client.errors import PollTooLate
from ottla.client.settings import ConsumerSettings
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.errors import OttlaError

log = logging.getLogger(__name__)


class Member(ABC):
    """Lives on the loop. The consumer's `poll` does what needs the user's thread: revoke and assign."""

    def __init__(self, cluster: Cluster, notify: Callable[[], None]) -> None:
        assert isinstance(cluster.settings, ConsumerSettings) and cluster.settings.group_id is not None
        self._cluster = cluster
        self._runtime = cluster.runtime
        self._settings = cluster.settings
        self._notify = notify  # something waits for the consumer's next poll
        self.group: str = cluster.settings.group_id
        self.topics: frozenset[str] = frozenset()
        self.pattern: str | None = None
        self.owned: frozenset[TopicPartition] = frozenset()
        self.lost = False  # fenced or too late: what was owned is somebody else's already
        self.failure: Exception | None = None
        self.takes_patterns = False  # the broker evaluates regular expressions
        self._last_poll = self._runtime.now()
        self._tasks: set[Task[None]] = set()

    @property
    def must_revoke_all(self) -> bool:
        """Whether everything must be let go before the target can come (the eager way)."""
        return False

    @property
    @abstractmethod
    def is_member(self) -> bool:
        """Whether the group knows this member, as far as we know."""

    @abstractmethod
    def metadata(self) -> GroupMetadata: ...

    @abstractmethod
    def subscribe(self, topics: frozenset[str], pattern: str | None) -> None:
        """The topics to read; a pattern where the broker evaluates it."""

    @abstractmethod
    async def target(self, timeout_s: float) -> frozenset[TopicPartition] | None:
        """What this member should own, when it differs from what it owns; None: nothing to do (yet)."""

    @abstractmethod
    def reached(self, owned: frozenset[TopicPartition]) -> None:
        """The consumer has let go and taken on: it owns exactly this now."""

    @abstractmethod
    async def leave(self) -> None: ...

    def polled(self, now: float) -> None:
        """`now` by the loop's clock, which is the monotonic one. May be called from any thread."""
        self._last_poll = now

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether nothing waits for the consumer's next poll. May be asked from any thread."""

    @property
    def is_late(self) -> bool:
        """Whether the user has not polled for too long to be trusted with partitions."""
        silent_s = self._runtime.now() - self._last_poll
        return silent_s * 1000 > self._settings.max_poll_interval_ms

    async def _watch_polls(self) -> None:
        """On its own, as a broker may keep a heartbeat for a while before it answers."""
        pause_s = min(1.0, self._settings.max_poll_interval_ms / 4000)
        while self.failure is None:
            await self._runtime.sleep(pause_s)
            if self.is_late and not self.lost and self.owned:
                self._too_late()
                with contextlib.suppress(OttlaError):  # the session will end by itself
                    await self._leave_late()
                self._notify()

    @abstractmethod
    async def _leave_late(self) -> None:
        """Tells the group that what is owned here should be somebody else's."""

    def _too_late(self) -> None:
        log.warning(
            "%s",
            PollTooLate(f"group {self.group}: no poll for {self._settings.max_poll_interval_ms} ms; leaving"),
        )
        self.lost = True

    def _start(self, work: Coroutine[Any, Any, None]) -> Task[None]:
        task = self._runtime.spawn(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
