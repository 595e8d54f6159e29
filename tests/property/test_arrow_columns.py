"""Small Arrow arrays made and read by their buffers are those that Arrow's own functions give."""

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.state.arrays import (
    arrow_cells,
    arrow_column,
    codes_of,
    known_cells,
    numpy_column,
    taken,
)
from ottla.streams.errors import BadValue
from ottla.streams.serdes import float64, int32, int64

KINDS = [pa.binary(), pa.string(), pa.int32(), pa.int64(), pa.float64()]
VALUES = st.one_of(
    st.none(),
    st.binary(max_size=5),
    st.text(st.characters(), max_size=5),  # halves of pairs too, which are no UTF-8
    st.integers(-(2**64), 2**64),
    st.floats(allow_nan=False),
    st.booleans(),
)
ALIKE = st.sampled_from([st.binary(max_size=5), st.text(max_size=5), st.integers(-9, 9), st.floats(-1, 1)])


@given(st.lists(VALUES, max_size=6), st.sampled_from(KINDS))
def test_python_values_become_what_pyarrow_makes_of_them(values, kind):
    try:
        expected = pa.array(values, kind)
    except Exception as error:
        with pytest.raises(type(error)):
            arrow_cells(values, kind)
    else:
        found = arrow_cells(values, kind)
        found.validate(full=True)
        assert found.equals(expected)


@given(ALIKE.flatmap(lambda kind: st.lists(st.none() | kind, max_size=40)), st.data())
def test_cells_are_taken_as_arrow_takes_them(values, data):
    column = data.draw(slices(pa.array(values)))
    assert known_cells(column).tolist() == [cell is not None for cell in column.to_pylist()]
    if not len(column):
        return
    places = np.array(data.draw(st.lists(st.integers(0, len(column) - 1), max_size=40)), np.int64)
    known = np.array([data.draw(st.booleans()) for _ in places], bool)
    assert taken(column, places).equals(column.take(pa.array(places)))
    assert taken(column, places, known).equals(column.take(pa.array(places, mask=~known)))


@given(st.lists(st.binary(max_size=2), max_size=80), st.data())
def test_codes_stand_for_their_cells(cells, data):
    column = data.draw(slices(pa.array(cells, pa.binary())))
    codes, distinct = codes_of(column)
    assert distinct.take(pa.array(codes)).equals(column)
    assert distinct.equals(column.unique())


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=20), st.data())
def test_numbers_are_read_and_written_as_java_has_them(numbers, data):
    for serde, layout in ((int32, ">i"), (int64, ">q"), (float64, ">d")):
        packed = [None if number is None else struct.pack(layout, number) for number in numbers]
        column = data.draw(slices(pa.array(packed, pa.binary())))
        decoded = serde.decode(column)
        assert decoded.type == serde.kind
        assert decoded.to_pylist() == [
            None if cell is None else struct.unpack(layout, cell)[0] for cell in column.to_pylist()
        ]
        written = serde.encode(data.draw(slices(decoded)))
        written.validate(full=True)
        assert serde.decode(written).to_pylist() == [
            None if cell is None else struct.unpack(layout, cell)[0] for cell in written.to_pylist()
        ]
        assert serde.encode(decoded).equals(column)


def test_a_cell_of_another_size_is_no_number():
    with pytest.raises(BadValue, match="has 8 bytes"):
        int64.decode(pa.array([bytes(8), None, bytes(7)]))


@given(st.lists(st.booleans(), max_size=20), st.data())
def test_truth_values_and_numbers_are_the_same_on_both_sides(truth, data):
    known = np.array([data.draw(st.booleans()) for _ in truth], bool)
    assert arrow_column(np.array(truth, bool), known=known).equals(
        pa.array(np.array(truth, bool), mask=~known)
    )
    numbers = data.draw(slices(pa.array(range(len(truth)), pa.int64())))
    assert numpy_column(numbers).tolist() == numbers.to_pylist()


def slices(column):
    """Any part of it: what comes from a fetch may begin anywhere in its buffers."""
    edges = st.tuples(st.integers(0, len(column)), st.integers(0, len(column))).map(sorted)
    return edges.map(lambda edge: column.slice(edge[0], edge[1] - edge[0]))
