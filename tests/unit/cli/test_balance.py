"""Plans for moving replicas: nothing is lost, nothing moves that need not, and brokers end even."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.balance import balanced, drained
from ottla.cli.options import UsageError


@st.composite
def clusters(draw, least=2):
    brokers = list(range(1, draw(st.integers(least, 6)) + 1))
    count = draw(st.integers(1, len(brokers) - (least > 1)))
    places = draw(
        st.lists(st.permutations(brokers).map(lambda order: order[:count]), min_size=1, max_size=20)
    )
    return brokers, dict(enumerate(places))


def loads(places, brokers):
    return [sum(each in replicas for replicas in places.values()) for each in brokers]


@given(clusters())
def test_a_drained_broker_has_nothing_and_the_others_keep_what_they_had(cluster):
    brokers, now = cluster
    targets = drained(now, 1, brokers)
    then = {**now, **targets}
    assert not any(1 in replicas for replicas in then.values())
    for where, replicas in then.items():
        assert len(set(replicas)) == len(now[where])
        assert set(now[where]) - {1} <= set(replicas)
    assert set(targets) == {where for where, replicas in now.items() if 1 in replicas}


def test_a_broker_that_is_needed_cannot_be_drained():
    with pytest.raises(
        UsageError, match="no other broker can take the replica of t on broker 1; add a broker first"
    ):
        drained({"t": [1, 2]}, 1, [1, 2])


@given(clusters(least=1))
def test_a_balanced_cluster_is_even_and_a_second_plan_is_empty(cluster):
    brokers, now = cluster
    then = {**now, **balanced(now, brokers)}
    for where, replicas in then.items():
        assert len(set(replicas)) == len(now[where])
    assert max(loads(then, brokers)) - min(loads(then, brokers)) <= 1
    assert balanced(then, brokers) == {}


def test_leaders_are_spread_even_if_a_partition_has_to_change_its_leader_twice():
    brokers = list(range(1, 7))
    for first in brokers:
        for second in brokers:
            heads = [first] * 4 + [second]
            now = {index: [head, *(b for b in brokers if b != head)] for index, head in enumerate(heads)}
            then = {**now, **balanced(now, brokers)}
            assert sorted(replicas[0] for replicas in then.values()) != sorted(heads)
            assert balanced(then, brokers) == {}


def test_a_new_broker_gets_its_share_and_little_moves():
    now = {index: [1 + index % 2, 2 - index % 2] for index in range(6)}
    then = {**now, **balanced(now, [1, 2, 3])}
    assert loads(then, [1, 2, 3]) == [4, 4, 4]
    moved = sum(len(set(then[where]) - set(now[where])) for where in now)
    assert moved == 4
