"""The pure parts of streams groups: topologies on topics, the assignor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import errors as e
from ottla.coordination.groups.streams import assignor
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


def round_by_round(topology: r.TopologyValue, count: t.Count, decided: dict[str, int]) -> None:
    """What `_decide_sinks` does, in the plainest words."""
    before = -1
    while before != len(decided):
        before = len(decided)
        for part in topology.subtopologies:
            inputs = [decided.get(topic.name, 0) for topic in part.repartition_sources]
            most = max([*inputs, *(count(name) for name in part.source_topics)], default=0)
            if most:
                decided.update((name, most) for name in part.repartition_sinks if name not in decided)


names = st.lists(st.sampled_from("abcdef"), max_size=3).map(tuple)
subtopologies = st.lists(st.tuples(names, names, names), min_size=1, max_size=8)


@given(found=subtopologies, counts=st.dictionaries(st.sampled_from("abc"), st.integers(1, 9)))
def test_widths_are_decided_as_by_looking_at_all_parts_again_and_again(found, counts):
    topology = r.TopologyValue(
        0,
        tuple(
            r.Subtopology(
                str(i),
                sources,
                repartition_sinks=tuple(f"r{name}" for name in sinks),
                repartition_sources=tuple(r.TopicInfo(f"r{name}", 0) for name in inner),
            )
            for i, (sources, sinks, inner) in enumerate(found)
        ),
    )
    decided: dict[str, int] = {}
    expected: dict[str, int] = {}
    t._decide_sinks(topology, lambda name: counts.get(name, 0), decided)
    round_by_round(topology, lambda name: counts.get(name, 0), expected)
    assert decided == expected


def test_a_long_chain_in_the_worst_order_is_looked_at_part_by_part():
    """Each round would decide one of them: ten thousand rounds over ten thousand parts would take minutes."""
    length, asked = 5_000, []
    links = [
        r.Subtopology(
            f"{i:04}", repartition_sources=(r.TopicInfo(f"r{i}", 0),), repartition_sinks=(f"r{i + 1}",)
        )
        for i in range(length)
    ]
    first = r.Subtopology("first", ("in",), repartition_sinks=("r0",))
    topology = r.TopologyValue(0, (*reversed(links), first))

    def count(name: str) -> int:
        asked.append(name)
        return 1 if name == "in" else 0

    decided: dict[str, int] = {}
    t._decide_sinks(topology, count, decided)
    assert len(decided) == length + 1
    assert len(asked) <= 2


def test_a_topology_with_very_many_tasks_is_not_configured():
    parts = [r.Subtopology(str(i), ("in",)) for i in range(201)]
    assert configured({"in": 100}, *parts[:200]).is_ready
    code, why = configured({"in": 100}, *parts).status
    assert code == t.INCORRECTLY_PARTITIONED
    assert "20100 tasks" in why and "20000" in why


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


def test_very_many_tasks_for_very_many_processes_are_assigned_without_looking_at_all_for_each(monkeypatch):
    count, tasks, looked = 1_000, 5_000, 0

    def counted(process: assignor._Process) -> float:
        nonlocal looked
        looked += 1
        return process.total / len(process.counts)

    monkeypatch.setattr(assignor._Process, "load", property(counted))
    members = {f"m{i:04}": AssignmentMember(f"p{i:04}", r.TasksByRole()) for i in range(count)}
    targets = assign(members, [SubtopologyTasks("0", tasks, True)], 1)
    assert {len(target.active) for target in targets.values()} == {tasks // count}
    assert sum(len(target.standby) for target in targets.values()) == tasks
    assert tasks < looked < tasks * 200, "each of a thousand processes was looked at for each task"
