"""The nurse's pipeline: patients out of range for a sustained time, who looks after them, and the all-clear.

Readings form windows. A window counts as out of range if every reading in it is; that is the same whether readings
come once or twice. When the watermark has passed a window it is judged, for all patients at once:

    out of range for `sustained_ms`     -> warning      (once)
    out of range for `escalate_ms`      -> critical     (once)
    in range again for `clear_ms`       -> clear

A short recovery does not end an alert and a short lapse does not begin one: that keeps storms away.
"""

import json
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.homecare.rules import PULSE, SPO2_LEAST, TEMPERATURE, Rules
from ottla.homecare.technician import milliseconds
from ottla.homecare.topics import ALERT, ROSTER
from ottla.pipelines import Operator, Step, StoreSpec
from ottla.pipelines.state.store import KeyedStore
from ottla.spark.json_values import JsonValues

# Times of 0 mean never. `good` and `bad` have a bit for each window that is not judged yet: number % 64. The rest is
# JSON: rosters, and readings of windows that are more than 64 ahead.
PATIENTS = StoreSpec(
    "patients",
    (
        ("level", "int32"),
        ("bad_since", "int64"),
        ("good_since", "int64"),
        ("good", "int64"),
        ("bad", "int64"),
        ("is_ahead", "bool"),
        ("rest", "bytes"),
    ),
)
RING = 64
_READING = pa.struct([("pulse", pa.float64()), ("spo2", pa.float64()), ("temperature", pa.float64())])
_DUTY = pa.struct([("nurse", pa.string()), ("ward", pa.string()), ("from", pa.int64())])
_DUTIES_MAX = 4  # rosters of a patient that are remembered: what held before, what holds, what will hold
_NONE, _WARNING, _CRITICAL = 0, 1, 2
_LEVELS = ("clear", "warning", "critical")


class Alert(NamedTuple):
    patient: str
    level: str  # warning, critical, clear
    since: int
    at: int
    nurse: str
    ward: str


class Nurse(Operator):
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._json = JsonValues(_READING), JsonValues(_DUTY)
        self._readings: pa.Table | None = None  # of this step
        self._too_late = 0

    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        rows = rows.filter(rows.column("key").is_valid())  # of nobody: it says nothing
        is_duty = pc.equal(rows.column("topic"), ROSTER)
        # The roster first: what is known by now holds for what is judged now.
        self._on_roster(step.stores["patients"], rows.filter(is_duty))
        vitals = rows.filter(pc.invert(is_duty))
        if vitals.num_rows:
            self._readings = windows(vitals, self._rules.window_ms, self._json[0])

    def advance(self, step: Step) -> None:
        patients, before = step.stores["patients"], step.before_ms
        readings, self._readings = self._readings, None
        todo = _Todo.of(patients, readings)
        judged, target = self._complete(before), self._complete(step.time_ms)
        late = todo.drop_before(judged)
        alerts: list[Alert] = []
        while True:
            open_windows = _open(patients, judged)
            if not open_windows and len(todo):
                judged = max(judged, min(todo.first, target))
            todo.take(patients, judged + RING)
            end = min(target, judged + RING)
            for window in _open(patients, judged):
                if window < end:
                    alerts += self._judge(patients, window)
            judged = max(judged, end)
            if judged >= target or (not len(todo) and not _open(patients, judged)):
                break
        todo.keep(patients)
        step.emit(ALERT, records(alerts))
        self._too_late += late
        step.show(alerting=int((patients["level"] > _NONE).sum()), too_late=self._too_late)

    def _complete(self, time_ms: int) -> int:
        """Windows before this one are complete."""
        return (time_ms - self._rules.lateness_ms) // self._rules.window_ms

    # -- the roster --------------------------------------------------------------------------------

    def _on_roster(self, patients: KeyedStore, rows: pa.RecordBatch) -> None:
        """A patient's rosters are kept by when they begin to hold; what is repeated changes nothing."""
        if not rows.num_rows:
            return
        decoded = self._json[1].decode(rows)
        known = pc.and_(decoded.field("from").is_valid(), decoded.field("nurse").is_valid())
        places = patients.rows(rows.column("key").filter(known))
        rests: dict[int, Any] = {}
        for row, duty in zip(places.tolist(), decoded.filter(known).to_pylist(), strict=True):
            rest = rests.setdefault(row, _rest(patients, row))
            duties = [entry for entry in rest["duties"] if entry[0] != duty["from"]]
            duties.append([duty["from"], duty["nurse"], duty["ward"]])
            rest["duties"] = sorted(duties)[-_DUTIES_MAX:]
        _put(patients, rests)

    # -- judging -----------------------------------------------------------------------------------

    def _judge(self, patients: KeyedStore, window: int) -> list[Alert]:
        """One window of all patients."""
        rules, at, bit = self._rules, window * self._rules.window_ms, window % RING
        level, bad_since, good_since = (patients[name] for name in ("level", "bad_since", "good_since"))
        good, bad = _cleared(patients["good"], bit), _cleared(patients["bad"], bit)
        patients.touch(np.flatnonzero(good | bad))
        bad &= ~good
        # In range: a patient without an alert forgets the lapse.
        rows = np.flatnonzero(good & ((bad_since > 0) | (level > _NONE)))
        calm = rows[level[rows] == _NONE]
        bad_since[calm] = 0
        alerted = rows[level[rows] > _NONE]
        good_since[alerted] = np.where(good_since[alerted] == 0, at, good_since[alerted])
        cleared = alerted[at - good_since[alerted] >= rules.clear_ms]
        alerts = [_alert(patients, row, _NONE, int(good_since[row]), at) for row in cleared.tolist()]
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
            alerts.append(_alert(patients, row, to, int(bad_since[row]), at))
        level[ill] = np.maximum(level[ill], reached)
        return alerts


