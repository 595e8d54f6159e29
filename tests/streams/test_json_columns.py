"""JSON of whole columns is the JSON that Python writes."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.streams.json_columns import encoded, is_flat

KIND = pa.struct([("n", pa.int64()), ("x", pa.float64()), ("text", pa.string()), ("yes", pa.bool_())])
ROWS = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "x": st.none()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.integers(-1000, 1000).map(float),
        "text": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        "yes": st.none() | st.booleans(),
    }
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.none() | ROWS, max_size=6))
def test_texts_are_those_of_python(rows: list[dict[str, object] | None]) -> None:
    assert is_flat(KIND)
    column = pa.array(rows, KIND)
    texts = [
        json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() for row in column.to_pylist()
    ]
    assert encoded(column).to_pylist() == [None if text == b"null" else text for text in texts]


def test_what_is_nested_is_left_to_python() -> None:
    assert not is_flat(pa.struct([("tags", pa.list_(pa.string()))]))
    assert not is_flat(pa.int64())
