"""The nurse's view: patients out of range for a sustained time, who looks after them, and the all-clear.

Tasks reduce readings to windows: for each patient and window whether a reading was in range, and whether one was
not. A window counts as out of range if every reading in it is; that is the same whether readings come once or
twice. When the watermark has passed a window it is judged, for all patients at once:

    out of range for `sustained_ms`     -> warning      (once)
    out of range for `escalate_ms`      -> critical     (once)
    in range again for `clear_ms`       -> clear

A short recovery does not end an alert and a short lapse does not begin one: that keeps storms away.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.homecare.rules import PULSE, SPO2_LEAST, TEMPERATURE, Rules
from ottla.homecare.store import Store, packed_json
from ottla.homecare.technician import _milliseconds as milliseconds
from ottla.homecare.topics import ALERT
from ottla.spark.json_values import JsonValues

WINDOWS = "windows"
NAMES = "names"
_READING = pa.struct([("pulse", pa.float64()), ("spo2", pa.float64()), ("temperature", pa.float64())])
_DUTY = pa.struct([("nurse", pa.string()), ("ward", pa.string()), ("from", pa.int64())])
_SLOTS = 4  # rosters of a patient that are remembered: what held before, what holds, what will hold
_NONE, _WARNING, _CRITICAL = 0, 1, 2
_LEVELS = ("clear", "warning", "critical")


class Alert(NamedTuple):
    patient: str
    level: str  # warning, critical, clear
    since: int
    at: int
    nurse: str
    ward: str


def windows(readings: Iterable[pa.RecordBatch], window_ms: int) -> pa.Table:
    """In a task: columns patient, window, good, bad (whether there was such a reading)."""
    json_values = JsonValues(_READING)
    schema = pa.schema(
        [("patient", pa.string()), ("window", pa.int64()), ("good", pa.bool_()), ("bad", pa.bool_())]
    )
    batches = []
    for rows in readings:
        values = json_values.decode(rows)
        # A reading that cannot be read says nothing: neither good nor bad.
        bad, known = _is_out_of_range(values), values.is_valid()
        window = pc.divide(milliseconds(rows), window_ms)
        columns = [
            rows.column("key").cast(pa.string()),
            window,
            pc.and_(known, pc.invert(bad)),
            pc.and_(known, bad),
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    table = pa.Table.from_batches(batches, schema)
    found = table.group_by(["patient", "window"]).aggregate([("good", "any"), ("bad", "any")])
    return found.select(["patient", "window", "good_any", "bad_any"]).rename_columns(schema.names)


def _is_out_of_range(values: pa.StructArray) -> pa.Array:
    pulse, spo2, temperature = values.flatten()
    tests = [
        pc.less(pulse, PULSE[0]),
        pc.greater(pulse, PULSE[1]),
        pc.less(spo2, SPO2_LEAST),
        pc.less(temperature, TEMPERATURE[0]),
        pc.greater(temperature, TEMPERATURE[1]),
    ]
    found = pc.fill_null(tests[0], False)
    for test in tests[1:]:
        found = pc.or_(found, pc.fill_null(test, False))
    return found


def duties(records: Iterable[pa.RecordBatch]) -> pa.Table:
    """In a task: columns patient, nurse, ward, from; in the order of the topic."""
    json_values = JsonValues(_DUTY)
    schema = pa.schema([("patient", pa.string()), *((field.name, field.type) for field in _DUTY)])
    batches = []
    for rows in records:
        nurse, ward, begins = json_values.decode(rows).flatten()
        columns = [rows.column("key").cast(pa.string()), nurse, ward, begins]
        found = pa.RecordBatch.from_arrays(columns, schema=schema)
        batches.append(found.filter(pc.and_(begins.is_valid(), nurse.is_valid())))
    return pa.Table.from_batches(batches, schema)


class Nurse:
    """All patients. Times of 0 mean never."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.patients = Store(
            {
                "streak": {"level": np.int8, "bad_since": np.int64, "good_since": np.int64},
                "duty": {
                    "duty_from": (np.int64, _SLOTS),
                    "duty_nurse": (np.int32, _SLOTS),
                    "duty_ward": (np.int32, _SLOTS),
                },
            }
        )
        self._names: dict[str, int] = {"": 0}
        self._name_list = [""]
        self._names_saved = 0
        self._open: dict[int, tuple[Any, Any]] = {}  # window -> (good, bad), each a flag for every patient
        self.judged_until = 0  # windows before this one are closed
        self.too_late = 0
        self._windows_changed = False

    @property
    def alerting(self) -> int:
        return int((self.patients["level"] > _NONE).sum())

    # -- the roster --------------------------------------------------------------------------------

    def on_roster(self, found: pa.Table) -> None:
        """A patient's rosters are kept by when they begin to hold; what is repeated changes nothing."""
        if not found.num_rows:
            return
        rows = self.patients.rows(found["patient"].combine_chunks())
        begins = found["from"].to_numpy()
        nurses = np.array([self._name(each) for each in found["nurse"].to_pylist()], np.int32)
        wards = np.array([self._name(each) for each in found["ward"].to_pylist()], np.int32)
        while len(rows):
            # One roster of each patient at a time: usually that is all of them.
            _, chosen = np.unique(rows, return_index=True)
            self._place(rows[chosen], begins[chosen], nurses[chosen], wards[chosen])
            left = np.ones(len(rows), bool)
            left[chosen] = False
            rows, begins, nurses, wards = rows[left], begins[left], nurses[left], wards[left]

    def _place(self, rows: Any, begins: Any, nurses: Any, wards: Any) -> None:
        known = self.patients["duty_from"]
        new = ~((known[rows] == begins[:, None] + 1).any(axis=1))
        rows, values = rows[new], (begins[new] + 1, nurses[new], wards[new])  # + 1: 0 is an empty slot
        oldest = known[rows].argmin(axis=1)
        for name, value in zip(("duty_from", "duty_nurse", "duty_ward"), values, strict=True):
            self.patients[name][rows, oldest] = value
        self.patients.touch("duty", rows)

    def _name(self, name: str) -> int:
        number = self._names.setdefault(name, len(self._names))
        if number == len(self._name_list):
            self._name_list.append(name)
        return number

    def _on_duty(self, row: int, at: int) -> tuple[str, str]:
        begins = self.patients["duty_from"][row]
        held = np.where((begins > 0) & (begins - 1 <= at), begins, 0)
        slot = int(held.argmax())
        if not held[slot]:
            return "", ""
        nurse, ward = (self.patients[name][row, slot] for name in ("duty_nurse", "duty_ward"))
        return self._name_list[nurse], self._name_list[ward]

    # -- the vitals --------------------------------------------------------------------------------

    def step(self, found: pa.Table, watermark_ms: int) -> list[Alert]:
        """Takes the windows of a micro-batch and the time; judges the windows that are complete."""
        self._take(found)
        alerts: list[Alert] = []
        end = watermark_ms // self._rules.window_ms  # windows before this one are complete
        for window in sorted(self._open):
            if window < end:
                alerts += self._judge(window, *self._open.pop(window))
                self._windows_changed = True
        self.judged_until = max(self.judged_until, end)
        return alerts

    def _take(self, found: pa.Table) -> None:
        if not found.num_rows:
            return
        rows = self.patients.rows(found["patient"].combine_chunks())
        window = found["window"].to_numpy()
        good = found["good"].combine_chunks().to_numpy(zero_copy_only=False)
        bad = found["bad"].combine_chunks().to_numpy(zero_copy_only=False)
        late = window < self.judged_until
        self.too_late += int(late.sum())
        for each in np.unique(window[~late]).tolist():
            here = window == each
            flags = self._flags(each)
            flags[0][rows[here & good]] = True
            flags[1][rows[here & bad]] = True
        self._windows_changed = True

    def _flags(self, window: int) -> tuple[Any, Any]:
        count = len(self.patients)
        good, bad = self._open.get(window, (np.zeros(count, bool), np.zeros(count, bool)))
        if len(good) < count:
            good, bad = (np.r_[each, np.zeros(count - len(each), bool)] for each in (good, bad))
        self._open[window] = good, bad
        return good, bad

    def _judge(self, window: int, good: Any, bad: Any) -> list[Alert]:
        """One window of all patients."""
        rules, at = self._rules, window * self._rules.window_ms
        level, bad_since, good_since = (
            self.patients[name][: len(good)] for name in ("level", "bad_since", "good_since")
        )
        bad = bad & ~good
        # In range: whoever has no alert forgets the lapse.
        rows = np.flatnonzero(good & ((bad_since > 0) | (level > _NONE)))
        calm = rows[level[rows] == _NONE]
        bad_since[calm] = 0
        alerted = rows[level[rows] > _NONE]
        good_since[alerted] = np.where(good_since[alerted] == 0, at, good_since[alerted])
        cleared = alerted[at - good_since[alerted] >= rules.clear_ms]
        alerts = [self._alert(row, _NONE, int(good_since[row]), at) for row in cleared.tolist()]
        level[cleared] = bad_since[cleared] = good_since[cleared] = 0
        # Out of range.
        ill = np.flatnonzero(bad)
        bad_since[ill] = np.where(bad_since[ill] == 0, at, bad_since[ill])
        good_since[ill] = 0
        lasted = at - bad_since[ill]
        reached = np.where(
            lasted >= rules.escalate_ms, _CRITICAL, np.where(lasted >= rules.sustained_ms, _WARNING, _NONE)
        )
        raised = reached > level[ill]
        for row, to in zip(ill[raised].tolist(), reached[raised].tolist(), strict=True):
            alerts.append(self._alert(row, to, int(bad_since[row]), at))
        level[ill] = np.maximum(level[ill], reached)
        self.patients.touch("streak", np.r_[rows, ill])
        return alerts

    def _alert(self, row: int, level: int, since: int, at: int) -> Alert:
        return Alert(self.patients.id_of(row), _LEVELS[level], since, at, *self._on_duty(row, at))

    # -- saving and loading ------------------------------------------------------------------------

    def changes(self) -> list[tuple[str, bytes]]:
        found = list(self.patients.changes())
        if len(self._names) > self._names_saved:
            self._names_saved = len(self._names)
            found.append((NAMES, packed_json(self._name_list)))
        if self._windows_changed:
            self._windows_changed = False
            found += self._packed_windows()
        return found

    def _packed_windows(self) -> list[tuple[str, bytes]]:
        """Flags as bits: a window of a million patients takes a quarter of a megabyte."""
        content = [packed_json({"judged_until": self.judged_until, "windows": sorted(self._open)})]
        for window in sorted(self._open):
            good, bad = self._flags(window)
            content += [np.packbits(good).tobytes(), np.packbits(bad).tobytes()]
        sizes = packed_json([len(each) for each in content])
        return [(WINDOWS, len(sizes).to_bytes(4) + sizes + b"".join(content))]

    def load(self, saved: dict[str, bytes]) -> None:
        packed, names = saved.pop(WINDOWS, None), saved.pop(NAMES, None)
        for key in Store.order(list(saved)):
            self.patients.load(key, saved[key])
        if names is not None:
            self._name_list = json.loads(names)
            self._names = {name: i for i, name in enumerate(self._name_list)}
            self._names_saved = len(self._names)
        if packed is not None:
            self._load_windows(packed)

    def _load_windows(self, packed: bytes) -> None:
        at = 4 + int.from_bytes(packed[:4])
        parts = []
        for size in json.loads(packed[4:at]):
            parts.append(packed[at : at + size])
            at += size
        told, count = json.loads(parts[0]), len(self.patients)
        self.judged_until = told["judged_until"]
        for i, window in enumerate(told["windows"]):
            good, bad = (
                np.unpackbits(np.frombuffer(part, np.uint8), count=count).astype(bool)
                for part in parts[1 + 2 * i : 3 + 2 * i]
            )
            self._open[window] = good, bad


def records(alerts: list[Alert]) -> tuple[str, pa.RecordBatch]:
    """As they are written to the topic."""
    keys = pa.array([a.patient for a in alerts], pa.string())
    values = pa.array([packed_json(a._asdict()) for a in alerts], pa.binary())
    return ALERT, pa.RecordBatch.from_arrays([keys, values], names=["key", "value"])
