"""Micro-batches cut into tasks: nothing lost, nothing twice, always the same."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.values import TopicPartition
from ottla.spark import planning
from ottla.spark.offsets import Offsets, starts

ID = "0" * 31 + "1"
SPANS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5)),
    st.tuples(st.integers(0, 1000), st.integers(0, 1000)),
    max_size=8,
)


def offsets(positions, **more):
    return Offsets(positions, {p.topic: ID for p in positions}, **more)


def between(spans, **more):
    begin = {p: start for p, (start, _) in spans.items()}
    end = {p: start + count for p, (start, count) in spans.items()}
    return offsets(begin), offsets(end, **more)


@given(SPANS, st.integers(1, 9), st.booleans())
def test_every_offset_is_in_exactly_one_task(spans, tasks, split):
    start, end = between(spans, tasks=tasks, split=split)
    found = planning.ranges(start, end)
    assert len(found) == tasks
    covered = [(r.topic, r.partition, at) for task in found for r in task for at in range(r.start, r.end)]
    wanted = [(*p, at) for p, (begin, count) in spans.items() for at in range(begin, begin + count)]
    assert sorted(covered) == sorted(wanted)
    assert all(r.end > r.start and r.topic_id.hex() == ID for task in found for r in task)


@given(SPANS, st.integers(1, 9), st.booleans())
def test_the_same_offsets_give_the_same_tasks(spans, tasks, split):
    start, end = between(spans, tasks=tasks, split=split)
    shuffled = Offsets.from_json(dict(reversed(end.to_json().items())))
    assert planning.ranges(start, end) == planning.ranges(Offsets.from_json(start.to_json()), shuffled)


@given(SPANS, st.integers(1, 9))
def test_a_partition_is_not_cut_unless_that_is_asked_for(spans, tasks):
    found = planning.ranges(*between(spans, tasks=tasks))
    partitions = [r.where for task in found for r in task]
    assert len(partitions) == len(set(partitions))


@given(SPANS, st.integers(1, 9))
def test_shares_are_equal_when_partitions_may_be_cut(spans, tasks):
    found = planning.ranges(*between(spans, tasks=tasks, split=True))
    sizes = [sum(r.end - r.start for r in task) for task in found]
    assert max(sizes) - min(sizes) <= 1 or sum(sizes) == 0 or max(sizes) <= -(-sum(sizes) // tasks) + 1


@given(SPANS, st.integers(1, 500))
def test_a_limit_takes_something_of_every_partition_and_not_much_more_than_it_says(spans, limit):
    start, end = between(spans)
    found = planning.limited(start.positions, end.positions, limit)
    taken = {p: found[p] - start.positions[p] for p in found}
    assert all(0 <= taken[p] <= count for p, (_, count) in spans.items())
    assert all(taken[p] > 0 for p, (_, count) in spans.items() if count)
    assert sum(taken.values()) <= max(limit, 0) + len(spans)
    if sum(count for _, count in spans.values()) <= limit:
        assert found == end.positions


def test_partitions_that_are_new_begin_where_they_were_found():
    old, new = TopicPartition("a", 0), TopicPartition("a", 1)
    start, end = offsets({old: 5}), offsets({old: 9, new: 30}, begins={new: 20})
    assert starts(start, end) == {old: 5, new: 20}


def test_a_topic_that_was_made_anew_begins_at_its_new_beginning():
    partition = TopicPartition("a", 0)
    start = Offsets({partition: 500}, {"a": "aa"})
    end = Offsets({partition: 7}, {"a": "bb"}, begins={partition: 0})
    assert starts(start, end) == {partition: 0}


def test_offsets_survive_the_checkpoint():
    told = Offsets(
        {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2},
        {"b": ID},
        "g",
        3,
        True,
        {TopicPartition("b", 9): 0},
    )
    assert Offsets.from_json(told.to_json()) == told
    assert list(told.to_json()["b"]) == ["9", "10"]
