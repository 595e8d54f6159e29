"""Share-partitions at this broker, which leads their partitions: loaded when first asked for, gone with leadership."""

import logging
from collections.abc import Callable
from typing import Any

from ottla import errors
from ottla.broker.sharing.burials import Burials
from ottla.broker.sharing.dead_letters import DeadLetters
from ottla.broker.sharing.delays import dues_in
from ottla.broker.sharing.persister import Persister
from ottla.broker.sharing.settings import ShareSettings, share_settings
from ottla.broker.waits import Running, Wait
from ottla.config.settings import Config
from ottla.coordination.share.records import NO_OFFSET, ShareKey, ShareState
from ottla.coordination.share.window import RENEW, Acquired, Change, Window
from ottla.metadata.image import GROUP_RESOURCE, Image
from ottla.ports import Buffer, Clock, TimerHandle
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.wire import batch as batches
from ottla.wire.batch import BatchHeader

logger = logging.getLogger("ottla.share")
AT_EARLIEST, AT_LATEST = "earliest", "latest"
LONGEST_SLEEP_MS = 60_000


class SharePartition:
    """One group's window over one partition. Changes are written before they count."""

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        window: Window,
        state_epoch: int,
        persister: Persister,
        letters: DeadLetters,
        clock: Clock,
        settings: Callable[[], ShareSettings],
    ) -> None:
        self.key, self.partition, self.window = key, partition, window
        self.leader_epoch = partition.state.leader_epoch
        self._state_epoch = state_epoch
        self._persister, self._clock, self._settings = persister, clock, settings
        self._burials = Burials(key, partition, window, letters, clock, settings, self.carry_out)
        self._timer: TimerHandle | None = None
        self._watchers: list[Callable[[], None]] = []
        self.is_closed = False

    # -- delivery ----------------------------------------------------------------------------------

    def acquire(
        self,
        member: str,
        data: Buffer,
        end_offset: int,
        settings: ShareSettings,
        max_records: int,
        log: Log,
        *,
        strict: bool,
    ) -> tuple[Buffer, list[Acquired]]:
        """What is the member's now, and the batches that hold it."""
        self.window.rules = settings.rules
        headers = [
            (position, header)
            for position, header in batches.headers(data)
            if header.last_offset < end_offset
        ]
        spans = [
            (
                max(header.base_offset, self.window.start_offset),
                header.last_offset,
                self._is_readable(header, settings, log),
            )
            for _, header in headers
        ]
        dues = dues_in(data, self.window.seen_offset, self._clock.now_ms())
        acquired = self.window.acquire(
            member,
            spans,
            max_records,
            self._clock.monotonic_ms(),
            settings.lock_duration_ms,
            strict=strict,
            dues=dues,
        )
        self._arm()
        if not acquired:
            return b"", []
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        needed = [
            (at, header.size)
            for at, header in headers
            if header.last_offset >= first and header.base_offset <= last
        ]
        return memoryview(data)[needed[0][0] : sum(needed[-1])], acquired

    def _is_readable(self, header: BatchHeader, settings: ShareSettings, log: Log) -> bool:
        if header.is_control:
            return False
        if not settings.read_committed or not header.is_transactional:
            return True
        aborted = log.aborted_transactions(header.base_offset, header.last_offset + 1)
        return not any(
            each.producer_id == header.producer_id
            and each.first_offset <= header.base_offset <= each.last_offset
            for each in aborted
        )

    def begin(self) -> None:
        """Goes on with what the last leader left: delays, and letters that were not written."""
        self._arm()
        self._burials.go_on()

    def watch(self, wake: Callable[[], None]) -> "_Watch":
        """`wake` is called when records come back."""
        self._watchers.append(wake)
        return _Watch(self._watchers, wake)

    # -- changes -------------------------------------------------------------------------------------

    async def acknowledge(
        self, member: str, found: list[tuple[int, int, list[int]]], settings: ShareSettings
    ) -> None:
        now_ms = self._clock.monotonic_ms()
        if not settings.renews and any(RENEW in kinds for _, _, kinds in found):
            raise errors.InvalidRequest("share.renew.acknowledge.enable=false: this group renews no locks")
        self.window.rules = settings.rules
        change = self.window.acknowledge(
            member, found, now_ms, settings.lock_duration_ms, self._clock.now_ms()
        )
        self._arm()
        if change is not None:
            await self.carry_out(change)

    async def carry_out(self, change: Change) -> None:
        try:
            await self._persister.write(
                self.key,
                self._state_epoch,
                self.leader_epoch,
                change.start_offset,
                change.complete,
                change.batches,
            )
        except errors.ProtocolError as error:
            self.window.drop(change)
            self._arm()
            if isinstance(
                error, errors.FencedLeaderEpoch | errors.FencedStateEpoch | errors.UnknownTopicOrPartition
            ):
                self.close()  # the next one who asks loads it again
            raise
        self.window.apply(change)
        self._arm()
        self._burials.go_on()
        self._wake()

    def in_background(self, change: Change | None) -> None:
        """What nobody waits for. If it cannot be written the lock's time decides again."""
        if change is None:
            return

        def finished(_: Any, error: BaseException | None) -> None:
            if error is not None:
                logger.info("share-partition %s: %s", self.key, error)

        Running(self.carry_out(change), finished).step()

    def _on_time(self) -> None:
        """Locks have ended, or records may be delivered now."""
        self._timer = None
        if self.is_closed:
            return
        wall_ms = self._clock.now_ms()
        self.window.rules = self._settings().rules
        self.in_background(self.window.expire(self._clock.monotonic_ms(), wall_ms))
        ripe = self.window.ripen(wall_ms)
        self._arm()
        if ripe:
            self._wake()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        expiry_ms, due_ms = self.window.next_expiry_ms(), self.window.next_due_ms()
        delays = []
        if expiry_ms is not None:
            delays.append(expiry_ms - self._clock.monotonic_ms())
        if due_ms is not None:
            # The wall clock may be set: it is looked at once a minute at least.
            delays.append(min(due_ms - self._clock.now_ms(), LONGEST_SLEEP_MS))
        if delays and not self.is_closed:
            self._timer = self._clock.call_later(max(1, min(delays)), self._on_time)

    def _wake(self) -> None:
        for wake in list(self._watchers):
            wake()

    def close(self) -> None:
        self.is_closed = True
        self._burials.close()
        if self._timer is not None:
            self._timer.cancel()
        self._wake()


