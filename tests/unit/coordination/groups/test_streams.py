"""Streams groups (KIP-1071): the machine itself, on a log in memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ottla import errors as e
from ottla.coordination.groups.settings import GroupSettings
from ottla.coordination.groups.streams import topology as t
from ottla.coordination.groups.streams.heartbeat import HeartbeatAnswer
from ottla.wire.messages import streams_group_heartbeat as wire
from ottla.wire.messages.list_groups import ListGroupsRequest
from tests.unit.coordination.groups.coordinator import FakeClient, GroupCoordinator

AT_ONCE = GroupSettings(group_streams_initial_rebalance_delay_ms=0, group_streams_assignment_interval_ms=0)
Task = tuple[str, int]


def a_topology(
    epoch: int = 0, sources: tuple[str, ...] = ("t",), changelog: str | None = None
) -> wire.Topology:
    changelogs = [] if changelog is None else [wire.TopicInfo(name=changelog)]
    part = wire.Subtopology(
        subtopology_id="0", source_topics=list(sources), state_changelog_topics=changelogs
    )
    return wire.Topology(epoch=epoch, subtopologies=[part])


def rows(tasks: set[Task]) -> list[wire.TaskIds]:
    return [wire.TaskIds(subtopology_id=name, partitions=[number]) for name, number in sorted(tasks)]


class Streams(GroupCoordinator):
    """The coordinator with members of streams groups."""

    def __init__(self, settings: GroupSettings = AT_ONCE, **topics: Any) -> None:
        super().__init__(settings, **(topics or {"t": 4}))

    def send(self, request: wire.StreamsGroupHeartbeatRequest) -> HeartbeatAnswer:
        answer = self.ask(
            lambda token, now: self.table.on_streams_group_heartbeat(request, FakeClient(), token, now)
        )
        assert isinstance(answer, HeartbeatAnswer)
        return answer

    def arrive(self, member_id: str, topology: wire.Topology | None = None, **more: Any) -> Any:
        """The first heartbeat."""
        more = {"process_id": member_id, **more}
        request = wire.StreamsGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            rebalance_timeout_ms=60_000,
            topology=topology or a_topology(),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            **more,
        )
        return self.send(request).response

    def report(
        self,
        member_id: str,
        epoch: int,
        active: set[Task] | None = None,
        standby: set[Task] | None = None,
        **more: Any,
    ) -> Any:
        """A later heartbeat; with `active` it says which tasks it has."""
        request = wire.StreamsGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, **more
        )
        if active is not None:
            request.active_tasks, request.standby_tasks = rows(active), rows(standby or set())
            request.warmup_tasks = []
        return self.send(request).response

    def describe(self, group_id: str = "g") -> Any:
        (described,) = self.ask(lambda token, now: self.table.on_streams_group_describe([group_id], token))
        return described

    def create(self, name: str, count: int) -> None:
        self.topics.create(name, count)
        self.table.on_topics_changed()

    def check_replay(self) -> None:
        """What the log says is what the coordinator knows."""
        assert self.replica().state.groups == self.table.state.groups


def tasks(row: list[wire.ResponseTaskIds] | None) -> set[Task] | None:
    return (
        None if row is None else {(each.subtopology_id, number) for each in row for number in each.partitions}
    )


def codes(answer: Any) -> list[int]:
    return [status.status_code for status in answer.status]


ALL = {("0", number) for number in range(4)}


def test_the_first_member_brings_the_topology_and_gets_all_tasks():
    streams = Streams()
    answer = streams.arrive("a")
    assert (answer.error_code, answer.member_epoch, answer.status) == (0, 2, [])
    assert tasks(answer.active_tasks) == ALL
    assert tasks(answer.standby_tasks) == tasks(answer.warmup_tasks) == set()
    assert tasks(streams.report("a", 2).active_tasks) is None  # nothing new
    assert streams.describe().group_state == "Stable"
    streams.check_replay()


def test_a_second_member_waits_until_the_first_has_given_up_tasks():
    streams = Streams()
    streams.arrive("a")
    b = streams.arrive("b")
    assert (b.member_epoch, tasks(b.active_tasks)) == (3, set())
    a = streams.report("a", 2, ALL)
    kept = tasks(a.active_tasks)
    assert kept is not None and len(kept) == 2 and a.member_epoch == 2
    assert streams.describe().group_state == "Reconciling"
    assert tasks(streams.report("b", 3, set()).active_tasks) is None  # a may still run them
    assert streams.report("a", 2, kept).member_epoch == 3
    b = streams.report("b", 3, set())
    assert tasks(b.active_tasks) == ALL - kept
    assert streams.describe().group_state == "Stable"
    streams.check_replay()


def test_nothing_is_given_up_while_a_member_says_nothing_of_its_tasks():
    streams = Streams()
    streams.arrive("a")
    streams.arrive("b")
    streams.report("a", 2)
    streams.report("a", 2)
    assert tasks(streams.report("b", 3, set()).active_tasks) is None


def test_a_member_that_does_not_give_up_in_time_is_out():
    streams = Streams()
    streams.arrive("a")
    streams.arrive("b")
    streams.report("a", 2, ALL)
    for _ in range(7):
        streams.clock.advance(10_000)
        streams.report("a", 2)
        streams.report("b", 3, set())
    assert list(streams.groups["g"].members) == ["b"]
    assert {task for task, _ in streams.groups["g"].members["b"].assigned.active} == ALL
    streams.check_replay()


def test_a_silent_member_is_out_after_its_session_and_its_tasks_move():
    streams = Streams()
    streams.arrive("a")
    streams.arrive("b")
    kept = tasks(streams.report("a", 2, ALL).active_tasks)
    streams.report("a", 2, kept)
    streams.report("b", 3, set())
    streams.clock.advance(30_000)
    streams.report("b", 3)
    streams.clock.advance(30_000)
    assert list(streams.groups["g"].members) == ["b"]
    answer = streams.report("b", 3, ALL - kept)
    assert tasks(answer.active_tasks) == ALL
    assert streams.report("a", 3).error_code == e.UnknownMemberId.code
    streams.check_replay()


def test_a_member_leaves_with_epoch_minus_one_and_may_come_back():
    streams = Streams()
    streams.arrive("a")
    left = streams.report("a", -1)
    assert (left.error_code, left.member_epoch, left.status) == (0, -1, [])
    assert streams.describe().group_state == "Empty"
    assert tasks(streams.arrive("a").active_tasks) == ALL
    streams.check_replay()


def test_epochs_that_are_not_the_members_are_fenced():
    streams = Streams()
    streams.arrive("a")
    assert streams.report("a", 9).error_code == e.FencedMemberEpoch.code
    assert streams.report("a", 1).error_code == e.FencedMemberEpoch.code
    assert streams.report("x", 1).error_code == e.UnknownMemberId.code


def test_a_lost_answer_is_given_again_to_one_that_has_no_other_tasks():
    streams = Streams()
    streams.arrive("a")
    streams.arrive("b")
    kept = tasks(streams.report("a", 2, ALL).active_tasks)
    assert streams.report("a", 2, kept).member_epoch == 3
    assert streams.report("a", 2, kept).member_epoch == 3  # the answer with 3 got lost
    assert streams.report("a", 2, ALL).error_code == e.FencedMemberEpoch.code


@pytest.mark.parametrize("fails_at", range(4))
def test_a_heartbeat_that_cannot_be_written_changes_nothing(fails_at):
    streams = Streams()
    steps = [
        lambda: streams.arrive("a"),
        lambda: streams.arrive("b"),
        lambda: streams.report("a", 2, ALL),
        lambda: streams.report("a", -1),
    ]
    for step in steps[:fails_at]:
        step()
    before = streams.replica().state.groups
    streams.log.broken = True
    with pytest.raises(e.CoordinatorNotAvailable):
        steps[fails_at]()
    assert streams.table.state.groups == before
    streams.log.broken = False
    assert steps[fails_at]().error_code == 0
    streams.check_replay()


def test_the_first_assignment_waits_for_more_members():
    settings = GroupSettings(group_streams_assignment_interval_ms=0)
    streams = Streams(settings)
    a, b = streams.arrive("a"), streams.arrive("b")
    for answer in (a, b):
        assert codes(answer) == [t.ASSIGNMENT_DELAYED]
        assert (answer.member_epoch, tasks(answer.active_tasks)) == (1, set())
    assert streams.describe().group_state == "Assigning"
    streams.clock.advance(3_000)
    shares = [tasks(streams.report(name, 1, set()).active_tasks) for name in "ab"]
    assert [len(share or ()) for share in shares] == [2, 2]
    streams.check_replay()


def test_the_delay_ends_even_if_its_assignment_cannot_be_written_at_once():
    streams = Streams(GroupSettings(group_streams_assignment_interval_ms=0))
    streams.arrive("a")
    streams.log.broken = True
    streams.clock.advance(3_000)
    streams.log.broken = False
    streams.clock.advance(2_000)
    assert streams.groups["g"].assignment_epoch == streams.groups["g"].epoch
    streams.check_replay()


def test_a_first_heartbeat_that_cannot_be_written_does_not_delay_the_group_for_ever():
    streams = Streams(GroupSettings(group_streams_assignment_interval_ms=0))
    streams.log.broken = True
    with pytest.raises(e.CoordinatorNotAvailable):
        streams.arrive("a")
    streams.log.broken = False
    streams.clock.advance(3_000)
    assert codes(streams.arrive("a")) == [t.ASSIGNMENT_DELAYED]
    streams.clock.advance(3_000)
    assert tasks(streams.report("a", 1, set()).active_tasks) == ALL


def test_assignments_are_no_more_frequent_than_their_interval():
    streams = Streams(GroupSettings(group_streams_initial_rebalance_delay_ms=0))
    streams.arrive("a")
    streams.clock.advance(500)
    b = streams.arrive("b")
    assert codes(b) == [t.ASSIGNMENT_DELAYED] and b.member_epoch == 2
    streams.clock.advance(600)
    assert codes(streams.report("b", 2, set())) == []
    assert len(streams.groups["g"].targets["b"].active) == 2


def test_missing_source_topics_are_named_and_waited_for():
    streams = Streams(other=1)
    answer = streams.arrive("a")
    assert codes(answer) == [t.MISSING_SOURCE_TOPICS]
    assert answer.status[0].status_detail == "Source topics t are missing."
    assert streams.describe().group_state == "NotReady"
    streams.create("t", 4)
    answer = streams.report("a", answer.member_epoch, set())
    assert codes(answer) == [] and tasks(answer.active_tasks) == ALL
    streams.check_replay()


def test_missing_internal_topics_are_for_the_broker_to_create():
    streams = Streams()
    request = wire.StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        rebalance_timeout_ms=1,
        topology=a_topology(changelog="g-store-changelog"),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    )
    answer = streams.send(request)
    assert [(topic.name, topic.partitions) for topic in answer.missing] == [("g-store-changelog", 4)]
    assert codes(answer.response) == [t.MISSING_INTERNAL_TOPICS]
    streams.create("g-store-changelog", 4)
    assert tasks(streams.report("a", 2, set()).active_tasks) == ALL


def test_a_topic_that_grows_gives_more_tasks():
    streams = Streams()
    streams.arrive("a")
    streams.topics.grow("t", 6)
    streams.table.on_topics_changed()
    assert tasks(streams.report("a", 2, ALL).active_tasks) == {("0", number) for number in range(6)}
    streams.check_replay()


def test_a_topic_that_nobody_reads_moves_nothing():
    streams = Streams()
    streams.arrive("a")
    before = streams.log.end
    streams.create("other", 3)
    streams.report("a", 2)
    assert streams.log.end == before


def test_a_stale_topology_is_told_and_an_update_refused():
    streams = Streams()
    streams.arrive("a", a_topology(epoch=3))
    assert codes(streams.arrive("b", a_topology(epoch=1))) == [t.STALE_TOPOLOGY]
    refused = streams.arrive("c", a_topology(epoch=4))
    assert (refused.error_code, refused.error_message) == (
        e.InvalidRequest.code,
        "Topology updates are not supported yet.",
    )
    other = streams.arrive("c", a_topology(epoch=3, sources=("u",)))
    assert other.error_code == e.InvalidRequest.code
    assert streams.arrive("c", a_topology(epoch=3)).error_code == 0


def test_who_asks_for_a_shutdown_is_heard_by_all_until_the_group_is_empty():
    streams = Streams()
    streams.arrive("a")
    streams.arrive("b")
    assert codes(streams.report("a", 2, shutdown_application=True)) == [t.SHUTDOWN_APPLICATION]
    assert codes(streams.report("b", 3)) == [t.SHUTDOWN_APPLICATION]
    streams.report("a", -1)
    streams.report("b", -1)
    assert codes(streams.arrive("a")) == []


def test_standbys_are_in_other_processes_and_follow_the_groups_setting():
    streams = Streams(t=2, c=2)
    streams.overrides["g"] = {"streams.num.standby.replicas": "1"}
    topology = a_topology(changelog="c")
    streams.arrive("a", topology)
    streams.arrive("b", topology)
    group = streams.groups["g"]
    for one, other in (("a", "b"), ("b", "a")):
        assert group.targets[one].standby == group.targets[other].active
    streams.overrides["g"] = {}
    streams.report("a", 2)
    assert all(not target.standby for target in group.targets.values())
    streams.check_replay()


def test_a_standby_becomes_active_only_after_the_member_has_given_up_the_standby():
    """Both roles of a task have one state directory in a process."""
    streams = Streams(t=1, c=1)
    streams.overrides["g"] = {"streams.num.standby.replicas": "1"}
    topology = a_topology(changelog="c")
    streams.arrive("a", topology)
    b = streams.arrive("b", topology)
    assert tasks(b.standby_tasks) == {("0", 0)}
    streams.report("a", -1)
    moving = streams.report("b", 3, set(), {("0", 0)})
    assert (tasks(moving.active_tasks), tasks(moving.standby_tasks)) == (set(), set())
    moved = streams.report("b", 3, set(), set())
    waited = streams.report("b", moved.member_epoch, set(), set())
    assert {("0", 0)} in (tasks(moved.active_tasks), tasks(waited.active_tasks))
    streams.check_replay()


def test_endpoints_are_told_when_they_change():
    streams = Streams(t=2)
    there = wire.Endpoint(host="one", port=1)
    streams.arrive("a", user_endpoint=there)
    streams.arrive("b", user_endpoint=wire.Endpoint(host="two", port=2))
    kept = tasks(streams.report("a", 2, {("0", 0), ("0", 1)}).active_tasks)
    streams.report("a", 2, kept)
    answer = streams.report("b", 3, set())
    assert answer.endpoint_information_epoch > 0
    found = {
        each.user_endpoint.host: [(part.topic, part.partitions) for part in each.active_partitions]
        for each in answer.partitions_by_user_endpoint
    }
    assert sorted(number for parts in found.values() for _, numbers in parts for number in numbers) == [0, 1]
    assert set(found) == {"one", "two"}
    again = streams.report("b", 3, endpoint_information_epoch=answer.endpoint_information_epoch)
    assert again.partitions_by_user_endpoint is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"instance_id": "i"}, "Static membership is not yet supported."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"task_offsets": []}, "TaskOffsets are not supported yet."),
        ({"active_tasks": rows({("0", 1)})}, "ActiveTasks must be empty when (re-)joining."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
    ],
)
def test_wrong_requests_are_refused_in_kafkas_words(change, text):
    streams = Streams()
    request = wire.StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        rebalance_timeout_ms=1,
        topology=a_topology(),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    for name, value in change.items():
        setattr(request, name, value)
    answer = streams.send(request).response
    assert (answer.error_code, answer.error_message) == (e.InvalidRequest.code, text)
    assert not streams.log.end


def test_tasks_that_the_topology_does_not_have_are_refused():
    streams = Streams()
    streams.arrive("a")
    assert streams.report("a", 2, {("9", 0)}).error_code == e.InvalidRequest.code
    assert streams.report("a", 2, {("0", 4)}).error_code == e.InvalidRequest.code


def test_offsets_are_committed_under_the_epoch_of_the_member_or_of_its_task():
    streams = Streams()
    streams.arrive("a")
    assert streams.commit(5, member_id="a", generation=2) == 0
    assert streams.commit(5, member_id="a", generation=3) == e.StaleMemberEpoch.code
    assert streams.commit(5, member_id="x", generation=2) == e.UnknownMemberId.code
    assert streams.commit(5, member_id="a", generation=2, version=8) == e.UnsupportedVersion.code
    streams.arrive("b")
    kept = tasks(streams.report("a", 2, ALL).active_tasks) or set()
    streams.report("a", 2, kept)
    (mine, *_), (given, *_) = sorted(kept), sorted(ALL - kept)
    assert streams.commit(6, member_id="a", generation=2, partition=mine[1]) == 0  # had it then, has it now
    assert streams.commit(6, member_id="a", generation=2, partition=given[1]) == e.StaleMemberEpoch.code
    assert streams.commit_in_transaction(7, 1, member_id="a", generation=9) == e.IllegalGeneration.code
    assert streams.commit_in_transaction(7, 1, member_id="a", generation=3) == 0
    assert streams.fetch(member_id="a", epoch=1).error_code == e.StaleMemberEpoch.code
    assert streams.fetch(member_id="a", epoch=3).error_code == 0
    streams.check_replay()


def test_groups_of_other_protocols_stay_what_they_are():
    streams = Streams()
    streams.stable_group(1)
    refused = streams.arrive("a")
    assert (refused.error_code, refused.error_message) == (
        e.GroupIdNotFound.code,
        "Group g is not a streams group.",
    )


def test_an_empty_classic_group_becomes_a_streams_group_with_its_offsets_and_back():
    streams = Streams()
    (member,) = streams.stable_group(1)
    streams.commit(7, member_id=member, generation=1)
    streams.leave(member)
    streams.clock.advance(300_000)
    assert streams.arrive("a").error_code == 0
    assert streams.committed() == 7
    assert streams.join().answer.error_code == e.InconsistentGroupProtocol.code
    assert streams.subscribe("c").error_code == e.GroupIdNotFound.code
    streams.report("a", -1)
    streams.check_replay()
    streams.enter()
    assert streams.committed() == 7
    assert streams.describe().error_code == e.GroupIdNotFound.code


def test_a_classic_join_in_place_of_an_empty_streams_group_is_answered_if_it_cannot_be_written():
    streams = Streams(GroupSettings(group_initial_rebalance_delay_ms=3_000))
    streams.arrive("a")
    streams.report("a", -1)
    streams.log.broken = True
    with pytest.raises(e.CoordinatorNotAvailable):
        streams.join(version=3)
    streams.log.broken = False
    joined = streams.join(version=3)
    streams.clock.advance(3_000)
    assert joined.answer.error_code == 0


def test_a_group_with_members_is_not_deleted_and_one_without_is():
    streams = Streams()
    streams.arrive("a")
    streams.commit(5, member_id="a", generation=2)

    def delete() -> int:
        (result,) = streams.ask(lambda token, now: streams.table.on_delete_groups(["g"], token, now))
        code: int = result.error_code
        return code

    assert delete() == e.NonEmptyGroup.code
    streams.report("a", -1)
    assert delete() == 0
    assert not streams.groups and not streams.replica().state.groups
    assert streams.committed() == -1


def test_a_restart_keeps_members_and_their_sessions_begin_again():
    streams = Streams()
    streams.arrive("a")
    streams.clock.advance(40_000)
    streams.restart()
    streams.clock.advance(40_000)
    assert streams.report("a", 2, ALL).error_code == 0
    streams.clock.advance(50_000)
    assert streams.groups["g"].is_empty


def test_a_full_group_takes_nobody():
    streams = Streams(GroupSettings(group_streams_max_size=1))
    streams.arrive("a")
    assert streams.arrive("b").error_code == e.GroupMaxSizeReached.code


def test_groups_are_listed_with_their_type_and_state():
    streams = Streams(other=1)
    streams.arrive("a")
    for states in ([], ["NotReady"], ["not_ready"]):
        request = ListGroupsRequest(states_filter=states, types_filter=["streams"])
        found = streams.ask(partial(streams.table.on_list_groups, request))
        assert [(each.group_id, each.protocol_type, each.group_state) for each in found.groups] == [
            ("g", "streams", "NotReady")
        ]


def test_refused_groups_leave_nothing_behind():
    streams = Streams()
    loop = wire.Subtopology(
        subtopology_id="0",
        repartition_sink_topics=["r"],
        repartition_source_topics=[wire.TopicInfo(name="r")],
    )
    refused = streams.arrive("a", wire.Topology(epoch=0, subtopologies=[loop]))
    assert refused.error_code == e.StreamsInvalidTopology.code
    assert not streams.groups and not streams.table._streams._soft
