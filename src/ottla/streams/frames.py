"""What flows between the nodes of a topology: records as columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ottla.streams.serdes import Column, joined, objects, pick


@dataclass(frozen=True, slots=True)
class Frame:
    """Records in order. Those of a table are changes: `olds` are the values before, None in a stream.

    `order` is the place in the step of the record that each row came from: rows of several frames are brought into one
    order by it. `branch` numbers the branch that takes a row. `trace` holds every change of a table that gives only the
    last one of each key: a join sees the table as it was at the moment of its record.
    """

    keys: Column
    values: Column
    times: Any  # int64, milliseconds
    order: Any  # int64
    olds: Column | None = None
    headers: list[Any] | None = None  # for each record None or a list of `key` and `value`
    branch: Any = None
    trace: "Frame | None" = None
    old_times: Any = None  # of the old values, -1 where there is none; where a table keeps its rows

    def __len__(self) -> int:
        return len(self.times)

    def header_pairs(self) -> list[list[tuple[str, bytes | None]]]:
        """Names and bytes, of each record."""
        cells = self.headers or [None] * len(self)
        return [[(header["key"], header["value"]) for header in cell or ()] for cell in cells]

    def pairs(self) -> list[tuple[Any, Any]]:
        return list(self.zipped())

    def zipped(self) -> Iterator[tuple[Any, Any]]:
        """Pairs, one after the other: a list of them takes as long as most functions."""
        return zip(objects(self.keys), objects(self.values), strict=True)

    def take(self, places: Any) -> "Frame":
        if len(places) == len(self) and np.array_equal(places, np.arange(len(self))):
            return self if self.trace is None else replace(self, trace=None)
        return Frame(
            pick(self.keys, places),
            pick(self.values, places),
            self.times[places],
            self.order[places],
            None if self.olds is None else pick(self.olds, places),
            None if self.headers is None else pick(self.headers, places),
            None if self.branch is None else self.branch[places],
            None,
            None if self.old_times is None else self.old_times[places],
        )

    def where(self, wanted: Any) -> "Frame":
        """The records for which a list or array of truth values says so."""
        return self.take(np.flatnonzero(np.asarray(wanted, bool)))

    def with_values(self, values: Column) -> "Frame":
        return replace(self, values=values)

    def with_keys(self, keys: Column) -> "Frame":
        return replace(self, keys=keys)

    def spread(self, counts: Any, values: Column, keys: Column | None = None) -> "Frame":
        """Records of a stream that become several: each as often as `counts` says, with other values."""
        places = np.repeat(np.arange(len(self)), counts)
        return Frame(
            pick(self.keys, places) if keys is None else keys,
            values,
            self.times[places],
            self.order[places],
            headers=None if self.headers is None else pick(self.headers, places),
        )


def frame(
    keys: Column,
    values: Column,
    times: Any,
    *,
    order: Any = None,
    olds: Column | None = None,
    headers: list[Any] | None = None,
) -> Frame:
    """From columns; without an order, all rows belong to one moment."""
    stamps = np.asarray(times, np.int64)
    places = np.zeros(len(stamps), np.int64) if order is None else np.asarray(order, np.int64)
    return Frame(keys, values, stamps, places, olds, headers)


EMPTY = frame([], [], [])


def merged(frames: Sequence[Frame]) -> Frame:
    """All records of the frames by their order; those of one moment in the order of the frames."""
    filled = [frame for frame in frames if len(frame)]
    if len(filled) < 2:
        return filled[0] if filled else EMPTY
    whole = concatenated(filled)
    return whole.take(np.argsort(whole.order, kind="stable"))


def concatenated(frames: Sequence[Frame]) -> Frame:
    """All records, one frame after the other."""
    filled = [frame for frame in frames if len(frame)]
    if len(filled) < 2:
        return filled[0] if filled else EMPTY
    return Frame(
        joined([frame.keys for frame in filled]),
        joined([frame.values for frame in filled]),
        np.concatenate([frame.times for frame in filled]),
        np.concatenate([frame.order for frame in filled]),
        None if any(frame.olds is None for frame in filled) else joined([frame.olds for frame in filled]),
        _headers(filled),
        None
        if any(frame.branch is None for frame in filled)
        else np.concatenate([frame.branch for frame in filled]),
        old_times=None
        if any(frame.old_times is None for frame in filled)
        else np.concatenate([frame.old_times for frame in filled]),
    )


def _headers(frames: Sequence[Frame]) -> list[Any] | None:
    if all(frame.headers is None for frame in frames):
        return None
    return [row for frame in frames for row in (frame.headers or [None] * len(frame))]
