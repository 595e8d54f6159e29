"""Runs: stretches of records that lie side by side at the source and at the target. Translates positions. Pure."""

import bisect
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

RUNS_MAX = 200_000  # of one partition; the oldest are joined, so that a position there is taken back a little
_RUN = struct.Struct(">qqi")


class Run(NamedTuple):
    """`length` records: the first at `source` there and at `target` here, the others behind it."""

    source: int
    target: int
    length: int


def join(runs: Iterable[Run]) -> list[Run]:
    """Runs that touch on both sides become one."""
    joined: list[Run] = []
    for run in runs:
        last = joined[-1] if joined else None
        if (
            last
            and last.source + last.length == run.source
            and last.target + last.length == run.target
            and last.length + run.length < 1 << 31
        ):
            joined[-1] = Run(last.source, last.target, last.length + run.length)
        else:
            joined.append(run)
    return joined


def pack(runs: Iterable[Run]) -> bytes:
    return b"".join(_RUN.pack(*run) for run in runs)


def unpack(data: bytes) -> list[Run]:
    return [Run(*fields) for fields in _RUN.iter_unpack(data)]


class Translator:
    """The map of one partition: source positions to target positions, by the runs that were committed."""

    def __init__(self) -> None:
        self._sources: list[int] = []
        self._runs: list[Run] = []
        self._thinned_below = 0  # source offsets below it are between runs that were left out

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, runs: Sequence[Run]) -> None:
        """Behind those that are known, or known already: a record that is read again changes nothing."""
        for run in runs:
            if self._runs and run.source <= self._runs[-1].source:
                at = bisect.bisect_left(self._sources, run.source)
                if at < len(self._sources) and self._sources[at] == run.source:
                    self._runs[at] = run
                    continue
                self._sources.insert(at, run.source)
                self._runs.insert(at, run)
            else:
                self._sources.append(run.source)
                self._runs.append(run)
        if len(self._runs) > RUNS_MAX:
            self._thin()

    def forget_below(self, source: int) -> int | None:
        """Runs that lie wholly below a source offset, except the last of them: nobody asks for them any more.

        The source offset of the first run that is kept.
        """
        keep = max(0, bisect.bisect_right(self._sources, source) - 1)
        del self._runs[:keep], self._sources[:keep]
        return self._sources[0] if self._sources else None

    def translate(self, position: int) -> int | None:
        """Where to go on at the target: the first record there that is not before `position` at the source.

        None: no record is known, or the position lies before the first known one (nothing to skip then).
        """
        at = bisect.bisect_right(self._sources, position) - 1
        if at < 0:
            return self._runs[0].target if self._runs else None
        run = self._runs[at]
        if position < run.source + run.length:
            return run.target + position - run.source
        if at + 1 < len(self._runs) and position >= self._thinned_below:
            return self._runs[at + 1].target
        return run.target + run.length

    def last(self) -> Run | None:
        return self._runs[-1] if self._runs else None

    def _thin(self) -> None:
        """Every second of the older half goes: positions there are translated to an earlier record, never a later."""
        half = len(self._runs) // 2
        self._thinned_below = self._runs[half].source
        self._runs = self._runs[:half:2] + self._runs[half:]
        self._sources = [run.source for run in self._runs]
