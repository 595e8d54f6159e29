"""The technician's pipeline: which devices fell silent, since when, and which are back.

Heartbeats come in runs: no two of a run are further apart than the time-out. The store keeps the last heartbeat of
every device; a run that does not join it means that the device was offline in between. Nothing is said before it is
certain, that is before the watermark has passed: so the outcome is the same however records are cut into steps,
delayed or repeated.
"""

import json
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.homecare.rules import Rules
from ottla.homecare.topics import EVENT
from ottla.pipelines import Operator, Step, StoreSpec
from ottla.pipelines.state.store import KeyedStore

# `last` is the latest heartbeat that is joined to those before it, 0 before the first; `runs` are those behind a gap
# that is not certain yet, as JSON.
DEVICES = StoreSpec(
    "devices", (("last", "int64"), ("offline", "bool"), ("waiting", "bool"), ("runs", "bytes"))
)
_EVENT = '{"at": %d, "device": %s, "state": "%s"}'
Run = tuple[int, int]  # first and last heartbeat, in ms


class Event(NamedTuple):
    device: str
    state: str  # offline, online
    at: int  # the last heartbeat before, or the first one again


class Technician(Operator):
    def __init__(self, rules: Rules) -> None:
        self._timeout_ms, self._lateness_ms = rules.timeout_ms, rules.lateness_ms

    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        devices = step.stores["devices"]
        device_runs = runs(rows, self._timeout_ms)
        places = devices.rows(device_runs["device"].combine_chunks())
        self._take(devices, places, device_runs["first"].to_numpy(), device_runs["last"].to_numpy())

    def advance(self, step: Step) -> None:
        devices, watermark_ms = step.stores["devices"], step.time_ms - self._lateness_ms
        events = self._settle_all(devices, watermark_ms) + self._silent(devices, watermark_ms)
        step.emit(EVENT, records(events))
        step.show(devices=len(devices), offline=int(devices["offline"].sum()))

    # -- taking heartbeats in ----------------------------------------------------------------------

    def _take(self, devices: KeyedStore, rows: Any, first: Any, last: Any) -> None:
        latest, offline = devices["last"], devices["offline"]
        before = latest[rows]
        new = last > before  # others are late or repeated, and change nothing
        joined = new & ~offline[rows] & ~devices["waiting"][rows] & (first - before <= self._timeout_ms)
        if not before.all():
            # Of a device that is seen for the first time one run is a beginning; more than one is a gap.
            count = np.bincount(rows)
            joined |= new & (before == 0) & ~devices["waiting"][rows] & (count[rows] == 1)
        np.maximum.at(latest, rows[joined], last[joined])
        special = new & ~joined
        self._take_one_by_one(devices, rows[special], first[special], last[special])
        devices.touch(rows[new])

    def _take_one_by_one(self, devices: KeyedStore, rows: Any, first: Any, last: Any) -> None:
        """For the few devices with a gap, in the order of time."""
        latest, offline, waiting = devices["last"], devices["offline"], devices["waiting"]
        pending: dict[int, list[Run]] = {}
        order = np.argsort(first, kind="stable")
        for row, begin, end in zip(
            rows[order].tolist(), first[order].tolist(), last[order].tolist(), strict=True
        ):
            known = int(latest[row])
            near = known == 0 or begin - known <= self._timeout_ms
            if near and not offline[row] and not waiting[row]:
                latest[row] = max(known, end)
            else:
                runs_of = pending.setdefault(row, _waiting(devices, row))
                runs_of.append((max(begin, known + 1), end))
                waiting[row] = True
        _put(devices, pending)

    # -- deciding ----------------------------------------------------------------------------------

    def _settle_all(self, devices: KeyedStore, watermark_ms: int) -> list[Event]:
        """All at once, as all may come back at once."""
        events: list[Event] = []
        unsettled: dict[int, list[Run]] = {}
        rows = np.flatnonzero(devices["waiting"])
        for row, device in zip(rows.tolist(), _names(devices, rows), strict=True):
            events_due, unsettled[row] = self._settle(devices, row, device, watermark_ms)
            events += events_due
        _put(devices, unsettled)
        return events

    def _settle(
        self, devices: KeyedStore, row: int, device: str, watermark_ms: int
    ) -> tuple[list[Event], list[Run]]:
        """Joins the pending runs of a device; a gap before a run that began by the watermark is certain."""
        latest, offline = devices["last"], devices["offline"]
        events: list[Event] = []
        waiting: list[Run] = []
        for begin, end in sorted(_waiting(devices, row)):
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
        return events, _merged(waiting, self._timeout_ms)

    def _silent(self, devices: KeyedStore, watermark_ms: int) -> list[Event]:
        latest, offline = devices["last"], devices["offline"]
        rows = np.flatnonzero((latest > 0) & ~offline & (latest + self._timeout_ms < watermark_ms))
        offline[rows] = True
        devices.touch(rows)
        since = latest[rows].tolist()
        return [Event(device, "offline", at) for device, at in zip(_names(devices, rows), since, strict=True)]


def runs(rows: pa.RecordBatch, timeout_ms: int) -> pa.Table:
    """Heartbeats as columns device, first, last. Usually one row for each device."""
    rows = rows.filter(rows.column("key").is_valid())  # of no device: it says nothing
    table = pa.table({"device": rows.column("key"), "at": milliseconds(rows)})
    spans = table.group_by("device").aggregate([("at", "min"), ("at", "max")])
    spans = spans.select(["device", "at_min", "at_max"]).rename_columns(["device", "first", "last"])
    long = pc.greater(pc.subtract(spans["last"], spans["first"]), timeout_ms)
    if not pc.any(long).as_py():
        return spans
    # Only a step that spans more than a time-out can hold a gap: a pipeline that catches up.
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


def milliseconds(rows: pa.RecordBatch) -> pa.Array:
    return pc.divide(rows.column("timestamp").cast(pa.int64()), 1000)


def records(events: list[Event]) -> pa.RecordBatch:
    """As they are written to the topic."""
    values = [(_EVENT % (e.at, json.dumps(e.device), e.state)).encode() for e in events]
    keys = pa.array([e.device.encode() for e in events], pa.binary())
    return pa.RecordBatch.from_arrays([keys, pa.array(values, pa.binary())], names=["key", "value"])


def _names(devices: KeyedStore, rows: Any) -> list[str]:
    return [key.decode() for key in devices.keys(rows).to_pylist()]


def _waiting(devices: KeyedStore, row: int) -> list[Run]:
    text = devices.values([row])[0].as_py() if devices["waiting"][row] else b""
    return [(begin, end) for begin, end in json.loads(text or b"[]")]


def _put(devices: KeyedStore, runs_of: dict[int, list[Run]]) -> None:
    """The runs that wait, by row."""
    if runs_of:
        rows = np.array(list(runs_of), np.int64)
        texts = [json.dumps(waiting).encode() if waiting else b"" for waiting in runs_of.values()]
        devices.put_values(rows, pa.array(texts, pa.binary()))
        devices["waiting"][rows] = [bool(waiting) for waiting in runs_of.values()]


def _merged(waiting: list[Run], timeout_ms: int) -> list[Run]:
    merged: list[Run] = []
    for begin, end in sorted(waiting):
        if merged and begin - merged[-1][1] <= timeout_ms:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
