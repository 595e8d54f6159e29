"""A share-partition as its leader sees it: the records in flight, who has them, how often each was delivered.

Everything before `start_offset` is done with; everything from `end_offset` on was never delivered. A change of what
must survive is first proposed (`Change`), then written by the share coordinator, then applied or dropped: meanwhile
nobody else may decide about its records. Acquisition is not written: a new leader frees all locks.

Two clocks: locks end by the monotonic one (`now_ms`), delays by the wall clock (`wall_ms`), for they are written.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import groupby
from operator import itemgetter

from ottla import errors
from ottla.coordination.share.records import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    DELIVERY_LIMIT,
    NO_OFFSET,
    REJECTED,
    Batch,
    ShareState,
)
from ottla.coordination.share.runs import Run, Runs
from ottla.frozen import frozen

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
_DONE = (ACKNOWLEDGED, ARCHIVED)
_NO_DUES: Mapping[int, int] = {}


@frozen
class Rules:
    """What a group's settings say of its windows."""

    delivery_limit: int = 5
    locks_max: int = 2000
    deferred_max: int = 100_000  # records that wait for their time, or to be written as dead letters
    backoff_ms: int = 0  # before a released record comes again; longer each time
    backoff_factor: float = 2.0
    backoff_max_ms: int = 60_000
    dead_letters: bool = False  # what is given up goes to a topic first

    def pause_ms(self, delivery_count: int) -> int:
        exponent = min(delivery_count - 1, 64)  # beyond that any factor above 1 has reached the most
        return int(min(self.backoff_ms * self.backoff_factor**exponent, self.backoff_max_ms))


DEFAULT_RULES = Rules()


@frozen
class Outcome:
    """What becomes of a run of records."""

    state: int
    delivery_count: int
    due_ms: int = 0
    verdict: int = 0

    @property
    def is_done(self) -> bool:
        return self.state in _DONE


@frozen
class Acquired:
    first_offset: int
    last_offset: int
    delivery_count: int


@frozen
class Change:
    """Runs (first offset, last offset) and what becomes of them."""

    runs: tuple[tuple[int, int, Outcome], ...]
    start_offset: int
    batches: tuple[Batch, ...]
    complete: int = 0  # records behind the start that are done with, once this is written


