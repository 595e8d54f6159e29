"""Joins of two streams in arrays give what they give record by record."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipelines.operators import Step
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.topology import TaskId
from ottla.streams.frames import Frame
from ottla.streams.frames import frame as framed
from ottla.streams.nodes import JoinWindows, StreamJoin
from ottla.streams.nodes.joins import INNER, LEFT, OUTER
from ottla.streams.nodes.pairing import Pairing
from ottla.streams.serdes import int64, objects, string


class Record(NamedTuple):
    side: int
    key: str | None
    value: str | None
    at: int


class Joined:
    """A join and its stores; steps are given to one of the two ways."""

    def __init__(self, windows: JoinWindows, how: str = INNER) -> None:
        self._node = StreamJoin(
            string, string, string, lambda a, b: f"{a}+{b}", windows, how, ("l", "r"), "w"
        )
        self._stores = {spec.name: KeyedStore(spec) for spec in self._node.specs()}
        self._marks: dict[str, int] = {}

    def step(self, records: list[Record], *, arrays: bool) -> Any:
        step = Step(TaskId("0", 0), self._stores, frozenset(), -1, 0, self._marks)
        frames = [_frame(records, side) for side in (0, 1)]
        if arrays:
            out = self._node.in_arrays(Pairing(self._node, step, frames), frames, step)
        else:
            out = self._node.record_by_record(frames, step)
        self._marks = step.marks
        changes = {name: store.changes(0).sort_by("key").to_pylist() for name, store in self._stores.items()}
        return _rows(out), changes, step.marks


def _frame(records: list[Record], side: int) -> Frame:
    mine = [(place, record) for place, record in enumerate(records) if record.side in (side, 2)]
    headers = [[{"key": "place", "value": b"%d" % place}] if place % 2 else None for place, _ in mine]
    return framed(
        string.decode(string.encode([record.key for _, record in mine])),
        [record.value for _, record in mine],
        [record.at for _, record in mine],
        order=[place for place, _ in mine],
        headers=headers,
    )


def _rows(out: Frame) -> list[tuple[Any, ...]]:
    headers = out.headers or [None] * len(out)
    columns = (objects(out.keys), objects(out.values), out.times.tolist(), out.order.tolist(), headers)
    return list(zip(*columns, strict=True))


RECORDS = st.builds(
    Record,
    st.sampled_from([0, 1, 2]),  # 2: both, as in a join of a stream with itself
    st.sampled_from(["a", "b", "c", None]),
    st.sampled_from(["1", "2", "3", None]),
    st.integers(0, 60) | st.just(1_800_000_000_000),
)
WINDOWS = st.builds(JoinWindows, st.integers(0, 20), st.integers(0, 20), st.integers(0, 10)) | st.just(
    JoinWindows(-3, 12, 4)
)


HOW = st.sampled_from([INNER, LEFT, OUTER])


@given(st.lists(st.lists(RECORDS, min_size=1, max_size=12), min_size=1, max_size=5), WINDOWS, HOW)
@settings(deadline=None, max_examples=60)
def test_pairs_found_in_arrays_are_those_found_one_by_one(
    steps: list[list[Record]], windows: JoinWindows, how: str
) -> None:
    one, other = Joined(windows, how), Joined(windows, how)
    for records in steps:
        assert one.step(records, arrays=True) == other.step(records, arrays=False)


@pytest.mark.parametrize("number", [0, 3])
def test_records_of_one_key_and_moment_are_told_apart_by_numbers(number: int) -> None:
    joined = Joined(JoinWindows(5, 5))
    joined.step([Record(0, "a", "old", 10)] * number or [Record(1, "x", "x", 10)], arrays=True)
    _, changes, _ = joined.step([Record(0, "a", "new", 10)] * 2, arrays=True)
    assert [change["key"][-4:] for change in changes["l"]] == [
        (number).to_bytes(4),
        (number + 1).to_bytes(4),
    ]


def test_times_too_far_apart_for_the_arithmetic_are_left_to_the_loop() -> None:
    node = StreamJoin(int64, string, string, max, JoinWindows(1, 1), INNER, ("l", "r"), "w")
    stores = {spec.name: KeyedStore(spec) for spec in node.specs()}
    step = Step(TaskId("0", 0), stores, frozenset(), -1, 0, {})
    far = framed([1, 2, 3], ["a", "b", "c"], [0, 1 << 61, 5])
    assert not Pairing(node, step, [far, far]).fits
    assert node.run_separate([far, far], step).values == ["b"]  # the others are gone by its time


def test_a_join_is_given_whole_steps() -> None:
    assert StreamJoin.one_by_one is False