class _Watch:
    def __init__(self, watchers: list[Callable[[], None]], wake: Callable[[], None]) -> None:
        self._watchers, self._wake = watchers, wake

    def cancel(self) -> None:
        if self._wake in self._watchers:
            self._watchers.remove(self._wake)


class SharePartitions:
    def __init__(
        self,
        image: Image,
        persister: Persister,
        letters: DeadLetters,
        clock: Clock,
        config: Callable[[], Config],
    ) -> None:
        self._image, self._persister, self._letters = image, persister, letters
        self._clock, self._config = clock, config
        self._loaded: dict[ShareKey, SharePartition] = {}
        self._loading: dict[ShareKey, list[Wait[None]]] = {}

    def settings_of(self, group_id: str) -> ShareSettings:
        return share_settings(self._image.settings(GROUP_RESOURCE, group_id), self._config())

    def held_by(self, group_id: str) -> list[SharePartition]:
        return [each for key, each in self._loaded.items() if key.group_id == group_id]

    async def get(self, key: ShareKey, partition: Partition) -> SharePartition:
        """The share-partition, loaded by the first who asks; others wait for it."""
        while True:
            found = self._loaded.get(key)
            if found is not None and self._is_current(found, partition):
                return found
            if found is not None:
                del self._loaded[key]
                found.close()
            if key in self._loading:
                wait: Wait[None] = Wait()
                self._loading[key].append(wait)
                await wait
                continue
            self._loading[key] = []
            try:
                self._loaded[key] = await self._load(key, partition)
            finally:
                for wait in self._loading.pop(key):
                    wait.set(None)

    def _is_current(self, found: SharePartition, partition: Partition) -> bool:
        return (
            not found.is_closed
            and found.partition is partition
            and found.leader_epoch == partition.state.leader_epoch
        )

    async def _load(self, key: ShareKey, partition: Partition) -> SharePartition:
        log = partition.leader_log()
        epoch = partition.state.leader_epoch
        state = await self._persister.read(key, epoch)
        if state is None or state.start_offset == NO_OFFSET:
            state = await self._begin(key, epoch, log, state)
        start = max(state.start_offset, log.log_start_offset)
        window = Window.load(state, start, self.settings_of(key.group_id).rules)
        share = SharePartition(
            key,
            partition,
            window,
            state.state_epoch,
            self._persister,
            self._letters,
            self._clock,
            lambda: self.settings_of(key.group_id),
        )
        share.begin()
        return share

    async def _begin(
        self, key: ShareKey, leader_epoch: int, log: Log, state: ShareState | None
    ) -> ShareState:
        """Where a group begins is decided once, and kept: after a change of leaders `latest` would be another place."""
        start = await self._first_offset(key.group_id, log)
        state_epoch = 0 if state is None else state.state_epoch
        await self._persister.initialize(key, state_epoch, start)
        again = await self._persister.read(key, leader_epoch)
        if again is None:
            raise errors.UnknownTopicOrPartition()
        return again

    async def _first_offset(self, group_id: str, log: Log) -> int:
        reset = self.settings_of(group_id).auto_offset_reset
        if reset == AT_EARLIEST:
            return log.log_start_offset
        if reset == AT_LATEST:
            return log.high_watermark
        since_ms = self._clock.now_ms() - int(reset)
        found = log.offset_for_timestamp(since_ms, up_to=log.high_watermark)
        return log.high_watermark if found is None else found.offset

    def forget_group(self, group_id: str) -> None:
        for key in [key for key in self._loaded if key.group_id == group_id]:
            self._loaded.pop(key).close()

    def release(self, group_id: str, member: str) -> None:
        """The member's session is over."""
        for share in self.held_by(group_id):
            if not share.is_closed:
                share.in_background(share.window.release(member))

    async def released(self, share: SharePartition, member: str) -> None:
        change = share.window.release(member)
        if change is not None:
            await share.carry_out(change)
