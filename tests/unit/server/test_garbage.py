"""The collector looks at everything now and then, not whenever there is a little more."""

import gc
import weakref

import pytest

from ottla.server.garbage import EVERY_MS, Collections
from tests.unit.server.test_budget import Clock


class Node:
    other: "Node"


def a_cycle() -> Node:
    one, two = Node(), Node()
    one.other, two.other = two, one
    return one


@pytest.fixture
def looked_at():
    """The generations that were looked at. Afterwards the collector of the tests is as before."""
    thresholds, generations = gc.get_threshold(), []

    def note(phase, info):
        if phase == "start":
            generations.append(info["generation"])

    gc.callbacks.append(note)
    yield generations
    gc.callbacks.remove(note)
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_everything_is_looked_at_every_ten_minutes_and_not_when_there_is_much_more(looked_at):
    clock = Clock()
    Collections(clock).start()
    for _ in range(2):
        cycle = a_cycle()
        gc.collect(1)  # it is old now
        gone = weakref.ref(cycle)
        del cycle
        looked_at.clear()
        more = [[] for _ in range(500_000)]
        assert 1 in looked_at and 2 not in looked_at
        assert gone() is not None
        clock.advance(EVERY_MS)
        assert gone() is None
        del more
