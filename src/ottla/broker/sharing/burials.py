"""The way of records that a share group gave up to its topic for dead letters: written first, archived then."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from ottla import errors
from ottla.broker.sharing.dead_letters import DeadLetters, Letter
from ottla.broker.sharing.settings import ShareSettings
from ottla.broker.waits import Running
from ottla.coordination.share.outcomes import Change
from ottla.coordination.share.records import ShareKey
from ottla.coordination.share.runs import Run
from ottla.coordination.share.window import Window
from ottla.ports import Clock
from ottla.replication.partition import Partition
from ottla.wire import batch as batches
from ottla.wire import records
from ottla.wire.compression import OverLimit
from ottla.wire.records import Record

logger = logging.getLogger("ottla.share")
LETTERS_AT_ONCE, BYTES_AT_ONCE = 500, 256 * 1024
UNPACKED_MAX = 16 * 1024 * 1024  # a record of a batch that decompresses to more is not copied
RECORDS_MAX = 500_000  # nor one of a batch with more records: what finds them takes 72 bytes for each
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 1000, 30_000  # before another try


class Burials:
    """Of one share-partition. A topic that takes nothing is tried again and again: nothing is lost meanwhile."""

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        window: Window,
        letters: DeadLetters,
        clock: Clock,
        settings: Callable[[], ShareSettings],
        carry_out: Callable[[Change], Awaitable[None]],
    ) -> None:
        self._key, self._partition, self._window = key, partition, window
        self._letters, self._clock, self._settings, self._carry_out = letters, clock, settings, carry_out
        self._is_busy = self._is_closed = False  # busy: writing, or resting before another try
        self.is_writing = False
        self._pause_ms = FIRST_PAUSE_MS

    def go_on(self) -> None:
        if self._is_busy or self._is_closed or not self._window.dead():
            return
        self._is_busy = self.is_writing = True
        Running(self._bury_some(), self._on_finished).step()

    def close(self) -> None:
        self._is_closed = True

    def _on_finished(self, _: object, error: BaseException | None) -> None:
        self.is_writing = False
        if error is None:
            self._pause_ms = FIRST_PAUSE_MS
            self._on_rested()
            return
        logger.warning("share-partition %s: dead letters cannot be written: %s", self._key, error)
        self._clock.call_later(self._pause_ms, self._on_rested)
        self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)

    def _on_rested(self) -> None:
        self._is_busy = False
        self.go_on()

    async def _bury_some(self) -> None:
        run = self._window.dead()[0]
        first, last = run.first_offset, min(run.last_offset, run.first_offset + LETTERS_AT_ONCE - 1)
        settings = self._settings()
        if settings.dead_letter_topic:
            letters = self._letters_of(run, last, copied=settings.copies_dead_letters)
            last = letters[-1].offset
            try:
                await self._letters.write(settings.dead_letter_topic, letters)
            except errors.MessageTooLarge:  # it only just fitted its own topic: where it is must do
                bare = [replace(letter, record=None) for letter in letters]
                await self._letters.write(settings.dead_letter_topic, bare)
        if not self._is_closed:
            await self._carry_out(self._window.archive(first, last))

    def _letters_of(self, run: Run, last: int, *, copied: bool) -> list[Letter]:
        """The first of the run, as many as make a small batch; a large record has one of its own."""
        copies: dict[int, Record] = {}
        if copied:
            copies, end = self._copies(run.first_offset, last)
            last = min(last, end - 1)
        letters: list[Letter] = []
        size = 0
        for offset in range(run.first_offset, last + 1):
            record = copies.get(offset)
            size += 0 if record is None else len(record.key or b"") + len(record.value or b"")
            if letters and size > BYTES_AT_ONCE:
                break
            place = self._partition.state.topic, self._key.partition, offset
            letters.append(Letter(self._key.group_id, *place, run.delivery_count, run.verdict, record))
        return letters

    def _copies(self, first: int, last: int) -> tuple[dict[int, Record], int]:
        """As many as make a small batch, and the offset behind them. What has no copy is gone from the log."""
        log = self._partition.leader_log()
        copies: dict[int, Record] = {}
        at, size = max(first, log.log_start_offset), 0
        while at <= last and size <= BYTES_AT_ONCE:
            data = log.read(at, max_bytes=1, up_to=log.high_watermark, at_least_one=True).data
            if not data:
                return copies, last + 1
            size += len(data)
            header = batches.read_header(data)
            if header.count <= RECORDS_MAX:
                with suppress(OverLimit):
                    wanted = records.between(data, 0, header, first, last, limit=UNPACKED_MAX)
                    copies |= {record.offset: record for record in wanted}
            at = header.next_offset
        return copies, max(at, first + 1)
