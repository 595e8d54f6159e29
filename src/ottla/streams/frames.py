"""What flows between the nodes of a topology: records as columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ottla.streams.serdes import Column, joined, objects, pick


@dataclass(frozen=True, slots=True)
class Frame:
    """Records in order. Those of a table are changes: `olds` are the values before, None in a stream."""

    keys: Column
    values: Column
    times: Any  # int64, milliseconds
    olds: Column | None = None

    def __len__(self) -> int:
        return len(self.times)

    def pairs(self) -> list[tuple[Any, Any]]:
        return list(zip(objects(self.keys), objects(self.values), strict=True))

    def take(self, places: Any) -> "Frame":
        olds = None if self.olds is None else pick(self.olds, places)
        return Frame(pick(self.keys, places), pick(self.values, places), self.times[places], olds)

    def where(self, wanted: Any) -> "Frame":
        """The records for which a list or array of truth values says so."""
        return self.take(np.flatnonzero(np.asarray(wanted, bool)))

    def with_values(self, values: Column) -> "Frame":
        return replace(self, values=values)

    def with_keys(self, keys: Column) -> "Frame":
        return replace(self, keys=keys)

    def repeated(self, counts: Sequence[int]) -> Any:
        """Places of records that become several."""
        return np.repeat(np.arange(len(self)), counts)


EMPTY = Frame([], [], np.empty(0, np.int64))


def merged(frames: Sequence[Frame]) -> Frame:
    """All records of the frames by their times; equal times in the order of the frames."""
    found = [frame for frame in frames if len(frame)]
    if len(found) < 2:
        return found[0] if found else EMPTY
    times = np.concatenate([frame.times for frame in found])
    whole = Frame(joined([f.keys for f in found]), joined([f.values for f in found]), times)
    return whole.take(np.argsort(times, kind="stable"))
