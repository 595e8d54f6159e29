"""A share-partition as its leader sees it: who gets which records, and what acknowledgements make of them.

A change of what must survive is first proposed (`Change`), then written by the share coordinator, then applied or
dropped: meanwhile nobody else may decide about its records. Acquisition is not written: a new leader frees all locks.

Two clocks: locks end by the monotonic one (`now_ms`), delays by the wall clock (`wall_ms`), for they are written.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter

from ottla import errors
from ottla.coordination.share.in_flight import InFlight
from ottla.coordination.share.outcomes import DEFAULT_RULES, Acquired, Change, Outcome, Rules, batches_of
from ottla.coordination.share.records import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    DELIVERY_LIMIT,
    NO_OFFSET,
    REJECTED,
    ShareState,
)
from ottla.coordination.share.runs import Run

PIECES_MAX = 10_000  # of records that are acknowledged alike, in one request: a tenth of a second
GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
_NO_DUES: Mapping[int, int] = {}


class Window(InFlight):
    def __init__(self, start_offset: int, rules: Rules = DEFAULT_RULES) -> None:
        super().__init__(start_offset)
        self.seen_offset = start_offset  # batches before it were given to `acquire`, with their dues
        self.rules = rules

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

    @property
    def is_at_rest(self) -> bool:
        """No locks, no change under way, nothing that waits: all of it is in what was written."""
        return not self._held and not self._verdicts and not any(run.is_pending for run in self.runs)

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
        from_offset: int,
        strict: bool = False,
        dues: Mapping[int, int] = _NO_DUES,
    ) -> list[Acquired]:
        """Locks what of the fetched batches (first offset, last offset, whether there is data for readers) is free.

        Whole batches, so that a batch goes to one member; the first one always, even if it has more than
        `max_records` (`strict` members never get more). The log was read from `from_offset` on: offsets from there to
        the first batch, and between batches, were compacted away and count as archived. Records with an entry in
        `dues` wait until then."""
        taken: list[Run] = []
        count, due_offsets = 0, sorted(dues)
        for first, last, readable in batches:
            if last < self.start_offset:
                continue
            first = max(first, self.start_offset)
            self._archive_hole(from_offset, first - 1)
            from_offset = last + 1
            if (count >= max_records and readable) or not self._make_room(first, last):
                break
            self.seen_offset = max(self.seen_offset, last + 1)
            if not readable:
                self._archive_free(first, last)
                continue
            for offset in due_offsets[bisect_left(due_offsets, first) : bisect_right(due_offsets, last)]:
                self._defer(offset, dues[offset])
            for run in self._free_between(first, last):
                if strict and len(run) > max_records - count:
                    if count >= max_records:
                        break
                    (run,) = self.runs.between(run.first_offset, run.first_offset + max_records - count - 1)
                taken.append(run)
                count += len(run)
        # Many small batches in one lock: what is in flight costs memory by fetches, not by records.
        locked = self.runs.join(taken)
        for run in locked:
            self._set(run, Outcome(ACQUIRED, run.delivery_count + 1), member, now_ms + lock_ms)
        self._advance()
        return [Acquired(run.first_offset, run.last_offset, run.delivery_count) for run in locked]

    def _archive_hole(self, first: int, last: int) -> None:
        """Of offsets that came back and have no batch any more nothing can be delivered. They would be the next ones to
        fetch for ever, and nothing behind them would be delivered."""
        if first <= last and first < self.end_offset:
            self._archive_free(max(first, self.start_offset), last)

    def _archive_free(self, first: int, last: int) -> None:
        for run in self._free_between(first, last):
            self._set(run, Outcome(ARCHIVED, run.delivery_count))

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

    def _defer(self, offset: int, due_ms: int) -> None:
        for run in self._free_between(offset, offset):
            self._set(run, Outcome(AVAILABLE, run.delivery_count, due_ms))

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
            self._renew(run, now_ms + lock_ms)
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
        outcomes = [
            (run, Outcome(AVAILABLE, max(0, run.delivery_count - 1))) for run in self._held_by(member)
        ]
        return self._change(outcomes) if outcomes else None

    def expire(self, now_ms: int, wall_ms: int = 0) -> Change | None:
        """Locks whose time is over: the records come back, or are given up after the last delivery."""
        outcomes = [(run, self._after(RELEASE, run.delivery_count, wall_ms)) for run in self._expired(now_ms)]
        return self._change(outcomes) if outcomes else None

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
        return Change(runs, start, tuple(batches_of(runs, start)), complete)

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


def _alike(batches: Iterable[tuple[int, int, list[int]]]) -> Iterator[tuple[int, int, int]]:
    """(first offset, last offset, type)"""
    end, pieces = NO_OFFSET, 0
    for first, last, kinds in batches:
        if first > last or first <= end or len(kinds) not in (1, last - first + 1):
            raise errors.InvalidRequest(
                "batches of acknowledgements are in order, and have one type or one for each"
            )
        end = last
        alike = kinds.count(kinds[0]) == len(kinds)  # most are: a member has accepted all that it got
        for span in [(first, last, kinds[0])] if alike else _spans(first, kinds):
            pieces += 1
            if pieces > PIECES_MAX:
                raise errors.InvalidRequest(
                    f"acknowledgements that change their type more than {PIECES_MAX} times; send them in parts"
                )
            yield span


def _spans(first: int, kinds: list[int]) -> Iterator[tuple[int, int, int]]:
    """Neighbours of one type as one; `kinds` has one for each offset from the first on."""
    for kind, same in groupby(enumerate(kinds, first), key=itemgetter(1)):
        offsets = [offset for offset, _ in same]
        yield offsets[0], offsets[-1], kind
