"""Large values in records of a bounded size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.homecare.pieces import join, split

VALUES = st.dictionaries(st.text(st.characters(exclude_characters="\0")), st.binary(max_size=60))


@given(VALUES, st.integers(1, 20))
def test_what_was_split_is_joined_again_and_no_piece_is_too_large(
    values: dict[str, bytes], piece_bytes: int
) -> None:
    written = split(values.items(), piece_bytes)
    assert join(written) == values
    assert all(len(piece) <= piece_bytes + 4 for piece in written.values())


def test_a_value_that_shrank_leaves_nothing_of_its_longer_self() -> None:
    topic = split([("state", b"abcdefghij")], 3)
    topic |= split([("state", b"xy")], 3)
    assert join(topic) == {"state": b"xy"}
