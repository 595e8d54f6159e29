"""Server-side assignors: every partition has one owner, shares are even, and little moves."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordination.groups.assignors import Subscriber, by_name, uniform
from ottla.coordination.groups.assignors import range as range_assignor

topic_ids = [bytes([each]) * 16 for each in range(1, 6)]
counts = st.dictionaries(st.sampled_from(topic_ids), st.integers(0, 7))
members = st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True)


@st.composite
def situations(draw, *, alike: bool = False):
    partitions = draw(counts)
    ids = draw(members)
    common = draw(st.frozensets(st.sampled_from(topic_ids)))
    subscribers = {}
    for each in ids:
        wanted = common if alike else draw(st.frozensets(st.sampled_from(topic_ids)))
        existing = frozenset(topic for topic in wanted if topic in partitions)
        target = draw(st.frozensets(st.tuples(st.sampled_from(topic_ids), st.integers(0, 8)), max_size=8))
        subscribers[each] = Subscriber(existing, target)
    return subscribers, partitions


def check_ownership(subscribers, partitions, assigned):
    assert assigned.keys() == subscribers.keys()
    owned = [each for mine in assigned.values() for each in mine]
    assert len(owned) == len(set(owned)), "a partition has two owners"
    wanted = {topic for each in subscribers.values() for topic in each.topics}
    assert set(owned) == {(topic, each) for topic in wanted for each in range(partitions[topic])}
    for member, mine in assigned.items():
        assert {topic for topic, _ in mine} <= subscribers[member].topics


@given(situation=situations(), name=st.sampled_from(["uniform", "range"]))
def test_every_partition_has_one_owner_that_wants_it(situation, name):
    subscribers, partitions = situation
    check_ownership(subscribers, partitions, by_name(name)(subscribers, partitions))


@given(situation=situations(alike=True))
def test_uniform_shares_differ_by_one_at_most(situation):
    shares = [len(each) for each in uniform.assign(*situation).values()]
    assert max(shares) - min(shares) <= 1


@given(situation=situations())
def test_no_single_move_makes_uniform_more_even(situation):
    subscribers, partitions = situation
    assigned = uniform.assign(subscribers, partitions)
    for giver, mine in assigned.items():
        for topic, _ in mine:
            for taker in subscribers:
                if topic in subscribers[taker].topics:
                    assert len(mine) - len(assigned[taker]) <= 1 or giver == taker


@given(situation=situations())
def test_uniform_leaves_a_settled_group_alone(situation):
    subscribers, partitions = situation
    once = uniform.assign(subscribers, partitions)
    settled = {each: Subscriber(member.topics, once[each]) for each, member in subscribers.items()}
    assert uniform.assign(settled, partitions) == once


@given(situation=situations(alike=True), gone=st.integers(0, 7))
def test_uniform_moves_only_what_a_leaver_leaves(situation, gone):
    subscribers, partitions = situation
    once = uniform.assign(subscribers, partitions)
    leaver = sorted(subscribers)[gone % len(subscribers)]
    left = {
        each: Subscriber(member.topics, once[each]) for each, member in subscribers.items() if each != leaver
    }
    for member, mine in uniform.assign(left, partitions).items():
        assert once[member] <= mine


@given(situation=situations(alike=True))
def test_uniform_moves_no_more_to_a_newcomer_than_its_share(situation):
    subscribers, partitions = situation
    once = uniform.assign(subscribers, partitions)
    topics = next(iter(subscribers.values())).topics
    grown = {each: Subscriber(topics, once[each]) for each in subscribers} | {"new": Subscriber(topics)}
    after = uniform.assign(grown, partitions)
    for member, before in once.items():
        assert after[member] <= before


@given(situation=situations(alike=True))
def test_range_gives_contiguous_runs_that_line_up_over_topics(situation):
    subscribers, partitions = situation
    for mine in range_assignor.assign(subscribers, partitions).values():
        for topic in partitions:
            numbers = sorted(number for at, number in mine if at == topic)
            assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
        same = {}
        for topic, number in mine:
            same.setdefault(partitions[topic], {}).setdefault(topic, set()).add(number)
        for runs in same.values():
            assert len({frozenset(each) for each in runs.values()}) == 1


def test_static_members_find_their_ranges_again_under_another_id():
    topic = topic_ids[0]

    def owner_of(member_id: str) -> frozenset:
        subscribers = {
            "m": Subscriber(frozenset({topic}), instance_id="2"),
            member_id: Subscriber(frozenset({topic}), instance_id="1"),
        }
        return range_assignor.assign(subscribers, {topic: 4})[member_id]

    assert owner_of("a") == owner_of("z") == {(topic, 0), (topic, 1)}
