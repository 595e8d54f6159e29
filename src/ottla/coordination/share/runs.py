"""Neighbouring records that are alike, as one: a window over millions of records is a list of a few runs."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ottla.coordination.share.records import ACKNOWLEDGED, ARCHIVED, AVAILABLE


@dataclass(slots=True)
class Run:
    """Offsets from the first to the last one, both included."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int
    member: str = ""
    until_ms: int = 0  # of the lock
    due_ms: int = 0  # available, but not before this; 0: at once
    verdict: int = 0  # available no more: why these are dead letters that must still be written
    is_pending: bool = False  # a change of it is being written

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1

    @property
    def is_done(self) -> bool:
        return self.state in (ACKNOWLEDGED, ARCHIVED)

    @property
    def is_deferred(self) -> bool:
        return self.state == AVAILABLE and bool(self.due_ms or self.verdict)

    @property
    def is_free(self) -> bool:
        return self.state == AVAILABLE and not (self.due_ms or self.verdict or self.is_pending)


class Runs:
    """In the order of offsets, without holes between them. `on_split` is told of a new second half."""

    def __init__(self, on_split: Callable[[Run], None]) -> None:
        self._firsts: list[int] = []
        self._runs: dict[int, Run] = {}  # by first offset
        self._on_split = on_split

    def __iter__(self) -> Iterator[Run]:
        return (self._runs[first] for first in self._firsts)

    def __len__(self) -> int:
        return len(self._firsts)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def get(self, first_offset: int) -> Run | None:
        return self._runs.get(first_offset)

    def at(self, offset: int) -> Run | None:
        """The run that holds the offset."""
        index = bisect_right(self._firsts, offset) - 1
        run = self._runs[self._firsts[index]] if index >= 0 else None
        return run if run is not None and offset <= run.last_offset else None

    def append(self, run: Run) -> None:
        self._firsts.append(run.first_offset)
        self._runs[run.first_offset] = run

    def overlapping(self, first: int, last: int) -> list[Run]:
        """The runs that hold one of these offsets."""
        low, high = bisect_right(self._firsts, first), bisect_right(self._firsts, last)
        runs = [self._runs[at] for at in self._firsts[max(0, low - 1) : high]]
        return runs[1:] if runs and runs[0].last_offset < first else runs

    def between(self, first: int, last: int) -> list[Run]:
        """The runs of these offsets and of no others: those at the edges are split."""
        self._split(first)
        self._split(last + 1)
        low, high = bisect_left(self._firsts, first), bisect_right(self._firsts, last)
        return [self._runs[at] for at in self._firsts[low:high]]

    def _split(self, offset: int) -> None:
        run = self.at(offset)
        if run is None or run.first_offset == offset:
            return
        second = replace(run, first_offset=offset)
        run.last_offset = offset - 1
        self._firsts.insert(bisect_left(self._firsts, offset), offset)
        self._runs[offset] = second
        self._on_split(second)

    def remove_first(self) -> Run:
        return self._runs.pop(self._firsts.pop(0))

    def join(self, runs: Iterable[Run]) -> list[Run]:
        """Neighbours of these, which are free and in order, become one where they were delivered equally often."""
        joined: list[Run] = []
        for run in runs:
            last = joined[-1] if joined else None
            if (
                last is not None
                and last.last_offset + 1 == run.first_offset
                and last.delivery_count == run.delivery_count
            ):
                last.last_offset = run.last_offset
                del self._runs[run.first_offset]
            else:
                joined.append(run)
        for run in joined:
            low, high = (
                bisect_right(self._firsts, run.first_offset),
                bisect_right(self._firsts, run.last_offset),
            )
            del self._firsts[low:high]
        return joined

    def merge_into_previous(self, run: Run) -> None:
        """If both are done with in the same way: nobody asks which of them a record belonged to."""
        index = bisect_left(self._firsts, run.first_offset)
        previous = self._runs[self._firsts[index - 1]] if index > 0 else None
        if previous is not None and previous.is_done and run.is_done and previous.state == run.state:
            previous.last_offset = run.last_offset
            del self._runs[self._firsts.pop(index)]

    def after(self, run: Run) -> Run | None:
        return self._runs.get(run.last_offset + 1)
