"""Commits of one consumer: now, later with a callback, every `auto.commit.interval.ms`, and at the end."""

import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from ottla.client.core import offsets as offsets_api
from ottla.client.core.cluster import Cluster
from ottla.client.core.metrics import ConsumerCounts
from ottla.client.core.runtime import Shell, Task
from ottla.client.settings import ConsumerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError, StaleMemberEpoch

log = logging.getLogger(__name__)
EPOCH_TRIES = 20
Exact = dict[TopicPartition, OffsetAndMetadata]
Callback = Callable[[Exact, Exception | None], object]


class Committer:
    """`positions` tells where the consumer is, `who` tells which member commits. Callbacks run in `call_back`."""

    def __init__(
        self,
        shell: Shell,
        cluster: Cluster,
        positions: Callable[[], Exact],
        who: Callable[[], GroupMetadata],
        counts: ConsumerCounts,
        clock: Callable[[], float],
    ) -> None:
        assert isinstance(cluster.settings, ConsumerSettings)
        self._settings = cluster.settings
        self._home, self._cluster, self._positions, self._who = shell.home, cluster, positions, who
        self._runtime = cluster.runtime
        self._counts, self._clock = counts, clock
        self._known: Exact = {}  # what the broker has acknowledged
        self._next_auto: float | None = None
        self._pending: set[Task[None]] = set()
        self._answered: deque[tuple[Callback, Exact, Exception | None]] = deque()

    @property
    def is_automatic(self) -> bool:
        return self._settings.group_id is not None and self._settings.enable_auto_commit

    @property
    def is_due(self) -> bool:
        """Whether a callback waits or a commit is due."""
        due = self._next_auto is None or self._clock() >= self._next_auto
        return bool(self._answered) or (self.is_automatic and due)

    def exact(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None) -> Exact:
        positions: Mapping[TopicPartition, OffsetAndMetadata | int]
        positions = self._positions() if offsets is None else offsets
        return {
            TopicPartition(*p): OffsetAndMetadata(position) if isinstance(position, int) else position
            for p, position in positions.items()
        }

    async def commit(self, offsets: Exact) -> None:
        """Waits for the answer, and for those of earlier asynchronous commits: their order stays."""
        try:
            await self._home(self._commit(self._who(), offsets))
        finally:
            await self.call_back()

    async def commit_async(self, offsets: Exact, callback: Callback | None) -> None:
        """One try: a second one could undo a later commit. The callback is called by the next `poll`."""
        try:
            who = self._who()
        except OttlaError as error:
            if callback is None:
                raise
            self._answered.append((callback, offsets, error))
            return

        async def begin() -> None:
            earlier = set(self._pending)
            task = self._runtime.spawn(self._commit_once(who, offsets, callback, earlier))
            self._pending.add(task)
            task.add_done_callback(self._pending.discard)

        await self._home(begin())

    async def call_back(self) -> None:
        while self._answered:
            callback, offsets, error = self._answered.popleft()
            result = callback(offsets, error)
            if inspect.isawaitable(result):
                await result

    async def maybe_auto_commit(self) -> None:
        now = self._clock()
        if self._next_auto is None:
            self._next_auto = now + self._settings.auto_commit_interval_ms / 1000
        if now >= self._next_auto:
            self._next_auto = now + self._settings.auto_commit_interval_ms / 1000
            changed = self._changed(None)
            if changed:
                await self.commit_async(changed, _warn)

    async def commit_quietly(self, partitions: Iterable[TopicPartition]) -> None:
        """On the way out a failed commit means that records come again, which at-least-once allows."""
        changed = self._changed(partitions)
        if not changed:
            return
        try:
            await self._home(self._commit(self._who(), changed))
        except OttlaError as error:
            log.warning("offsets were not committed: %s", error)

    async def stop(self) -> None:
        pending = list(self._pending)
        for task in pending:
            task.cancel()
        await self._runtime.gather(pending)

    def forget(self, partition: TopicPartition) -> None:
        self._known.pop(partition, None)

    def _changed(self, partitions: Iterable[TopicPartition] | None) -> Exact:
        positions = self._positions()
        chosen = positions if partitions is None else [p for p in partitions if p in positions]
        return {p: positions[p] for p in chosen if self._known.get(p) != positions[p]}

    async def _commit(self, who: GroupMetadata, offsets: Exact) -> None:
        if self._pending:
            await self._runtime.wait(self._pending)
        await self._send(who, offsets, once=False)

    async def _commit_once(
        self,
        who: GroupMetadata,
        offsets: Exact,
        callback: Callback | None,
        earlier: set[Task[None]],
    ) -> None:
        error: Exception | None = None
        if earlier:
            await self._runtime.wait(earlier)
        try:
            await self._send(who, offsets, once=True)
        except OttlaError as failure:
            error = failure
        if callback is not None:
            self._answered.append((callback, offsets, error))
        else:
            _warn(offsets, error)

    async def _send(self, who: GroupMetadata, offsets: Exact, *, once: bool) -> None:
        tries = EPOCH_TRIES
        while True:
            try:
                await offsets_api.commit(self._cluster, who, offsets, once=once)
                break
            except StaleMemberEpoch:
                # The group has moved on, which the next heartbeat reports; this consumer is still a member.
                tries -= 1
                if not tries:
                    self._counts.failed_commits += 1
                    raise
                await self._runtime.sleep(self._settings.retry_backoff_ms / 1000)
                who = self._who()
            except OttlaError:
                self._counts.failed_commits += 1
                raise
        self._counts.commits += 1
        self._known.update(offsets)


def _warn(offsets: Exact, error: Exception | None) -> None:
    if error is not None:
        log.warning("offsets were not committed: %s", error)
