"""The key table: C and Python leave the same bytes in the same arrays, and both hold what a dict holds."""

import contextlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipelines.state import table_py
from ottla.pipelines.state.arrays import MemoryArrays
from ottla.pipelines.state.table import Full, Table, Values

compiled = pytest.importorskip("ottla.pipelines.state._table")

SEEDS = st.integers(1, 2**62)
KEY = st.binary(max_size=40) | st.integers(0, 60).map(lambda number: b"key-%d" % number)
KEYS = st.lists(KEY, max_size=40)
ACTIONS = st.lists(
    st.tuples(st.just("assign"), KEYS)
    | st.tuples(st.just("find"), KEYS)
    | st.tuples(st.just("delete"), st.lists(st.integers(0, 10**6), max_size=30))
    | st.tuples(st.just("many"), st.integers(0, 5)),
    max_size=12,
)


def binary(keys):
    return pa.array(keys, pa.binary())


class Small(MemoryArrays):
    """Arrays that begin with few items, so that growing and packing are seen often."""

    def open(self, name, dtype, rows):
        return super().open(name, dtype, {"slots": 4, "counters": 16}.get(name, 2))


def tables(seed, arrays=Small):
    pair = []
    for functions in (compiled, table_py):
        own = arrays()
        own.open("counters", np.dtype(np.int64), 16)[0] = seed
        pair.append((Table(own, functions), own))
    return pair


def same_bytes(first, second):
    for name, array in first._arrays.items():
        other = second._arrays[name]
        assert array.tobytes() == other.tobytes(), name


@settings(deadline=None, max_examples=150)
@given(SEEDS, ACTIONS)
def test_c_and_python_leave_the_same_bytes_and_hold_what_a_dict_holds(seed, actions):
    (c, c_arrays), (py, py_arrays) = tables(seed)
    rows_of = {}
    for name, argument in actions:
        if name == "many":
            name, argument = "assign", [b"%d-%d" % (argument, number) for number in range(300)]
        if name == "assign":
            (rows, created), (other_rows, other_created) = (
                c.assign(binary(argument)),
                py.assign(binary(argument)),
            )
            assert rows.tolist() == other_rows.tolist()
            assert created.tolist() == other_created.tolist()
            assert sorted(created) == sorted(
                {row for key, row in zip(argument, rows, strict=True) if key not in rows_of}
            )
            for key, row in zip(argument, rows.tolist(), strict=True):
                assert rows_of.setdefault(key, row) == row
            assert len(set(rows_of.values())) == len(rows_of)
        elif name == "find":
            expected = [rows_of.get(key, -1) for key in argument]
            assert c.find(binary(argument)).tolist() == expected
            assert py.find(binary(argument)).tolist() == expected
        elif rows_of:
            picked = np.array([list(rows_of.values())[at % len(rows_of)] for at in argument], np.int64)
            gone = set(picked.tolist())
            assert c.delete(picked) == py.delete(picked) == len(gone)
            rows_of = {key: row for key, row in rows_of.items() if row not in gone}
        same_bytes(c_arrays, py_arrays)
        assert len(c) == len(py) == len(rows_of)
    kept = np.array(list(rows_of.values()), np.int64)
    assert c.keys(kept).to_pylist() == py.keys(kept).to_pylist() == list(rows_of)
    assert set(np.flatnonzero(c.alive()).tolist()) == set(rows_of.values())
    assert c.find(binary(list(rows_of))).tolist() == list(rows_of.values())


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 20), st.binary(max_size=30)), max_size=30), max_size=8),
    st.data(),
)
def test_values_of_variable_size_are_the_same_in_c_and_python(puts, data):
    pair = []
    for functions in (compiled, table_py):
        own = Small()
        values = Values(own, own.open("counters", np.dtype(np.int64), 16), functions)
        values.grow(21)
        pair.append((values, own))
    model = {}
    for cells in puts:
        rows = np.array([row for row, _ in cells], np.int64)
        gone = np.array(sorted(data.draw(st.sets(st.sampled_from(sorted(model))))) if model else [], np.int64)
        for values, _ in pair:
            values.delete(gone)
            values.put(rows, binary([value for _, value in cells]))
        model = {row: value for row, value in model.items() if row not in gone} | dict(cells)
        same_bytes(pair[0][1], pair[1][1])
        for values, _ in pair:
            assert values.get(np.arange(21)).to_pylist() == [model.get(row, b"") for row in range(21)]