class _Todo:
    """Windows of this step, and those that were too far ahead in earlier ones: rows of the store, in order."""

    def __init__(self, rows: Any, window: Any, good: Any, bad: Any) -> None:
        order = np.argsort(window, kind="stable")
        self._columns = [column[order] for column in (window, rows, good, bad)]

    @classmethod
    def of(cls, patients: KeyedStore, readings: pa.Table | None) -> "_Todo":
        columns: list[list[Any]] = [[], [], [], []]
        if readings is not None:
            keys = readings["patient"].combine_chunks()
            flags = (
                readings[name].combine_chunks().to_numpy(zero_copy_only=False) for name in ("good", "bad")
            )
            for column, values in zip(
                columns, (patients.rows(keys), readings["window"].to_numpy(), *flags), strict=True
            ):
                column.append(values)
        for row in np.flatnonzero(patients["is_ahead"]).tolist():
            rest = _rest(patients, row)
            for window, good, bad in rest.pop("ahead"):
                for column, value in zip(columns, (row, window, good, bad), strict=True):
                    column.append(np.array([value]))
            _put(patients, {row: {**rest, "ahead": []}})
        kinds = (np.int64, np.int64, bool, bool)
        return cls(
            *(
                np.concatenate([np.empty(0, kind), *column]).astype(kind)
                for column, kind in zip(columns, kinds, strict=True)
            )
        )

    def __len__(self) -> int:
        return len(self._columns[0])

    @property
    def first(self) -> int:
        return int(self._columns[0][0])

    def drop_before(self, window: int) -> int:
        return len(self._cut(window)[0])

    def take(self, patients: KeyedStore, before: int) -> None:
        """Into the rings."""
        window, rows, good, bad = self._cut(before)
        bits = np.uint64(1) << (window % RING).astype(np.uint64)
        for name, chosen in (("good", good), ("bad", bad)):
            np.bitwise_or.at(patients[name].view(np.uint64), rows[chosen], bits[chosen])
        patients.touch(rows)

    def keep(self, patients: KeyedStore) -> None:
        """What is left is too far ahead for the rings."""
        rests: dict[int, Any] = {}
        for window, row, good, bad in zip(*(column.tolist() for column in self._columns), strict=True):
            rests.setdefault(row, _rest(patients, row))["ahead"].append([window, good, bad])
        _put(patients, rests)

    def _cut(self, before: int) -> list[Any]:
        count = int(np.searchsorted(self._columns[0], before))
        taken = [column[:count] for column in self._columns]
        self._columns = [column[count:] for column in self._columns]
        return taken


