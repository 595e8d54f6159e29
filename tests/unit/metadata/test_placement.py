from collections import Counter

import pytest

from ottla import errors
from ottla.metadata.image import Broker
from ottla.metadata.placement import place


def brokers(count, racks=None, fenced=()):
    return [
        Broker(each, 1, b"", (), racks[each % len(racks)] if racks else None, fenced=each in fenced)
        for each in range(1, count + 1)
    ]


SIZES = [(count, replicas) for count in (1, 2, 3, 4, 7) for replicas in (1, 2, 3) if replicas <= count]


@pytest.mark.parametrize(("count", "replicas"), SIZES)
def test_leaders_and_replicas_are_spread_evenly(count, replicas):
    placed = place(brokers(count), 12 * count, replicas, start=5)
    leaders = Counter(each[0] for each in placed)
    held = Counter(broker for each in placed for broker in each)
    assert set(leaders.values()) == {12}
    assert max(held.values()) - min(held.values()) <= 2
    assert all(len(set(each)) == replicas for each in placed)


def test_topics_of_one_partition_do_not_all_land_on_the_first_broker():
    assert {place(brokers(3), 1, 1, start=start)[0] for start in range(3)} == {(1,), (2,), (3,)}


def test_replicas_are_in_as_many_racks_as_there_are():
    known = brokers(6, racks=["a", "b", "c"])
    rack = {each.broker_id: each.rack for each in known}
    for replicas in place(known, 30, 3, start=0):
        assert len({rack[each] for each in replicas}) == 3


def test_the_load_of_a_lost_broker_falls_on_all_others():
    placed = place(brokers(4), 48, 2, start=0)
    assert {each[1] for each in placed if each[0] == 1} == {2, 3, 4}


def test_a_fenced_broker_is_used_only_when_needed_and_never_leads():
    known = brokers(3, fenced={2})
    assert all(2 not in each for each in place(known, 6, 2, start=0))
    assert all(each[2] == 2 for each in place(known, 6, 3, start=0))


def test_without_a_living_broker_nothing_is_placed():
    with pytest.raises(errors.InvalidReplicationFactor, match="All brokers are currently fenced"):
        place(brokers(1, fenced={1}), 1, 1, start=0)