@settings(deadline=None, max_examples=60)
@given(SEEDS, st.lists(KEY, unique=True, min_size=1, max_size=30), st.integers(0, 30))
def test_at_the_limit_both_stop_with_the_same_rows(seed, keys, limit):
    (c, c_arrays), (py, py_arrays) = tables(seed)
    for table in (c, py):
        if limit < len(keys):
            with pytest.raises(Full):
                table.assign(binary(keys), limit)
        else:
            table.assign(binary(keys), limit)
        assert len(table) == min(limit, len(keys))
    same_bytes(c_arrays, py_arrays)


@settings(deadline=None, max_examples=100)
@given(SEEDS, st.lists(KEY, max_size=20), st.integers(0, 5), st.integers(0, 5))
def test_a_part_of_an_array_is_taken_as_that_part(seed, keys, skip, cut):
    part = binary(keys).slice(skip, max(0, len(keys) - skip - cut))
    for table, _ in tables(seed):
        rows, _ = table.assign(part)
        assert table.keys(rows).to_pylist() == part.to_pylist()


@settings(deadline=None, max_examples=200)
@given(
    SEEDS,
    st.sampled_from(["counters", "slots", "key-offsets", "keys"]),
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 2**64 - 1)), min_size=1, max_size=6),
    KEYS,
)
def test_arrays_full_of_nonsense_are_an_error_or_a_wrong_answer_but_never_the_end(seed, where, changes, keys):
    """A file may hold anything. C must not leave its arrays, and neither may loop for ever."""
    for table, arrays in tables(seed, MemoryArrays):
        table.assign(binary([b"key-%d" % number for number in range(50)]))
        words = arrays._arrays[where].view(np.uint8).view(np.uint64)
        for at, value in changes:
            words[at % min(len(words), 300)] = np.uint64(value)
        for act in (
            lambda table=table: table.find(binary(keys)),
            lambda table=table: table.assign(binary(keys), 100),
            lambda table=table: table.keys(np.arange(50)),
            lambda table=table: table.delete(np.arange(50)),
        ):
            with contextlib.suppress(ValueError, Full, OverflowError, MemoryError, IndexError):
                act()


def test_wrong_buffers_are_refused():
    _, arrays = tables(5, MemoryArrays)[0]
    counters, slots, offsets, heap = (
        arrays._arrays[name] for name in ("counters", "slots", "key-offsets", "keys")
    )
    rows, edges = np.empty(2, np.int64), np.array([0, 1, 2], np.int32)
    for arguments in (
        (counters, slots, offsets, heap, rows[:1], edges, b"ab", 0, 2),
        (counters, slots, offsets, heap, rows, edges, b"a", 0, 2),
        (counters, slots, offsets, heap, rows, edges[:2], b"ab", 0, 2),
        (counters, slots, offsets, heap, rows, edges, b"ab", -1, 2),
        (counters, slots[:3], offsets, heap, rows, edges, b"ab", 0, 2),
        (counters[:5], slots, offsets, heap, rows, edges, b"ab", 0, 2),
        (counters, slots, offsets, heap, rows, np.array([0, -1, 2], np.int32), b"ab", 0, 2),
    ):
        with pytest.raises(ValueError, match="do not fit together"):
            compiled.find(*arguments)
    assert compiled.find(counters, slots, offsets, heap, rows, edges, b"ab", 0, 2) == 2
    with pytest.raises((BufferError, TypeError, ValueError)):
        compiled.find(bytes(128), slots, offsets, heap, rows, edges, b"ab", 0, 2)


def test_keys_are_spread_whatever_they_look_like():
    """Numbers, long common beginnings, zeros: the slots stay as full as chance makes them."""
    table, arrays = tables(77, MemoryArrays)[0]
    for keys in (
        [number.to_bytes(8, "big") for number in range(20_000)],
        [b"x" * 100 + b"%d" % number for number in range(20_000)],
        [bytes(number) for number in range(300)],
    ):
        table.assign(binary(keys))
    slots = arrays._arrays["slots"]
    homes = slots["hash"][slots["row"] > 0] & (len(slots) - 1)
    at = np.flatnonzero(slots["row"])
    distance = (at - homes) % len(slots)
    assert distance.mean() < 2
