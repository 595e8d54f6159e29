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
    headers: Column | None = (
        None  # of each record a list of pairs, or Arrow's lists of structs; None: there are none
    )
    targets: list[str | None] | None = None  # which child of a processor is meant
    origins: Any = None  # places among the records that were read, if somebody asks which record failed

    def __len__(self) -> int:
        return len(self.times)

    def pairs(self) -> list[tuple[Any, Any]]:
        return list(zip(objects(self.keys), objects(self.values), strict=True))

    def take(self, places: Any) -> "Frame":
        olds = None if self.olds is None else pick(self.olds, places)
        headers = None if self.headers is None else pick(self.headers, places)
        targets = None if self.targets is None else pick(self.targets, places)
        keys, values = pick(self.keys, places), pick(self.values, places)
        origins = None if self.origins is None else self.origins[places]
        return Frame(keys, values, self.times[places], olds, headers, targets, origins)

    def with_origins(self, origins: Any) -> "Frame":
        return replace(self, origins=origins)

    def header_pairs(self) -> list[list[tuple[str, bytes | None]]]:
        """Names and bytes, of each record."""
        if self.headers is None:
            return [[] for _ in range(len(self))]
        if isinstance(self.headers, list):
            return self.headers
        cells = self.headers.to_pylist()
        return [[(header["key"], header["value"]) for header in cell or ()] for cell in cells]

    def untargeted(self) -> "Frame":
        return replace(self, targets=None)

    def where(self, wanted: Any) -> "Frame":
        """The records for which a list or array of truth values says so."""
        truth = np.asarray(wanted, bool)
        return self if truth.all() else self.take(np.flatnonzero(truth))

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
    whole = concatenated(found)
    return whole.take(np.argsort(whole.times, kind="stable"))


def concatenated(frames: Sequence[Frame]) -> Frame:
    """All records, one frame after the other."""
    found = [frame for frame in frames if len(frame)]
    if len(found) < 2:
        return found[0] if found else EMPTY
    headers = targets = olds = origins = None
    if any(frame.headers is not None for frame in found):
        headers = [cell for frame in found for cell in frame.header_pairs()]
    if any(frame.targets is not None for frame in found):
        targets = [target for frame in found for target in frame.targets or [None] * len(frame)]
    if all(frame.olds is not None for frame in found):
        olds = joined([frame.olds for frame in found])
    if all(frame.origins is not None for frame in found):
        origins = np.concatenate([frame.origins for frame in found])
    keys, values = joined([frame.keys for frame in found]), joined([frame.values for frame in found])
    times = np.concatenate([frame.times for frame in found])
    return Frame(keys, values, times, olds, headers, targets, origins)
