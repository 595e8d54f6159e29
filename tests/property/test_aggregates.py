"""Windowed aggregates against a plain loop, record by record, with Kafka Streams' rules for windows and lateness."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipelines.aggregate import Aggregate, WindowedAggregate, Windows, columns, fold
from ottla.pipelines.state.spec import BadStore, StoreSpec
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.state.windows import split_stored_window_keys

AGGREGATES = (
    Aggregate("n", "count"),
    Aggregate("total", "sum", "pulse"),
    Aggregate("low", "min", "pulse"),
    Aggregate("high", "max", "pulse"),
    Aggregate("newest", "last", "pulse"),
    Aggregate("warmest", "max", "warmth", "float64"),
    Aggregate("coldest", "min", "warmth", "float64"),
)
RECORD = st.tuples(
    st.sampled_from([b"a", b"b", b"c"]),
    st.integers(0, 300),
    st.integers(-9, 9),
    st.sampled_from([-1.5, 0.0, 3.25]),
)
WINDOWS = st.builds(
    Windows, st.sampled_from([10, 30]), st.sampled_from([None, 1, 7, 10]), st.sampled_from([0, 5, 100])
)


def folded(before, pulse, warmth):
    if before is None:
        return (1, pulse, pulse, pulse, pulse, warmth, warmth)
    n, total, low, high, _, warmest, coldest = before
    return (
        n + 1,
        total + pulse,
        min(low, pulse),
        max(high, pulse),
        pulse,
        max(warmest, warmth),
        min(coldest, warmth),
    )


def windows_for(windows, time):
    """As Kafka's TimeWindows.windowsFor."""
    step = windows.step_ms
    start = max(0, time - windows.size_ms + step) // step * step
    while start <= time:
        yield start
        start += step


class Model:
    def __init__(self, windows):
        self.windows, self.rows, self.late, self.time = windows, {}, 0, -1

    def take(self, key, time, pulse, warmth):
        self.time = max(self.time, time)
        for start in windows_for(self.windows, time):
            if start + self.windows.size_ms > self.time - self.windows.grace_ms:
                self.rows[key, start] = folded(self.rows.get((key, start)), pulse, warmth)
            else:
                self.late += 1

    def take_closed(self):
        closed = {
            (key, start): cells
            for (key, start), cells in self.rows.items()
            if start + self.windows.size_ms + self.windows.grace_ms <= self.time
        }
        self.rows = {at: cells for at, cells in self.rows.items() if at not in closed}
        return closed


def arrays(records):
    keys, times, pulses, warmths = zip(*records, strict=True) if records else ((), (), (), ())
    inputs = {"pulse": np.array(pulses, np.int64), "warmth": np.array(warmths, np.float64)}
    return pa.array(keys, pa.binary()), np.array(times, np.int64), inputs


def cells_of(columns, count):
    picked = [columns[aggregate.name].tolist() for aggregate in AGGREGATES]
    return [tuple(column[at] for column in picked) for at in range(count)]


def held(store):
    rows = np.flatnonzero(store.alive())
    keys, starts, _ = split_stored_window_keys(store.keys(rows))
    columns = {aggregate.name: store[aggregate.name][rows] for aggregate in AGGREGATES}
    return dict(
        zip(zip(keys.to_pylist(), starts.tolist(), strict=True), cells_of(columns, len(rows)), strict=True)
    )


@settings(deadline=None)
@given(WINDOWS, st.lists(st.lists(RECORD, max_size=12), max_size=6), st.booleans())
def test_any_cut_into_steps_gives_what_a_loop_gives(windows, steps, closes):
    aggregate, model = WindowedAggregate("pulse", windows, AGGREGATES), Model(windows)
    store, time, late = KeyedStore(aggregate.spec), -1, 0
    for records in steps:
        before = dict(model.rows)
        for record in records:
            model.take(*record)
        keys, times, inputs = arrays(records)
        updated = aggregate.update(store, keys, times, inputs, time)
        time, late = updated.time_ms, late + updated.late
        changed = {at for at, cells in model.rows.items() if before.get(at) != cells}
        assert len(updated.rows) == len(changed)
        if closes:
            closed = aggregate.take_closed(store, time)
            at = list(zip(closed.keys.to_pylist(), closed.starts.tolist(), strict=True))
            assert dict(zip(at, cells_of(closed.columns, len(at)), strict=True)) == model.take_closed()
            assert at == sorted(at, key=lambda pair: (pair[1], pair[0]))
        assert held(store) == model.rows
    assert (time, late) == (model.time, model.late)


@settings(deadline=None)
@given(st.lists(st.lists(RECORD, max_size=12), max_size=5))
def test_without_windows_each_key_has_its_row(steps):
    store, model = KeyedStore(StoreSpec("s", columns(AGGREGATES))), {}
    for records in steps:
        keys, _, inputs = arrays(records)
        changed = fold(store, keys, inputs, AGGREGATES)
        assert set(store.keys(changed).to_pylist()) == {key for key, *_ in records}
        for key, _, pulse, warmth in records:
            model[key] = folded(model.get(key), pulse, warmth)
    rows = np.flatnonzero(store.alive())
    picked = {aggregate.name: store[aggregate.name][rows] for aggregate in AGGREGATES}
    assert dict(zip(store.keys(rows).to_pylist(), cells_of(picked, len(rows)), strict=True)) == model


def test_what_cannot_be_computed_is_refused():
    for wrong in ({"how": "median", "of": "x"}, {"how": "count", "of": "x"}, {"how": "sum"}):
        with pytest.raises(BadStore, match="aggregate a"):
            Aggregate("a", **wrong)
    for size, advance, grace in ((0, None, 0), (10, 11, 0), (10, 0, 0), (10, None, -1)):
        with pytest.raises(BadStore, match="advance_ms <= size_ms"):
            Windows(size, advance, grace)
