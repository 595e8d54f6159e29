"""Windowed keys in Kafka's bytes. The expected ones were written by Kafka 4.3.1's own serializers."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.state import windows

TIME = 0x0102030405060708
INT64 = st.integers(-(2**63), 2**63 - 1)


def a_key(text="ab"):
    return pa.array([text.encode()], pa.binary())


def test_a_result_has_the_bytes_of_the_time_windowed_serializer():
    assert windows.window_keys(a_key(), [TIME])[0].as_py().hex() == "61620102030405060708"


def test_a_window_stores_key_has_the_bytes_of_the_window_key_schema():
    assert windows.stored_window_keys(a_key(), [TIME], [7])[0].as_py().hex() == "6162010203040506070800000007"
    assert windows.stored_window_keys(a_key(), [5])[0].as_py().hex() == "6162000000000000000500000000"


def test_a_session_has_the_bytes_of_the_session_windowed_serializer():
    key = windows.session_keys(a_key(), starts=[3], ends=[TIME])
    assert key[0].as_py().hex() == "616201020304050607080000000000000003"


@given(
    st.lists(st.tuples(st.binary(max_size=12), INT64, INT64, st.integers(-(2**31), 2**31 - 1)), max_size=9)
)
def test_what_is_joined_is_split_again(cells):
    keys = pa.array([key for key, *_ in cells], pa.binary())
    starts = np.array([start for _, start, _, _ in cells], np.int64)
    ends = np.array([end for _, _, end, _ in cells], np.int64)
    sequences = np.array([sequence for *_, sequence in cells], np.int64)
    joined = (
        (windows.split_window_keys(windows.window_keys(keys, starts)), (starts,)),
        (
            windows.split_stored_window_keys(windows.stored_window_keys(keys, starts, sequences)),
            (starts, sequences),
        ),
        (windows.split_session_keys(windows.session_keys(keys, starts, ends)), (starts, ends)),
    )
    for (plain, *parts), expected in joined:
        assert plain.to_pylist() == keys.to_pylist()
        for part, wanted in zip(parts, expected, strict=True):
            assert part.tolist() == wanted.tolist()


def test_a_part_of_an_array_is_split_as_that_part():
    keys = windows.window_keys(pa.array([b"a", b"b", b"c"], pa.binary()), [1, 2, 3]).slice(1)
    plain, starts = windows.split_window_keys(keys)
    assert plain.to_pylist() == [b"b", b"c"]
    assert starts.tolist() == [2, 3]


def test_a_key_without_a_window_is_refused():
    with pytest.raises(ValueError, match="a key of 3 bytes ends in no window"):
        windows.split_window_keys(pa.array([b"abc"], pa.binary()))
