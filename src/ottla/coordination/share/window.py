"""A share-partition as its leader sees it: the records in flight, who has them, how often each was delivered.

Everything before `start_offset` is done with; everything from `end_offset` on was never delivered. A change of what
must survive is first proposed (`Change`), then written by the share coordinator, then applied or dropped: meanwhile
nobody else may decide about its records. Acquisition is not written: a new leader frees all locks.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ottla import errors
from ottla.coordination.share.records import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    NO_OFFSET,
    Batch,
    ShareState,
)
from ottla.frozen import frozen

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
_DONE = (ACKNOWLEDGED, ARCHIVED)


@dataclass(slots=True)
class InFlight:
    state: int
    delivery_count: int
    member: str = ""
    until_ms: int = 0  # of the lock
    is_pending: bool = False  # a change of it is being written


@frozen
class Acquired:
    first_offset: int
    last_offset: int
    delivery_count: int


@frozen
class Change:
    """Offsets and what becomes of them: (offset, state, delivery count)."""

    records: tuple[tuple[int, int, int], ...]
    start_offset: int
    batches: tuple[Batch, ...]
    complete: int = 0  # records behind the start that are done with, once this is written


@dataclass(slots=True)
class Window:
    start_offset: int
    delivery_limit: int = 5
    locks_max: int = 2000
    records: dict[int, InFlight] = field(default_factory=dict)
    end_offset: int = 0

    @classmethod
    def load(cls, state: ShareState, start_offset: int, delivery_limit: int, locks_max: int) -> "Window":
        """From what was written; records that were acquired then are available again."""
        window = cls(start_offset, delivery_limit, locks_max, end_offset=start_offset)
        for batch in state.batches:
            for offset in range(max(batch.first_offset, start_offset), batch.last_offset + 1):
                held = AVAILABLE if batch.state == ACQUIRED else batch.state
                window.records[offset] = InFlight(held, batch.delivery_count)
                window.end_offset = max(window.end_offset, offset + 1)
        for offset in range(window.start_offset, window.end_offset):
            window.records.setdefault(offset, InFlight(AVAILABLE, 0))
        window._advance()
        return window

    # -- delivery ------------------------------------------------------------------------------------

    @property
    def next_fetch_offset(self) -> int:
        """The first record that may be delivered: one that came back, or the first that never was."""
        free = (offset for offset, record in self.records.items() if _is_free(record))
        return min(free, default=self.end_offset)

    @property
    def has_room(self) -> bool:
        """Whether records may be delivered that never were: locks are bounded."""
        return self.end_offset - self.start_offset < self.locks_max

    def is_worth_fetching(self, log_end_offset: int) -> bool:
        if any(_is_free(record) for record in self.records.values()):
            return True
        return self.has_room and self.end_offset < log_end_offset

    def acquire(
        self,
        member: str,
        batches: Iterable[tuple[int, int, bool]],
        max_records: int,
        now_ms: int,
        lock_ms: int,
        *,
        strict: bool = False,
    ) -> list[Acquired]:
        """Locks what of the fetched batches (first offset, last offset, whether there is data for readers) is free.

        Whole batches, so that a batch goes to one member; the first one always, even if it has more than
        `max_records` (`strict` members never get more). Offsets between batches were compacted away: they count as
        archived."""
        acquired: list[Acquired] = []
        taken = 0
        for first, last, readable in batches:
            if last < self.start_offset or (taken >= max_records and readable):
                continue
            first = max(first, self.start_offset)
            if not self._make_room(first, last):
                break
            for offset in range(first, last + 1):
                record = self.records[offset]
                if not readable:
                    if record.state == AVAILABLE:
                        record.state = ARCHIVED
                    continue
                if not _is_free(record) or (strict and taken >= max_records):
                    continue
                record.state, record.member, record.until_ms = ACQUIRED, member, now_ms + lock_ms
                record.delivery_count += 1
                taken += 1
                _extend(acquired, offset, record.delivery_count)
        self._advance()
        return acquired

    def _make_room(self, first: int, last: int) -> bool:
        """Lets the window reach to the end of a batch; False if it is full."""
        if last < self.end_offset:
            return True
        if not self.has_room:
            return False
        for offset in range(self.end_offset, first):
            self.records[offset] = InFlight(ARCHIVED, 0)
        for offset in range(max(first, self.end_offset), last + 1):
            self.records[offset] = InFlight(AVAILABLE, 0)
        self.end_offset = last + 1
        return True

    # -- acknowledgement -----------------------------------------------------------------------------

    def acknowledge(
        self, member: str, batches: Iterable[tuple[int, int, list[int]]], now_ms: int, lock_ms: int
    ) -> Change | None:
        """`batches` are (first offset, last offset, types): one type for all, or one for each offset.

        Raises INVALID_RECORD_STATE if the member does not hold one of them; nothing is changed then. None if there is
        nothing to write: locks that are renewed."""
        outcome: dict[int, tuple[int, int]] = {}
        renewed: list[InFlight] = []
        for offset, kind in _each(batches):
            record = self.records.get(offset)
            if record is None and offset < self.start_offset:
                continue  # done with since: the log start moved, or everything before was acknowledged
            if record is None or record.is_pending or offset in outcome:
                raise errors.InvalidRecordState()
            if kind == GAP and record.state == ARCHIVED:
                continue
            if record.state != ACQUIRED or record.member != member:
                raise errors.InvalidRecordState()
            if kind == RENEW:
                renewed.append(record)
            else:
                outcome[offset] = self._after(kind, record)
        for record in renewed:
            record.until_ms = now_ms + lock_ms
        return self._change(outcome) if outcome else None

    def _after(self, kind: int, record: InFlight) -> tuple[int, int]:
        match kind:
            case 1:  # accept
                return ACKNOWLEDGED, record.delivery_count
            case 2:  # release
                exhausted = record.delivery_count >= self.delivery_limit
                return (ARCHIVED if exhausted else AVAILABLE), record.delivery_count
            case 0 | 3:  # gap, reject
                return ARCHIVED, record.delivery_count
        raise errors.InvalidRequest(f"there is no acknowledgement of type {kind}")

    def release(self, member: str) -> Change | None:
        """The member's session has ended: what it holds comes back, and counts as never delivered."""
        outcome = {}
        for offset, record in self.records.items():
            if record.state == ACQUIRED and record.member == member and not record.is_pending:
                outcome[offset] = (AVAILABLE, max(0, record.delivery_count - 1))
        return self._change(outcome) if outcome else None

    def expire(self, now_ms: int) -> Change | None:
        """Locks whose time is over: the records come back, or are given up after the last delivery."""
        outcome = {}
        for offset, record in self.records.items():
            if record.state == ACQUIRED and record.until_ms <= now_ms and not record.is_pending:
                outcome[offset] = self._after(RELEASE, record)
        return self._change(outcome) if outcome else None

    def next_expiry_ms(self) -> int | None:
        held = (r.until_ms for r in self.records.values() if r.state == ACQUIRED and not r.is_pending)
        return min(held, default=None)

    # -- changes ---------------------------------------------------------------------------------------

    def _change(self, outcome: dict[int, tuple[int, int]]) -> Change:
        for offset in outcome:
            self.records[offset].is_pending = True
        start = self.start_offset
        while start < self.end_offset and self._state_after(start, outcome) in _DONE:
            start += 1
        records = tuple((offset, *after) for offset, after in sorted(outcome.items()))
        complete = sum(self._state_after(at, outcome) in _DONE for at in range(start, self.end_offset))
        behind = (record for record in records if record[0] >= start)
        return Change(records, start, tuple(_batches(behind)), complete)

    def _state_after(self, offset: int, outcome: dict[int, tuple[int, int]]) -> int:
        """A change that is still being written does not count."""
        if offset in outcome:
            return outcome[offset][0]
        record = self.records[offset]
        return ACQUIRED if record.is_pending else record.state

    def apply(self, change: Change) -> None:
        """It is written."""
        for offset, state, count in change.records:
            record = self.records.get(offset)
            if record is not None:
                self.records[offset] = InFlight(state, count)
        self._advance()

    def drop(self, change: Change) -> None:
        """It could not be written: everything is as before."""
        for offset, _, _ in change.records:
            record = self.records.get(offset)
            if record is not None:
                record.is_pending = False

    def on_log_start(self, offset: int) -> None:
        """Records below are gone from the log. What members hold they may still acknowledge."""
        for at in range(self.start_offset, min(offset, self.end_offset)):
            record = self.records[at]
            if record.state == AVAILABLE and not record.is_pending:
                record.state = ARCHIVED
        if offset > self.end_offset:
            self.end_offset = offset
            for at in range(self.start_offset, offset):
                self.records.setdefault(at, InFlight(ARCHIVED, 0))
        self._advance()

    def _advance(self) -> None:
        while self.start_offset < self.end_offset:
            record = self.records[self.start_offset]
            if record.state not in _DONE or record.is_pending:
                return
            del self.records[self.start_offset]
            self.start_offset += 1

    def count(self, state: int) -> int:
        return sum(record.state == state for record in self.records.values())