class Window:
    def __init__(self, start_offset: int, rules: Rules = DEFAULT_RULES) -> None:
        self.start_offset = self.end_offset = start_offset
        self.seen_offset = start_offset  # batches before it were given to `acquire`, with their dues
        self.rules = rules
        self.runs = Runs(self._index)
        # Heaps may name runs that have changed since: what is taken from one is checked.
        self._free: list[int] = []
        self._locks: list[tuple[int, int]] = []  # (until, first offset)
        self._dues: list[tuple[int, int]] = []  # (due, first offset)
        self._held: dict[str, set[int]] = {}  # first offsets by member
        self._verdicts: set[int] = set()  # first offsets
        self._done = self._deferred = 0  # records

    @classmethod
    def load(cls, state: ShareState, start_offset: int, rules: Rules) -> "Window":
        """From what was written; records that were acquired then are available again."""
        window = cls(start_offset, rules)
        for batch in sorted(state.batches, key=lambda one: one.first_offset):
            if batch.last_offset < window.end_offset:
                continue
            first = max(batch.first_offset, window.end_offset)
            window._add(window.end_offset, first - 1, Outcome(AVAILABLE, 0))
            held = AVAILABLE if batch.state == ACQUIRED else batch.state
            outcome = Outcome(held, batch.delivery_count, batch.due_ms, batch.verdict)
            window._add(first, batch.last_offset, outcome)
        window._advance()
        return window

    # -- delivery ------------------------------------------------------------------------------------

    @property
    def next_fetch_offset(self) -> int:
        """The first record that may be delivered: one that came back, or the first that never was."""
        while self._free:
            run = self.runs.get(self._free[0])
            if run is not None and run.is_free:
                return self._free[0]
            heappop(self._free)
        return self.end_offset

    @property
    def has_room(self) -> bool:
        """Whether records may be delivered that never were: locks are bounded, and so is what waits for its time."""
        rules, span = self.rules, self.end_offset - self.start_offset
        if not self._deferred:
            return span < rules.locks_max
        live = span - self._done - self._deferred
        return (
            live < rules.locks_max
            and self._deferred < rules.deferred_max
            and span < rules.locks_max + rules.deferred_max
        )

    def is_worth_fetching(self, log_end_offset: int) -> bool:
        return self.next_fetch_offset < self.end_offset or (
            self.has_room and self.end_offset < log_end_offset
        )

    def acquire(
        self,
        member: str,
        batches: Iterable[tuple[int, int, bool]],
        max_records: int,
        now_ms: int,
        lock_ms: int,
        *,
        strict: bool = False,
        dues: Mapping[int, int] = _NO_DUES,
    ) -> list[Acquired]:
        """Locks what of the fetched batches (first offset, last offset, whether there is data for readers) is free.

        Whole batches, so that a batch goes to one member; the first one always, even if it has more than
        `max_records` (`strict` members never get more). Offsets between batches were compacted away: they count as
        archived. Records with an entry in `dues` wait until then."""
        acquired: list[Acquired] = []
        taken = 0
        for first, last, readable in batches:
            if last < self.start_offset:
                continue
            first = max(first, self.start_offset)
            if (taken >= max_records and readable) or not self._make_room(first, last):
                break
            self.seen_offset = max(self.seen_offset, last + 1)
            if not readable:
                for run in self._free_between(first, last):
                    self._set(run, Outcome(ARCHIVED, run.delivery_count))
                continue
            self._defer(first, last, dues)
            for run in self._free_between(first, last):
                if strict and len(run) > max_records - taken:
                    if taken >= max_records:
                        break
                    (run,) = self.runs.between(run.first_offset, run.first_offset + max_records - taken - 1)
                self._set(run, Outcome(ACQUIRED, run.delivery_count + 1), member, now_ms + lock_ms)
                taken += len(run)
                _extend(acquired, run)
        self._advance()
        return acquired

    def _free_between(self, first: int, last: int) -> list[Run]:
        return [run for run in self.runs.between(first, last) if run.is_free]

    def _make_room(self, first: int, last: int) -> bool:
        """Lets the window reach to the end of a batch; False if it is full."""
        if last < self.end_offset:
            return True
        if not self.has_room:
            return False
        if not self.runs:
            self.start_offset = self.end_offset = max(first, self.end_offset)
        self._add(self.end_offset, first - 1, Outcome(ARCHIVED, 0))
        self._add(self.end_offset, last, Outcome(AVAILABLE, 0))
        return True

    def _defer(self, first: int, last: int, dues: Mapping[int, int]) -> None:
        for offset in dues:
            if first <= offset <= last:
                for run in self._free_between(offset, offset):
                    self._set(run, Outcome(AVAILABLE, run.delivery_count, dues[offset]))

    # -- acknowledgement -----------------------------------------------------------------------------

    def acknowledge(
        self,
        member: str,
        batches: Iterable[tuple[int, int, list[int]]],
        now_ms: int,
        lock_ms: int,
        wall_ms: int = 0,
    ) -> Change | None:
        """`batches` are (first offset, last offset, types): one type for all, or one for each offset.

        Raises INVALID_RECORD_STATE if the member does not hold one of them; nothing is changed then. None if there is
        nothing to write: locks that are renewed."""
        outcomes: list[tuple[Run, Outcome]] = []
        renewed: list[Run] = []
        for first, last, kind in _alike(batches):
            first = max(first, self.start_offset)  # what is before is done with since
            if last >= self.end_offset:
                raise errors.InvalidRecordState()
            for run in self.runs.between(first, last):
                if kind == GAP and run.state == ARCHIVED:
                    continue
                if run.state != ACQUIRED or run.member != member or run.is_pending:
                    raise errors.InvalidRecordState()
                if kind == RENEW:
                    renewed.append(run)
                else:
                    outcomes.append((run, self._after(kind, run.delivery_count, wall_ms)))
        for run in renewed:
            run.until_ms = now_ms + lock_ms
            heappush(self._locks, (run.until_ms, run.first_offset))
        return self._change(outcomes) if outcomes else None

    def _after(self, kind: int, count: int, wall_ms: int) -> Outcome:
        match kind:
            case 1:  # accept
                return Outcome(ACKNOWLEDGED, count)
            case 2:  # release
                if count >= self.rules.delivery_limit:
                    return self._given_up(count, DELIVERY_LIMIT)
                pause_ms = self.rules.pause_ms(count)
                return Outcome(AVAILABLE, count, wall_ms + pause_ms if pause_ms else 0)
            case 3:  # reject
                return self._given_up(count, REJECTED)
            case 0:  # gap
                return Outcome(ARCHIVED, count)
        raise errors.InvalidRequest(f"there is no acknowledgement of type {kind}")

    def _given_up(self, count: int, verdict: int) -> Outcome:
        """A dead letter is archived when it is in its topic, not before."""
        return Outcome(AVAILABLE, count, 0, verdict) if self.rules.dead_letters else Outcome(ARCHIVED, count)

    def release(self, member: str) -> Change | None:
        """The member's session has ended: what it holds comes back, and counts as never delivered."""
        outcomes = []
        for first in sorted(self._held.get(member, ())):
            run = self.runs.get(first)
            if run is not None and not run.is_pending:
                outcomes.append((run, Outcome(AVAILABLE, max(0, run.delivery_count - 1))))
        return self._change(outcomes) if outcomes else None

    def expire(self, now_ms: int, wall_ms: int = 0) -> Change | None:
        """Locks whose time is over: the records come back, or are given up after the last delivery."""
        outcomes = {}
        while self._locks and self._locks[0][0] <= now_ms:
            run = self._locked(*heappop(self._locks))
            if run is not None:
                outcomes[run.first_offset] = (run, self._after(RELEASE, run.delivery_count, wall_ms))
        return self._change([outcomes[first] for first in sorted(outcomes)]) if outcomes else None

    def next_expiry_ms(self) -> int | None:
        while self._locks:
            if self._locked(*self._locks[0]) is not None:
                return self._locks[0][0]
            heappop(self._locks)
        return None

    def _locked(self, until_ms: int, first_offset: int) -> Run | None:
        run = self.runs.get(first_offset)
        if run is None or run.state != ACQUIRED or run.until_ms != until_ms or run.is_pending:
            return None
        return run

    # -- delays and dead letters ---------------------------------------------------------------------

    def ripen(self, wall_ms: int) -> bool:
        """Records whose time has come are free. Whether there are any."""
        ripe = False
        while self._dues and self._dues[0][0] <= wall_ms:
            run = self._due(*heappop(self._dues))
            if run is not None:
                self._set(run, Outcome(AVAILABLE, run.delivery_count))
                ripe = True
        return ripe

    def next_due_ms(self) -> int | None:
        while self._dues:
            if self._due(*self._dues[0]) is not None:
                return self._dues[0][0]
            heappop(self._dues)
        return None

    def _due(self, due_ms: int, first_offset: int) -> Run | None:
        run = self.runs.get(first_offset)
        return run if run is not None and run.is_deferred and run.due_ms == due_ms else None

    def dead(self) -> list[Run]:
        """What must be written as dead letters, in the order of offsets."""
        runs = (self.runs.get(first) for first in sorted(self._verdicts))
        return [run for run in runs if run is not None and not run.is_pending]

    def archive(self, first: int, last: int) -> Change:
        """Dead letters that are in their topic."""
        return self._change(
            [(run, Outcome(ARCHIVED, run.delivery_count)) for run in self.runs.between(first, last)]
        )

    # -- changes ---------------------------------------------------------------------------------------

    def _change(self, outcomes: list[tuple[Run, Outcome]]) -> Change:
        """In the order of offsets."""
        after = {run.first_offset: outcome for run, outcome in outcomes}
        for run, _ in outcomes:
            run.is_pending = True
        start = self.start_offset
        for run in self.runs:
            outcome = after.get(run.first_offset)
            # What another change makes of a run does not count before it is written.
            if not (run.is_done if outcome is None else outcome.is_done):
                break
            start = run.last_offset + 1
        newly_done = sum(len(run) for run, outcome in outcomes if outcome.is_done)
        runs = tuple((run.first_offset, run.last_offset, outcome) for run, outcome in outcomes)
        complete = self._done + newly_done - (start - self.start_offset)
        return Change(runs, start, tuple(_batches(runs, start)), complete)

    def apply(self, change: Change) -> None:
        """It is written."""
        for first, last, outcome in change.runs:
            for run in self.runs.between(max(first, self.start_offset), last):
                self._set(run, outcome)
                if outcome.is_done:
                    self._merge(run)
        self._advance()

    def _merge(self, run: Run) -> None:
        following = self.runs.after(run)
        if following is not None:
            self.runs.merge_into_previous(following)
        self.runs.merge_into_previous(run)

    def drop(self, change: Change) -> None:
        """It could not be written: everything is as before."""
        for first, last, _ in change.runs:
            for run in self.runs.between(max(first, self.start_offset), last):
                run.is_pending = False
                self._index(run)

    def on_log_start(self, offset: int) -> None:
        """Records below are gone from the log. What members hold they may still acknowledge."""
        if offset <= self.start_offset:
            return
        for run in self.runs.between(self.start_offset, offset - 1):
            if run.state == AVAILABLE and not run.is_pending and not run.verdict:
                self._set(run, Outcome(ARCHIVED, run.delivery_count))
        self._advance()
        if not self.runs:
            self.start_offset = self.end_offset = max(offset, self.end_offset)

    # -- bookkeeping -----------------------------------------------------------------------------------

    def _add(self, first: int, last: int, outcome: Outcome) -> None:
        """Behind the end."""
        if first > last:
            return
        run = Run(
            first, last, outcome.state, outcome.delivery_count, due_ms=outcome.due_ms, verdict=outcome.verdict
        )
        self.runs.append(run)
        self.end_offset = last + 1
        self._count(run, len(run))
        self._index(run)

    def _set(self, run: Run, outcome: Outcome, member: str = "", until_ms: int = 0) -> None:
        """The one place where a run changes: counts, heaps and members' sets follow."""
        self._count(run, -len(run))
        self._unindex(run)
        run.state, run.delivery_count = outcome.state, outcome.delivery_count
        run.due_ms, run.verdict = outcome.due_ms, outcome.verdict
        run.member, run.until_ms, run.is_pending = member, until_ms, False
        self._count(run, len(run))
        self._index(run)

    def _count(self, run: Run, records: int) -> None:
        if run.is_done:
            self._done += records
        elif run.is_deferred:
            self._deferred += records

    def _index(self, run: Run) -> None:
        if run.state == ACQUIRED:
            heappush(self._locks, (run.until_ms, run.first_offset))
            self._held.setdefault(run.member, set()).add(run.first_offset)
        elif run.verdict:
            self._verdicts.add(run.first_offset)
        elif run.due_ms:
            heappush(self._dues, (run.due_ms, run.first_offset))
        elif run.state == AVAILABLE:
            heappush(self._free, run.first_offset)

    def _unindex(self, run: Run) -> None:
        self._verdicts.discard(run.first_offset)
        held = self._held.get(run.member)
        if held is not None:
            held.discard(run.first_offset)
            if not held:
                del self._held[run.member]

    def _advance(self) -> None:
        """What is done with at the start is forgotten."""
        while (first := self.runs.get(self.start_offset)) is not None and first.is_done:
            self._count(first, -len(first))
            self.start_offset = self.runs.remove_first().last_offset + 1

    def count(self, state: int) -> int:
        return sum(len(run) for run in self.runs if run.state == state)


