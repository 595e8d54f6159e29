"""However the records are cut into steps, and whoever dies between them: the same results."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from ottla.streams import App
from tests.streams import topologies
from tests.streams.cutting import Record, Steps
from tests.streams.test_equality import FIXTURES
from tests.streams.topologies import TOPOLOGIES

# Behind an internal topic what comes first depends on the steps: of an answer to a row only the last is promised, of a
# stream that meets another stream or a table nothing, as in Kafka Streams.
RACING = {"foreign-key", "foreign-key-left"}
MEETING = {"stream-table-rekeyed", "stream-stream-rekeyed"}
# A global table is outside the steps: a record meets what was read of it by then.
OUTSIDE = {"stream-global", "stream-global-left"}
# At the very moment at which a session closes it is given out, and yet a record may begin it again, as in Kafka
# Streams: then it comes twice. In one step it comes once.
CLOSING = {"final-session"}
NAMES = [name for name in TOPOLOGIES if name not in MEETING | OUTSIDE]
# Without shrinking, which takes minutes: a failure names its seed and cuts.
CUTS = settings(max_examples=3, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])


def records(name: str, seed: int, count: int = 40) -> list[Record]:
    """Out of order, late, repeated, without key or value, of few keys: as the Java program makes them."""
    chance, made = random.Random(seed), list[Record]()
    topics = sorted({topic for topic, _, _, _ in FIXTURES[name].inputs})
    now = 1_000
    for _ in range(count):
        if made and chance.random() < 0.08:
            made.append(chance.choice(made))
            continue
        now += chance.randrange(300) if chance.random() < 0.05 else chance.randrange(25)
        kind = chance.randrange(12)
        late = chance.randrange(80) if kind < 3 else chance.randrange(400) if kind == 3 else 0
        key = None if chance.random() < 0.04 else chance.choice([b"a", b"b", b"c"])
        value = None if chance.random() < 0.1 else str(chance.randrange(100)).encode()
        made.append((chance.choice(topics), key, value, max(0, now - late)))
    return made


def run(name: str, given: list[Record], cuts: list[int], deaths: bool) -> dict[Any, list[Any]]:
    app = App("app")
    TOPOLOGIES[name](app)
    steps = Steps(app)
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(given)}), len(given)]
    for begin, end in pairwise(edges):
        steps.step(given[begin:end])
        if deaths:
            steps.die()
    return steps.out


def one_by_one(name: str, given: list[Record]) -> dict[Any, list[Any]]:
    return run(name, given, list(range(len(given))), deaths=False)


def last_values(out: dict[Any, list[Any]]) -> dict[Any, Any]:
    """A key whose last value is a deletion is as one that never was."""
    return {key: cells[-1] for key, cells in out.items() if cells[-1][0] is not None}


@pytest.mark.parametrize("name", NAMES)
@example(seed=56, cuts=[4, 30, 33, 34], deaths=True)
@CUTS
@given(seed=st.integers(0, 999), cuts=st.lists(st.integers(1, 39), max_size=5), deaths=st.booleans())
def test_the_steps_do_not_matter(name: str, seed: int, cuts: list[int], deaths: bool) -> None:
    """With emit="every" all changes are the same. With emit="batch" those of steps are some of them, and the last ones
    are the same."""
    given = records(name, seed)
    every = one_by_one(name, given)
    if name not in RACING | CLOSING:
        assert run(name, given, cuts, deaths) == every
    if name == "suppress":
        return  # what is held back depends on the changes that come to it
    topologies.EVERY = "batch"
    try:
        batches = run(name, given, cuts, deaths)
    finally:
        topologies.EVERY = "every"
    last, expected = last_values(batches), last_values(every)
    if name in RACING:
        assert {key: value for key, (value, _) in last.items()} == {
            key: value for key, (value, _) in expected.items()
        }
        return
    assert last == expected
    for key, cells in batches.items():
        left = iter(every[key])
        assert all(cell in left for cell in cells), key
