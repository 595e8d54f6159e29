"""The pure parts of streams groups: topologies on topics, the assignor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import errors as e
from ottla.coordination.groups.streams import records as r
from ottla.coordination.groups.streams import topology as t
from ottla.coordination.groups.streams.assignor import AssignmentMember, SubtopologyTasks, assign


def configured(counts: dict[str, int], *parts: r.Subtopology) -> t.ConfiguredTopology:
    return t.configured(r.TopologyValue(0, parts), lambda name: counts.get(name, 0))


def repartitioned(partitions: int = 0) -> tuple[r.Subtopology, r.Subtopology]:
    source = r.TopicInfo("r", partitions)
    return (
        r.Subtopology("0", ("in",), repartition_sinks=("r",)),
        r.Subtopology("1", repartition_sources=(source,), changelogs=(r.TopicInfo("c"),)),
    )


def test_a_repartition_topic_is_as_wide_as_the_input_of_its_writer():
    found = configured({"in": 3}, *repartitioned())
    assert [(topic.name, topic.partitions) for topic in found.missing] == [("c", 3), ("r", 3)]
    assert [part.tasks for part in found.subtopologies] == [3, 3]
    assert found.status == (t.MISSING_INTERNAL_TOPICS, "Internal topics are missing: c, r")
    assert configured({"in": 3, "r": 3, "c": 3}, *repartitioned()).is_ready


def test_the_client_may_say_how_wide_a_repartition_topic_is():
    found = configured({"in": 3}, *repartitioned(partitions=5))
    assert [part.tasks for part in found.subtopologies] == [3, 5]


def test_widths_travel_through_several_repartitions():
    chain = (
        r.Subtopology("2", repartition_sources=(r.TopicInfo("s"),)),
        r.Subtopology("1", repartition_sources=(r.TopicInfo("r"),), repartition_sinks=("s",)),
        r.Subtopology("0", ("in",), repartition_sinks=("r",)),
    )
    assert [part.tasks for part in configured({"in": 7}, *chain).subtopologies] == [7, 7, 7]


def test_missing_sources_are_named_but_not_all_of_many():
    part = r.Subtopology("0", ("a", "b", "c", "d", "e"))
    assert configured({}, part).status == (
        t.MISSING_SOURCE_TOPICS,
        "Source topics a, b, c and 2 additional topics are missing.",
    )


def test_copartitioned_sources_must_be_equally_wide():
    part = r.Subtopology("0", ("a", "b"), copartition_groups=(r.CopartitionGroup((0, 1)),))
    assert configured({"a": 2, "b": 2}, part).is_ready
    status = configured({"a": 2, "b": 3}, part).status
    text = "Following topics do not have the same number of partitions: [{a=2, b=3}]"
    assert status == (t.INCORRECTLY_PARTITIONED, text)


def test_a_repartition_topic_takes_the_width_of_its_copartitioned_source():
    parts = (
        r.Subtopology("0", ("small",), repartition_sinks=("r",)),
        r.Subtopology(
            "1",
            ("big",),
            repartition_sources=(r.TopicInfo("r"),),
            copartition_groups=(r.CopartitionGroup((0,), (), (0,)),),
        ),
    )
    found = configured({"small": 2, "big": 6}, *parts)
    assert [(topic.name, topic.partitions) for topic in found.missing] == [("r", 6)]


def test_an_internal_topic_of_another_width_is_told():
    status = configured({"in": 3, "r": 3, "c": 4}, *repartitioned()).status
    assert status is not None and status[0] == t.INCORRECTLY_PARTITIONED
    assert status[1] == "Existing topic c has different number of partitions: expected 3, found 4"


@pytest.mark.parametrize(
    "part",
    [
        r.Subtopology("0"),
        r.Subtopology("0", ("in",), repartition_sources=(r.TopicInfo("r"),)),
        r.Subtopology("0", repartition_sinks=("r",), repartition_sources=(r.TopicInfo("r"),)),
    ],
)
def test_topologies_that_fit_no_topics_are_refused(part):
    with pytest.raises(e.StreamsInvalidTopology):
        configured({"in": 1}, part)


# The assignor

processes = st.lists(st.integers(0, 3), min_size=1, max_size=6)
topologies = st.lists(st.tuples(st.integers(1, 7), st.booleans()), min_size=1, max_size=3)


def members_of(found: list[int], before: dict[str, r.TasksByRole]) -> dict[str, AssignmentMember]:
    return {
        f"m{i}": AssignmentMember(f"p{process}", before.get(f"m{i}", r.NOTHING_WANTED))
        for i, process in enumerate(found)
    }


def check(
    members: dict[str, AssignmentMember], parts: list[SubtopologyTasks], standbys: int
) -> dict[str, r.TasksByRole]:
    """Every task is active once; standbys are as many as fit, each in another process."""
    targets = assign(members, parts, standbys)
    assert targets.keys() == members.keys()
    every = [(part.subtopology_id, number) for part in parts for number in range(part.tasks)]
    active = [task for target in targets.values() for task in target.active]
    assert sorted(active) == sorted(every)
    stateful = {part.subtopology_id for part in parts if part.is_stateful}
    count = len({member.process_id for member in members.values()})
    for task in every:
        homes = [
            members[name].process_id
            for name, target in targets.items()
            for tasks in (target.active, target.standby)
            if task in tasks
        ]
        assert len(set(homes)) == len(homes), "two copies of a task in one process"
        assert len(homes) == 1 + (min(standbys, count - 1) if task[0] in stateful else 0)
    return targets


@given(found=processes, later=processes, topology=topologies, standbys=st.integers(0, 2))
def test_every_task_has_one_active_member_and_standbys_elsewhere(found, later, topology, standbys):
    parts = [SubtopologyTasks(str(i), tasks, stateful) for i, (tasks, stateful) in enumerate(topology)]
    first = check(members_of(found, {}), parts, standbys)
    check(members_of(later, first), parts, standbys)


@given(count=st.integers(1, 6), tasks=st.integers(1, 20))
def test_members_with_one_process_each_get_equally_many_tasks(count, tasks):
    targets = check(members_of(list(range(count)), {}), [SubtopologyTasks("0", tasks, False)], 0)
    sizes = [len(target.active) for target in targets.values()]
    assert max(sizes) - min(sizes) <= 1


@given(count=st.integers(1, 5), tasks=st.integers(1, 12))
def test_nothing_moves_when_nothing_changes_and_little_when_one_leaves(count, tasks):
    parts = [SubtopologyTasks("0", tasks, True)]
    first = check(members_of(list(range(count)), {}), parts, 0)
    assert check(members_of(list(range(count)), first), parts, 0) == first
    fewer = {name: member for name, member in members_of(list(range(count)), first).items() if name != "m0"}
    if fewer:
        after = check(fewer, parts, 0)
        assert all(first[name].active <= after[name].active for name in fewer)


def test_a_task_goes_to_a_member_that_had_its_standby():
    before = {"m1": r.TasksByRole(standby=frozenset({("0", 0), ("0", 1)})), "m2": r.TasksByRole()}
    members = {
        "m1": AssignmentMember("p1", before["m1"]),
        "m2": AssignmentMember("p2", before["m2"]),
    }
    targets = assign(members, [SubtopologyTasks("0", 1, True)], 0)
    assert targets["m1"].active == {("0", 0)}
