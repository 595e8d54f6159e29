"""The records in flight of a share-partition, as runs, and where to find them: free ones, locks, delays, dead letters.

Everything before `start_offset` is done with; everything from `end_offset` on was never delivered.
"""

from heapq import heappop, heappush

from ottla.coordination.share.outcomes import Outcome
from ottla.coordination.share.records import ACQUIRED, AVAILABLE
from ottla.coordination.share.runs import Run, Runs


class InFlight:
    def __init__(self, start_offset: int) -> None:
        self.start_offset = self.end_offset = start_offset
        self.runs = Runs(self._index)
        # Heaps may name runs that have changed since: what is taken from one is checked.
        self._free: list[int] = []
        self._locks: list[tuple[int, int]] = []  # (until, first offset)
        self._dues: list[tuple[int, int]] = []  # (due, first offset)
        self._held: dict[str, set[int]] = {}  # first offsets by member
        self._verdicts: set[int] = set()  # first offsets
        self._done = self._deferred = 0  # records

    # -- free ------------------------------------------------------------------------------------------

    @property
    def next_fetch_offset(self) -> int:
        """The first record that may be delivered: one that came back, or the first that never was."""
        while self._free:
            run = self.runs.get(self._free[0])
            if run is not None and run.is_free:
                return self._free[0]
            heappop(self._free)
        return self.end_offset

    def _free_between(self, first: int, last: int) -> list[Run]:
        """Only free runs are split at the edges: what is read again leaves the others whole."""
        return [
            part
            for run in self.runs.overlapping(first, last)
            if run.is_free
            for part in self.runs.between(max(first, run.first_offset), min(last, run.last_offset))
        ]

    # -- locks -----------------------------------------------------------------------------------------

    def _held_by(self, member: str) -> list[Run]:
        """In the order of offsets, without those that a change is being written of."""
        return self._at(self._held.get(member, set()))

    def _expired(self, now_ms: int) -> list[Run]:
        """Runs whose lock's time is over, in the order of offsets; they are named once."""
        runs = {}
        while self._locks and self._locks[0][0] <= now_ms:
            run = self._locked(*heappop(self._locks))
            if run is not None:
                runs[run.first_offset] = run
        return [runs[first] for first in sorted(runs)]

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

    def _renew(self, run: Run, until_ms: int) -> None:
        run.until_ms = until_ms
        heappush(self._locks, (until_ms, run.first_offset))

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
        return self._at(self._verdicts)

    def _at(self, first_offsets: set[int]) -> list[Run]:
        runs = (self.runs.get(first) for first in sorted(first_offsets))
        return [run for run in runs if run is not None and not run.is_pending]

    # -- changes ---------------------------------------------------------------------------------------

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