def windows(rows: pa.RecordBatch, window_ms: int, json_values: JsonValues) -> pa.Table:
    """Readings as columns patient, window, good, bad (whether there was such a reading)."""
    values = json_values.decode(rows)
    # A reading that cannot be read says nothing: neither good nor bad.
    bad, known = _is_out_of_range(values), values.is_valid()
    table = pa.table(
        {
            "patient": rows.column("key"),
            "window": pc.divide(milliseconds(rows), window_ms),
            "good": pc.and_(known, pc.invert(bad)),
            "bad": pc.and_(known, bad),
        }
    )
    windows_table = table.group_by(["patient", "window"]).aggregate([("good", "any"), ("bad", "any")])
    return windows_table.select(["patient", "window", "good_any", "bad_any"]).rename_columns(
        table.column_names
    )


def _is_out_of_range(values: pa.StructArray) -> pa.Array:
    pulse, spo2, temperature = values.flatten()
    tests = [
        pc.less(pulse, PULSE[0]),
        pc.greater(pulse, PULSE[1]),
        pc.less(spo2, SPO2_LEAST),
        pc.less(temperature, TEMPERATURE[0]),
        pc.greater(temperature, TEMPERATURE[1]),
    ]
    any_test = pc.fill_null(tests[0], False)
    for test in tests[1:]:
        any_test = pc.or_(any_test, pc.fill_null(test, False))
    return any_test


def _open(patients: KeyedStore, judged: int) -> list[int]:
    """The windows that have readings and are not judged, in order. `judged` is the first that may be open."""
    union = int(np.bitwise_or.reduce(patients["good"] | patients["bad"])) if len(patients) else 0
    used_bits = [bit for bit in range(RING) if union >> bit & 1]
    return sorted(judged + (bit - judged) % RING for bit in used_bits)


def _cleared(masks: Any, bit: int) -> Any:
    """Whose bit was set; it is not any more."""
    bits, mask = masks.view(np.uint64), np.uint64(1 << bit)
    is_set = (bits & mask) != 0
    bits &= ~mask
    return is_set


def _alert(patients: KeyedStore, row: int, level: int, since: int, at: int) -> Alert:
    patient = patients.keys([row])[0].as_py().decode()
    held = [duty for duty in _rest(patients, row)["duties"] if duty[0] <= at]
    nurse, ward = (held[-1][1], held[-1][2]) if held else ("", "")
    return Alert(patient, _LEVELS[level], since, at, nurse, ward)


def _rest(patients: KeyedStore, row: int) -> dict[str, Any]:
    text = patients.values([row])[0].as_py()
    rest: dict[str, Any] = json.loads(text) if text else {"duties": [], "ahead": []}
    return rest


def _put(patients: KeyedStore, rests: dict[int, Any]) -> None:
    if rests:
        rows = np.array(list(rests), np.int64)
        texts = [json.dumps(rest, separators=(",", ":")).encode() for rest in rests.values()]
        patients.put_values(rows, pa.array(texts, pa.binary()))
        patients["is_ahead"][rows] = [bool(rest["ahead"]) for rest in rests.values()]


def records(alerts: list[Alert]) -> pa.RecordBatch:
    """As they are written to the topic."""
    keys = pa.array([alert.patient.encode() for alert in alerts], pa.binary())
    values = [json.dumps(alert._asdict(), sort_keys=True).encode() for alert in alerts]
    return pa.RecordBatch.from_arrays([keys, pa.array(values, pa.binary())], names=["key", "value"])
