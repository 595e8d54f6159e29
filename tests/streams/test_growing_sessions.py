"""Sessions that grow at their end are kept as sessions that are looked for record by record."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipelines.operators import Step
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.topology import TaskId
from ottla.streams.frames import frame as framed
from ottla.streams.nodes import SessionAggregate, Sessions
from ottla.streams.nodes.aggregates import Folding
from ottla.streams.serdes import objects, string

Record = tuple[str, str, int]  # key, value, time


class Kept:
    """A node with its store. One that is `traced` must tell every change, so it takes no short way."""

    def __init__(self, windows: Sessions, *, traced: bool) -> None:
        folding = Folding(string, str, lambda key, value, seen: None if value == "-" else f"{seen}{value}")
        self._node = SessionAggregate(
            "s", string, folding, lambda key, one, other: f"{one}{other}", windows, traced=traced
        )
        self._store = KeyedStore(folding.spec("s"))
        self._marks: dict[str, int] = {}

    def step(self, records: list[Record]) -> Any:
        step = Step(TaskId("0", 0), {"s": self._store}, frozenset(), -1, 0, self._marks)
        keys, values, times = (list(column) for column in zip(*records, strict=True))
        out = self._node.run(framed(keys, values, times, order=range(len(records))), step)
        self._marks = step.marks
        columns = (objects(out.keys), objects(out.values), objects(out.olds or []), out.times.tolist())
        # With a single change, and with several that cancel out, a value that was never there may be told as gone.
        told = [row for row in zip(*columns, strict=True) if row[1] is not None or row[2] is not None]
        told.sort(key=lambda row: row[0].key)  # the order of one key's changes is what is promised
        return told, self._store.changes(0).sort_by("key").to_pylist(), step.marks


RECORDS = st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "2", "3", "-"]), st.integers(0, 60))


@given(
    st.lists(st.lists(RECORDS, min_size=1, max_size=12), min_size=1, max_size=5),
    st.builds(Sessions, st.integers(1, 12), st.integers(0, 12)),
    st.booleans(),
)
@settings(deadline=None, max_examples=80)
def test_the_short_way_gives_what_the_long_one_gives(
    steps: list[list[Record]], windows: Sessions, in_order: bool
) -> None:
    short, long = Kept(windows, traced=False), Kept(windows, traced=True)
    if in_order:  # the usual case
        times = iter(sorted(at for records in steps for _, _, at in records))
        steps = [[(key, value, next(times)) for key, value, _ in records] for records in steps]
    for records in steps:
        assert short.step(records) == long.step(records)