def _alike(batches: Iterable[tuple[int, int, list[int]]]) -> Iterator[tuple[int, int, int]]:
    """(first offset, last offset, type)"""
    end = NO_OFFSET
    for first, last, kinds in batches:
        if first > last or first <= end or len(kinds) not in (1, last - first + 1):
            raise errors.InvalidRequest(
                "batches of acknowledgements are in order, and have one type or one for each"
            )
        end = last
        if len(kinds) == 1:
            yield first, last, kinds[0]
            continue
        for kind, same in groupby(enumerate(kinds), key=itemgetter(1)):
            indexes = [index for index, _ in same]
            yield first + indexes[0], first + indexes[-1], kind


def _extend(acquired: list[Acquired], run: Run) -> None:
    last = acquired[-1] if acquired else None
    if (
        last is not None
        and last.last_offset + 1 == run.first_offset
        and last.delivery_count == run.delivery_count
    ):
        acquired[-1] = Acquired(last.first_offset, run.last_offset, run.delivery_count)
    else:
        acquired.append(Acquired(run.first_offset, run.last_offset, run.delivery_count))


def _batches(runs: Iterable[tuple[int, int, Outcome]], start_offset: int) -> Iterator[Batch]:
    """What is written of them: from the start on, neighbours that are alike as one."""
    current: tuple[int, int, Outcome] | None = None
    for first, last, outcome in runs:
        if last < start_offset:
            continue
        if current is not None and current[1] + 1 == first and current[2] == outcome:
            current = (current[0], last, outcome)
            continue
        if current is not None:
            yield _batch(*current)
        current = (max(first, start_offset), last, outcome)
    if current is not None:
        yield _batch(*current)


def _batch(first: int, last: int, outcome: Outcome) -> Batch:
    return Batch(first, last, outcome.state, outcome.delivery_count, outcome.due_ms, outcome.verdict)
