"""A share-partition: what a group has acquired and settled of one partition, written before it counts."""

import logging
from bisect import bisect_right
from collections.abc import Callable

from ottla import errors
from ottla.broker.sharing.burials import Burials
from ottla.broker.sharing.dead_letters import DeadLetters
from ottla.broker.sharing.delays import Dues
from ottla.broker.sharing.persister import Persister
from ottla.broker.sharing.settings import ShareSettings
from ottla.broker.waits import Running, Ticket, Wait
from ottla.coordination.share.outcomes import Acquired, Change
from ottla.coordination.share.records import ShareKey
from ottla.coordination.share.window import RENEW, Window
from ottla.ports import Buffer, Clock, TimerHandle
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.wire import batch as batches
from ottla.wire.batch import BatchHeader

logger = logging.getLogger("ottla.share")
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
        self._timer_ms = 0  # when it fires
        # Of each record that was delivered last, with its part of the batch; 0: not known.
        self.record_bytes = 0
        self._watchers: dict[_Watch, Callable[[], None]] = {}  # who waits longest is first
        self._log_ticket: Ticket | None = None
        self._wakes = 0
        self._writes = 0  # changes that are being written
        self.is_closed = False

    # -- delivery ----------------------------------------------------------------------------------

    def acquire(
        self,
        member: str,
        data: Buffer,
        from_offset: int,
        end_offset: int,
        settings: ShareSettings,
        max_records: int,
        log: Log,
        dues: Dues,
        *,
        strict: bool,
    ) -> tuple[Buffer, list[Acquired]]:
        """What is the member's now, and the batches that hold it. `data` was read from `from_offset` on. Only what was
        looked at for `dues` is given away."""
        self.window.rules = settings.rules
        headers = [
            (position, header)
            for position, header in batches.headers(data)
            if header.last_offset < end_offset and header.base_offset < dues.end_offset
        ]
        if not headers:
            return b"", []
        aborted = _Aborted(headers, log) if settings.read_committed else None
        spans = [
            (
                max(header.base_offset, self.window.start_offset),
                min(header.last_offset, dues.end_offset - 1),
                not header.is_control and (aborted is None or not aborted.has(header)),
            )
            for _, header in headers
        ]
        seen = self.window.seen_offset
        acquired = self.window.acquire(
            member,
            spans,
            max_records,
            self._clock.monotonic_ms(),
            settings.lock_duration_ms,
            from_offset=from_offset,
            strict=strict,
            dues={offset: due_ms for offset, due_ms in dues.times_ms.items() if offset >= seen},
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
        taken = memoryview(data)[needed[0][0] : sum(needed[-1])]
        self.record_bytes = len(taken) // (last - first + 1) + 1
        return taken, acquired

    def begin(self) -> None:
        """Goes on with what the last leader left: delays, and letters that were not written."""
        self._arm()
        self._burials.go_on()

    # Fetches that wait: one is woken at a time, the one that waits longest. Twenty would find what the first of them
    # takes, and wait again. A fetch that was woken and leaves passes on what is left.

    def watch(self, wake: Callable[[], None], *, read_committed: bool) -> "_Watch":
        """`wake` is called when there may be something to deliver: records came back, or the log has grown."""
        watch = _Watch(self)
        self._watchers[watch] = wake
        self._listen_to_log(read_committed)
        return watch

    def forget(self, watch: "_Watch") -> None:
        self._watchers.pop(watch, None)
        if not self._watchers:
            self._stop_listening()

    def pass_on(self, *, read_committed: bool) -> None:
        """A fetch that was woken leaves: the next one gets what it has left, if that is anything."""
        if not self._watchers:
            return
        try:
            end = self.partition.visible_end(self.partition.leader_log(), read_committed=read_committed)
        except errors.ProtocolError:
            self._wake_all()
            return
        if self.window.is_worth_fetching(end):
            self._wake_one()
        else:
            self._listen_to_log(read_committed)

    def _listen_to_log(self, read_committed: bool) -> None:
        if self._log_ticket is None and self.window.has_room:
            waiters = self.partition.waiters(read_committed=read_committed)
            self._log_ticket = waiters.add(self.window.end_offset + 1, self._on_log)

    def _stop_listening(self) -> None:
        if self._log_ticket is not None:
            self._log_ticket.cancel()
            self._log_ticket = None

    def _on_log(self) -> None:
        """It has grown, or another broker leads, which all are told."""
        self._log_ticket = None
        try:
            self.partition.leader_log()
        except errors.ProtocolError:
            self._wake_all()
            return
        if self.partition.state.leader_epoch == self.leader_epoch:
            self._wake_one()
        else:
            self._wake_all()

    def _wake_one(self) -> None:
        for wake in self._watchers.values():
            wake()
            return

    def _wake_all(self) -> None:
        for wake in list(self._watchers.values()):
            wake()

    def mark(self, settings: ShareSettings) -> tuple[int, int]:
        """Another one when there may be something to deliver that was not there."""
        log = self.partition.leader_log()
        return self.partition.visible_end(log, read_committed=settings.read_committed), self._wakes

    @property
    def is_idle(self) -> bool:
        """It can be loaded again at little cost: nobody has a lock, or waits, and no record waits for its time. One
        that is closed has to be loaded again in any case."""
        return self.is_closed or (
            self.is_settled
            and not self._watchers
            and self.window.is_at_rest
            and self._next_time_ms() is None  # a timer may still run for a lock that has ended since
        )

    @property
    def is_settled(self) -> bool:
        """All that it has decided is written. What is loaded before that does not know of it."""
        return not self._writes and not self._burials.is_writing

    # -- changes -------------------------------------------------------------------------------------

    async def acknowledge(
        self, member: str, batches: list[tuple[int, int, list[int]]], settings: ShareSettings
    ) -> None:
        now_ms = self._clock.monotonic_ms()
        if not settings.renews and any(RENEW in kinds for _, _, kinds in batches):
            raise errors.InvalidRequest("share.renew.acknowledge.enable=false: this group renews no locks")
        self.window.rules = settings.rules
        change = self.window.acknowledge(
            member, batches, now_ms, settings.lock_duration_ms, self._clock.now_ms()
        )
        self._arm()
        if change is not None:
            await self.carry_out(change)

    def carry_out(self, change: Change) -> Wait[None]:
        """Ends when the change is written. The write does not depend on who awaits it: a client that disconnects ends
        its handler there, and records of a change that is neither applied nor dropped are locked for ever."""
        written: Wait[None] = Wait()
        Running(self._write(change), lambda _, error: written.set(error)).step()
        return written

    async def _write(self, change: Change) -> None:
        self._writes += 1
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
        finally:
            self._writes -= 1
        self.window.apply(change)
        self._arm()
        self._burials.go_on()
        self._wake()

    def in_background(self, change: Change | None) -> None:
        """What nobody waits for. If it cannot be written the lock's time decides again."""
        if change is None:
            return

        def finished(_: object, error: BaseException | None) -> None:
            if error is not None:
                logger.info("share-partition %s: %s", self.key, error)

        Running(self._write(change), finished).step()

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
        """A timer that is early stays: it looks and waits again. Most locks are acknowledged long before they end, and
        a timer that followed every one of them was a tenth of what a delivery takes."""
        at_ms = None if self.is_closed else self._next_time_ms()
        if at_ms is not None and self._timer is not None and self._timer_ms <= at_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ms is not None:
            delay_ms = max(1, at_ms - self._clock.monotonic_ms())
            self._timer, self._timer_ms = self._clock.call_later(delay_ms, self._on_time), at_ms

    def _next_time_ms(self) -> int | None:
        """When a lock ends or a delay is over, by the monotonic clock."""
        expiry_ms, due_ms = self.window.next_expiry_ms(), self.window.next_due_ms()
        if due_ms is None:
            return expiry_ms
        # The wall clock may be set: it is looked at once a minute at least.
        due_ms = self._clock.monotonic_ms() + min(due_ms - self._clock.now_ms(), LONGEST_SLEEP_MS)
        return due_ms if expiry_ms is None else min(expiry_ms, due_ms)

    def _wake(self) -> None:
        self._wakes += 1
        self._wake_one()

    def close(self) -> None:
        self.is_closed = True
        self._burials.close()
        self._stop_listening()
        if self._timer is not None:
            self._timer.cancel()
        self._wakes += 1
        self._wake_all()


class _Aborted:
    """The transactions among these batches that were aborted, by producer: those of one do not overlap."""

    def __init__(self, headers: list[tuple[int, BatchHeader]], log: Log) -> None:
        self._by_producer: dict[int, list[tuple[int, int]]] = {}
        if any(header.is_transactional for _, header in headers):
            start, end = headers[0][1].base_offset, headers[-1][1].next_offset
            for aborted in log.aborted_transactions(start, end):
                spans = self._by_producer.setdefault(aborted.producer_id, [])
                spans.append((aborted.first_offset, aborted.last_offset))
        for spans in self._by_producer.values():
            spans.sort()

    def has(self, header: BatchHeader) -> bool:
        spans = self._by_producer.get(header.producer_id) if header.is_transactional else None
        if spans is None:
            return False
        at = bisect_right(spans, (header.base_offset, 1 << 63)) - 1
        return at >= 0 and header.base_offset <= spans[at][1]


class _Watch:
    def __init__(self, share: SharePartition) -> None:
        self._share = share

    def cancel(self) -> None:
        self._share.forget(self)
