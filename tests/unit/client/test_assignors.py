import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.core.group.assignors import (
    ASSIGNORS,
    cooperative_sticky,
    names_of,
    range_,
    round_robin,
    sticky,
)
from ottla.client.core.subscriptions import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.client.errors import SettingError
from ottla.client.values import TopicPartition

topics = st.sampled_from(["a", "b", "c"])
members = st.dictionaries(st.sampled_from("uvwxyz"), st.frozensets(topics, min_size=1), min_size=1)
counts = st.dictionaries(topics, st.integers(0, 7))


def subscriptions(wanted: dict[str, frozenset[str]]) -> dict[str, Subscription]:
    return {member: Subscription(tuple(sorted(each))) for member, each in wanted.items()}


@pytest.mark.parametrize("name", list(ASSIGNORS))
@given(wanted=members, partitions=counts)
def test_every_partition_goes_to_one_member_that_wants_its_topic(name, wanted, partitions) -> None:
    assignment = ASSIGNORS[name](subscriptions(wanted), partitions)
    given_out = [p for owned in assignment.values() for p in owned]
    subscribed = {topic for each in wanted.values() for topic in each}
    expected = {TopicPartition(t, i) for t in subscribed for i in range(partitions.get(t, 0))}
    assert len(given_out) == len(set(given_out)) and set(given_out) == expected
    assert set(assignment) == set(wanted)
    assert all(p.topic in wanted[member] for member, owned in assignment.items() for p in owned)


def test_range_gives_neighbours_and_the_first_members_one_more() -> None:
    wanted = {"x": Subscription(("t",)), "y": Subscription(("t",))}
    assert range_(wanted, {"t": 3}) == {
        "x": [TopicPartition("t", 0), TopicPartition("t", 1)],
        "y": [TopicPartition("t", 2)],
    }


def test_round_robin_deals_across_topics() -> None:
    wanted = {"x": Subscription(("a", "b")), "y": Subscription(("a", "b"))}
    dealt = round_robin(wanted, {"a": 1, "b": 2})
    assert dealt == {"x": [TopicPartition("a", 0), TopicPartition("b", 1)], "y": [TopicPartition("b", 0)]}


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 20))
def test_sticky_is_balanced_and_moves_no_more_than_balance_needs(
    before: int, after: int, partitions: int
) -> None:
    names = [f"m{i}" for i in range(max(before, after))]
    first = sticky({name: Subscription(("t",)) for name in names[:before]}, {"t": partitions})
    again = {name: Subscription(("t",), tuple(first.get(name, ())), 1) for name in names[:after]}
    second = sticky(again, {"t": partitions})
    sizes = sorted(map(len, second.values()))
    assert sizes[-1] - sizes[0] <= 1
    for name in names[: min(before, after)]:
        kept = set(first[name]) & set(second[name])
        assert len(kept) == min(len(first[name]), len(second[name]))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 12))
def test_cooperative_never_gives_out_what_another_still_owns(
    before: int, after: int, partitions: int
) -> None:
    names = [f"m{i}" for i in range(max(before, after))]
    owned = sticky({name: Subscription(("t",)) for name in names[:before]}, {"t": partitions})
    told = {name: Subscription(("t",), tuple(owned.get(name, ())), 1) for name in names[:after]}
    given_out = cooperative_sticky(told, {"t": partitions})
    owner = {p: name for name in names[:after] for p in owned.get(name, ())}
    assert all(owner.get(p, name) == name for name, each in given_out.items() for p in each)


def test_two_members_that_claim_one_partition_the_newer_generation_keeps_it() -> None:
    claimed = (TopicPartition("t", 0),)
    told = {"old": Subscription(("t",), claimed, 1), "new": Subscription(("t",), claimed, 2)}
    assert sticky(told, {"t": 1})["new"] == list(claimed)


@given(
    st.frozensets(topics),
    st.lists(st.builds(TopicPartition, topics, st.integers(0, 9)), unique=True),
    st.integers(-1, 9),
)
def test_what_members_tell_each_other_round_trips(names, owned, generation) -> None:
    told = Subscription(tuple(sorted(names)), tuple(sorted(owned)), generation, None)
    assert decode_subscription(encode_subscription(told)) == told
    assert sorted(decode_assignment(encode_assignment(owned))) == sorted(owned)
    assert list(decode_assignment(b"")) == []


def test_javas_class_names_are_understood_and_others_refused() -> None:
    assert names_of("org.apache.kafka.clients.consumer.RangeAssignor, sticky") == ["range", "sticky"]
    with pytest.raises(SettingError):
        names_of("fair")