def _is_free(record: InFlight) -> bool:
    return record.state == AVAILABLE and not record.is_pending


def _each(batches: Iterable[tuple[int, int, list[int]]]) -> Iterator[tuple[int, int]]:
    end = NO_OFFSET
    for first, last, kinds in batches:
        if first > last or first <= end or len(kinds) not in (1, last - first + 1):
            raise errors.InvalidRequest(
                "batches of acknowledgements are in order, and have one type or one for each"
            )
        end = last
        for offset in range(first, last + 1):
            yield offset, kinds[0] if len(kinds) == 1 else kinds[offset - first]


def _extend(acquired: list[Acquired], offset: int, count: int) -> None:
    last = acquired[-1] if acquired else None
    if last is not None and last.last_offset + 1 == offset and last.delivery_count == count:
        acquired[-1] = Acquired(last.first_offset, offset, count)
    else:
        acquired.append(Acquired(offset, offset, count))


def _batches(records: Iterable[tuple[int, int, int]]) -> Iterator[Batch]:
    """Neighbours that are alike as one."""
    current: Batch | None = None
    for offset, state, count in records:
        if (
            current is not None
            and current.last_offset + 1 == offset
            and (current.state, current.delivery_count) == (state, count)
        ):
            current = Batch(current.first_offset, offset, state, count)
            continue
        if current is not None:
            yield current
        current = Batch(offset, offset, state, count)
    if current is not None:
        yield current
