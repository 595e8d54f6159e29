"""The assignor of share groups: every partition has members, as evenly as possible, and little moves."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordination.groups.assignors import Subscriber, simple

A, B = b"a" * 16, b"b" * 16
partitions = st.fixed_dictionaries({A: st.integers(1, 8)}, optional={B: st.integers(1, 8)})


def members(count, topics, before=None):
    return {
        f"m{number:02}": Subscriber(frozenset(topics), (before or {}).get(f"m{number:02}", frozenset()))
        for number in range(count)
    }


@given(first=st.integers(1, 20), then=st.integers(1, 20), counts=partitions)
def test_every_partition_has_members_and_every_member_partitions(first, then, counts):
    before = simple.assign(members(first, counts), counts)
    after = simple.assign(members(then, counts, before), counts)
    every = [(topic, number) for topic, count in counts.items() for number in range(count)]
    for targets in (before, after):
        shared = Counter(each for target in targets.values() for each in target)
        assert sorted(shared) == sorted(every)
        assert all(targets.values())


@given(count=st.integers(1, 20), counts=partitions)
def test_nothing_moves_when_nothing_changes(count, counts):
    before = simple.assign(members(count, counts), counts)
    assert simple.assign(members(count, counts, before), counts) == before


def test_members_that_want_other_topics_share_each_topic_by_itself():
    wanting = {"m0": Subscriber(frozenset({A})), "m1": Subscriber(frozenset({A, B}))}
    targets = simple.assign(wanting, {A: 4, B: 2})
    assert [len(targets[name]) for name in ("m0", "m1")] == [2, 4]
    assert {(B, 0), (B, 1)} <= targets["m1"]


def test_a_topic_that_a_member_gave_up_is_taken_from_it():
    before = frozenset({(A, 0), (B, 0)})
    targets = simple.assign({"m0": Subscriber(frozenset({A}), before)}, {A: 1})
    assert targets == {"m0": {(A, 0)}}
