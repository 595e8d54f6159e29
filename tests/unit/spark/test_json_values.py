"""JSON to columns: rows stay rows whatever the values are."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="needs the extra arrow")

from ottla.spark.errors import BadValue  # noqa: E402
from ottla.spark.json_values import JsonValues  # noqa: E402

KIND = pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
GOOD = st.fixed_dictionaries(
    {},
    optional={
        "a": st.none() | st.integers(-(2**63), 2**63 - 1),
        "b": st.none() | st.text(),
        "c": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "unknown": st.lists(st.integers(), max_size=2),
    },
)
BAD = st.sampled_from(
    [b"", b" ", b"{", b"5", b"null", b"[]", b'{"a": "text"}', b'{"a": 1}{"a": 2}', b"\xff", b"\n"]
)


def rows(values):
    count = len(values)
    return pa.record_batch(
        {
            "value": pa.array(values, pa.binary()),
            "topic": pa.array(["t"] * count, pa.string()),
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
        }
    )


def encoded(value):
    return (
        value if isinstance(value, bytes) else None if value is None else json.dumps(value, indent=1).encode()
    )


def expected(value):
    if value is None or isinstance(value, bytes):
        return None
    return {name: value.get(name) for name in ("a", "b", "c")}


@given(st.lists(GOOD | st.none() | BAD, max_size=20))
@settings(max_examples=60, deadline=None)
def test_every_value_becomes_its_fields_or_null(values):
    decoded = JsonValues(KIND).decode(rows([encoded(each) for each in values]))
    assert decoded.type == KIND
    assert decoded.to_pylist() == [expected(each) for each in values]


def test_with_failfast_the_record_is_named():
    with pytest.raises(BadValue, match=r"t-3, offset 2: .*Expecting value"):
        JsonValues(KIND, fail_fast=True).decode(rows([b'{"a": 1}', None, b"oops", b"{}"]))


def test_times_and_nested_fields():
    kind = pa.struct(
        [
            ("at", pa.timestamp("us", tz="UTC")),
            ("inner", pa.struct([("x", pa.int32())])),
            ("l", pa.list_(pa.int32())),
        ]
    )
    values = [b'{"at": "2026-01-02T03:04:05Z", "inner": {"x": 1}, "l": [1, 2]}', b"{}"]
    first, second = JsonValues(kind).decode(rows(values)).to_pylist()
    assert first["at"].isoformat() == "2026-01-02T03:04:05+00:00"
    assert (first["inner"], first["l"]) == ({"x": 1}, [1, 2])
    assert second == {"at": None, "inner": None, "l": None}
