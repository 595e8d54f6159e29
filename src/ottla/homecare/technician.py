"""The technician's view: which devices fell silent, since when, and which are back.

Heartbeats come in runs: no two of a run are further apart than the time-out. Tasks reduce a micro-batch to runs;
the driver keeps the last heartbeat of every device, joins runs to it, and where they do not join the device was
offline in between. Nothing is said before it is certain, that is before the watermark has passed: so the outcome is
the same however records are cut into micro-batches, delayed or repeated.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.homecare.store import Store, packed_json
from ottla.homecare.topics import EVENT

PENDING = "pending"
_EVENT = '{"at": %d, "device": %s, "state": "%s"}'
Run = tuple[int, int]  # first and last heartbeat, in ms


class Event(NamedTuple):
    device: str
    state: str  # offline, online
    at: int  # the last heartbeat before, or the first one again


def runs(heartbeats: Iterable[pa.RecordBatch], timeout_ms: int) -> pa.Table:
    """In a task: columns device, first, last. Usually one row for each device."""
    names = ["device", "at"]
    batches = [
        pa.RecordBatch.from_arrays([rows.column("key").cast(pa.string()), _milliseconds(rows)], names=names)
        for rows in heartbeats
    ]
    schema = pa.schema([("device", pa.string()), ("at", pa.int64())])
    table = pa.Table.from_batches(batches, schema)
    spans = table.group_by("device").aggregate([("at", "min"), ("at", "max")])
    spans = spans.select(["device", "at_min", "at_max"]).rename_columns(["device", "first", "last"])
    long = pc.greater(pc.subtract(spans["last"], spans["first"]), timeout_ms)
    if not pc.any(long).as_py():
        return spans
    # Only a batch that spans more than a time-out can hold a gap: a pipeline that catches up.
    doubtful = spans.filter(long)["device"]
    beats = table.filter(pc.is_in(table["device"], doubtful.combine_chunks())).sort_by(
        [("device", "ascending"), ("at", "ascending")]
    )
    return pa.concat_tables([spans.filter(pc.invert(long)), _cut(beats, timeout_ms)])


def _cut(beats: pa.Table, timeout_ms: int) -> pa.Table:
    """Sorted heartbeats to runs."""
    devices = beats["device"].combine_chunks().dictionary_encode()
    device, at = devices.indices.to_numpy(), beats["at"].to_numpy()
    begins = np.flatnonzero(np.r_[True, (device[1:] != device[:-1]) | (np.diff(at) > timeout_ms)])
    ends = np.r_[begins[1:], len(at)] - 1
    columns = [
        beats["device"].take(pa.array(begins)),
        pa.chunked_array([at[begins]]),
        pa.chunked_array([at[ends]]),
    ]
    return pa.Table.from_arrays(columns, names=["device", "first", "last"])


def _milliseconds(rows: pa.RecordBatch) -> pa.Array:
    times = rows.column("timestamp")
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ms", tz=times.type.tz), safe=False)
    return times.cast(pa.int64())


class Technician:
    """All devices. `last` is the latest heartbeat that is joined to those before it; 0 where none came yet."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self.devices = Store({"beat": {"last": np.int64, "offline": np.bool_}})
        self._pending: dict[int, list[Run]] = {}  # runs behind a gap that is not certain yet
        self._pending_changed = False

    @property
    def offline(self) -> int:
        return int(self.devices["offline"].sum())

    def step(self, found: pa.Table, watermark_ms: int) -> list[Event]:
        """Takes the runs of a micro-batch and the time; gives what became certain, in order for each device."""
        rows = self.devices.rows(found["device"].combine_chunks())
        first, last = found["first"].to_numpy(), found["last"].to_numpy()
        self._take(rows, first, last)
        return self._settle_all(watermark_ms) + self._silent(watermark_ms)

    def _take(self, rows: np.ndarray, first: np.ndarray, last: np.ndarray) -> None:
        latest, offline = self.devices["last"], self.devices["offline"]
        before = latest[rows]
        new = last > before  # others are late or repeated, and change nothing
        joined = new & ~offline[rows] & (first - before <= self._timeout_ms)
        if not before.all():
            # Of a device that is seen for the first time one run is a beginning; more than one is a gap.
            _, place, count = np.unique(rows, return_inverse=True, return_counts=True)
            joined |= new & (before == 0) & (count[place] == 1)
        if self._pending:
            joined &= ~np.isin(rows, list(self._pending))
        np.maximum.at(latest, rows[joined], last[joined])
        special = new & ~joined
        self._take_one_by_one(rows[special], first[special], last[special])
        self.devices.touch("beat", rows[new])

    def _take_one_by_one(self, rows: np.ndarray, first: np.ndarray, last: np.ndarray) -> None:
        """For the few devices with a gap, in the order of time."""
        latest, offline = self.devices["last"], self.devices["offline"]
        order = np.argsort(first, kind="stable")
        begins, ends = first[order].tolist(), last[order].tolist()
        for row, begin, end in zip(rows[order].tolist(), begins, ends, strict=True):
            known = int(latest[row])
            near = known == 0 or begin - known <= self._timeout_ms
            if near and not offline[row] and row not in self._pending:
                latest[row] = max(known, end)
            else:
                self._pending.setdefault(row, []).append((max(begin, known + 1), end))
                self._pending_changed = True

    def _settle_all(self, watermark_ms: int) -> list[Event]:
        """All at once, as all may come back at once."""
        rows = sorted(self._pending)
        before = {row: self._pending[row] for row in rows}
        names = self.devices.ids(rows).to_pylist()
        latest, offline = self.devices["last"], self.devices["offline"]
        events: list[Event] = []
        for row, device in zip(rows, names, strict=True):
            events += self._settle(row, device, latest, offline, watermark_ms)
        changed = [row for row in rows if self._pending.get(row) != before[row]]
        if changed:
            self._pending_changed = True
            self.devices.touch("beat", np.array(changed))
        return events

    def _settle(self, row: int, device: str, latest: Any, offline: Any, watermark_ms: int) -> list[Event]:
        """Joins the pending runs of a device; a gap before a run that began by the watermark is certain."""
        events: list[Event] = []
        waiting: list[Run] = []
        for begin, end in sorted(self._pending[row]):
            known = int(latest[row])
            if end <= known:
                continue
            if waiting:
                waiting.append((begin, end))
            elif not offline[row] and begin - known <= self._timeout_ms:
                latest[row] = end
            elif begin <= watermark_ms:
                if not offline[row]:
                    events.append(Event(device, "offline", known))
                events.append(Event(device, "online", begin))
                latest[row], offline[row] = end, False
            else:
                waiting.append((begin, end))
        if waiting:
            self._pending[row] = _merged(waiting, self._timeout_ms)
        else:
            del self._pending[row]
        return events

    def _silent(self, watermark_ms: int) -> list[Event]:
        latest, offline = self.devices["last"], self.devices["offline"]
        rows = np.flatnonzero((latest > 0) & ~offline & (latest + self._timeout_ms < watermark_ms))
        offline[rows] = True
        self.devices.touch("beat", rows)
        names, since = self.devices.ids(rows).to_pylist(), latest[rows].tolist()
        return [Event(device, "offline", at) for device, at in zip(names, since, strict=True)]

    # -- saving and loading ------------------------------------------------------------------------

    def changes(self) -> list[tuple[str, bytes]]:
        found = list(self.devices.changes())
        if self._pending_changed:
            self._pending_changed = False
            found.append((PENDING, packed_json({str(row): runs for row, runs in self._pending.items()})))
        return found

    def load(self, saved: dict[str, bytes]) -> None:
        pending = json.loads(saved.pop(PENDING, b"{}"))
        self._pending = {int(row): [(run[0], run[1]) for run in runs] for row, runs in pending.items()}
        for key in Store.order(list(saved)):
            self.devices.load(key, saved[key])


def _merged(waiting: list[Run], timeout_ms: int) -> list[Run]:
    merged: list[Run] = []
    for begin, end in sorted(waiting):
        if merged and begin - merged[-1][1] <= timeout_ms:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def records(events: list[Event]) -> tuple[str, pa.RecordBatch]:
    """As they are written to the topic."""
    values = [(_EVENT % (e.at, json.dumps(e.device), e.state)).encode() for e in events]
    keys = pa.array([e.device for e in events], pa.string())
    return EVENT, pa.RecordBatch.from_arrays([keys, pa.array(values, pa.binary())], names=["key", "value"])
