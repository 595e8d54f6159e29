"""The classic protocol: joining, syncing, heartbeats, leaving, time."""

from typing import Any

import pytest

from ottla import errors as e
from ottla.coordination.groups.classic_group import ClassicGroup
from ottla.coordination.groups.settings import GroupSettings
from tests.unit.coordination.groups.coordinator import GroupCoordinator, subscription


def state(coordinator: GroupCoordinator, group: str = "g") -> str:
    return str(coordinator.groups[group].state.value)


def test_the_first_join_is_told_to_come_back_with_its_id():
    coordinator = GroupCoordinator()
    answer = coordinator.join(version=4).answer
    assert answer.error_code == e.MemberIdRequired.code
    assert answer.member_id == "client-0001"
    assert state(coordinator) == "Empty"


def test_before_version_4_a_member_is_in_at_once():
    coordinator = GroupCoordinator()
    answer = coordinator.join(version=3).answer
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, answer.member_id)
    assert [each.member_id for each in answer.members] == [answer.member_id]


def test_one_member_joins_syncs_and_is_stable():
    coordinator = GroupCoordinator()
    member, joined = coordinator.enter()
    assert joined.answer.generation_id == 1
    assert state(coordinator) == "CompletingRebalance"
    synced = coordinator.sync(member, 1, {member: b"mine"}).answer
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert synced.protocol_type == "consumer" and synced.protocol_name == "range"
    assert state(coordinator) == "Stable"
    assert coordinator.heartbeat(member, 1) == 0


def test_a_second_member_waits_until_the_first_has_joined_again():
    coordinator = GroupCoordinator()
    (first,) = coordinator.stable_group(1)
    second, joined = coordinator.enter()
    assert joined.is_waiting
    assert coordinator.heartbeat(first, 1) == e.RebalanceInProgress.code
    again = coordinator.join(first)
    assert again.answer.generation_id == joined.answer.generation_id == 2
    assert again.answer.leader == first and joined.answer.members == []
    assert {each.member_id for each in again.answer.members} == {first, second}
    follower = coordinator.sync(second, 2)
    assert follower.is_waiting
    coordinator.sync(first, 2, {first: b"a", second: b"b"})
    assert follower.answer.assignment == b"b"


def test_members_that_do_not_come_back_in_time_are_out():
    coordinator = GroupCoordinator()
    first, second = coordinator.stable_group(2, session_ms=100_000)
    again = coordinator.join(second, session_ms=100_000, protocols={"range": subscription("other")})
    coordinator.clock.advance(59_999)
    assert again.is_waiting
    coordinator.clock.advance(1)
    assert again.answer.leader == second
    assert list(coordinator.groups["g"].members) == [second]
    assert coordinator.heartbeat(first, again.answer.generation_id) == e.UnknownMemberId.code


def test_the_rebalance_waits_for_the_slowest_members_timeout():
    coordinator = GroupCoordinator()
    _, quick = coordinator.stable_group(2, session_ms=1_000_000, rebalance_ms=300_000)
    again = coordinator.join(
        quick, session_ms=1_000_000, rebalance_ms=1_000, protocols={"range": subscription("other")}
    )
    coordinator.clock.advance(299_999)
    assert again.is_waiting
    coordinator.clock.advance(1)
    assert again.answer.generation_id == 3


def test_a_silent_member_is_out_after_its_session():
    coordinator = GroupCoordinator()
    first, second = coordinator.stable_group(2)
    coordinator.clock.advance(9_000)
    assert coordinator.heartbeat(first, 2) == 0
    coordinator.clock.advance(1_000)
    assert state(coordinator) == "PreparingRebalance"
    assert list(coordinator.groups["g"].members) == [first]
    assert coordinator.heartbeat(second, 2) == e.UnknownMemberId.code


def test_the_last_member_leaves_an_empty_group_behind():
    coordinator = GroupCoordinator()
    (member,) = coordinator.stable_group(1)
    assert coordinator.leave(member).members[0].error_code == 0
    assert state(coordinator) == "Empty"
    assert coordinator.groups["g"].generation == 2
    assert coordinator.replica().state.groups["g"].generation == 2  # type: ignore[union-attr]
    assert coordinator.heartbeat(member, 2) == e.UnknownMemberId.code


def test_leaving_in_a_batch_answers_for_each():
    coordinator = GroupCoordinator()
    first, second = coordinator.stable_group(2)
    answer = coordinator.leave(first, "nobody", second)
    assert [each.error_code for each in answer.members] == [0, e.UnknownMemberId.code, 0]
    assert state(coordinator) == "Empty"


def test_leaving_before_version_3_answers_at_the_top():
    coordinator = GroupCoordinator()
    (member,) = coordinator.stable_group(1)
    assert coordinator.leave("nobody", version=2).error_code == e.UnknownMemberId.code
    answer = coordinator.leave(member, version=0)
    assert (answer.error_code, answer.members) == (0, [])


def test_a_pending_member_can_leave_and_holds_up_nobody():
    coordinator = GroupCoordinator()
    (first,) = coordinator.stable_group(1)
    pending = coordinator.join().answer.member_id
    again = coordinator.join(first)
    assert again.is_waiting  # the pending one may still come
    assert coordinator.leave(pending).members[0].error_code == 0
    assert again.answer.generation_id == 2


def test_a_pending_member_that_never_joins_is_forgotten_after_its_session():
    coordinator = GroupCoordinator()
    (first,) = coordinator.stable_group(1)
    coordinator.join(session_ms=8_000)
    again = coordinator.join(first)
    coordinator.clock.advance(8_000)
    assert again.answer.generation_id == 2
    assert not coordinator.groups["g"].pending


def test_of_the_ids_that_nobody_joins_with_only_the_latest_are_remembered():
    coordinator = GroupCoordinator(GroupSettings(group_pending_members_max=5))
    handed_out = [coordinator.join(group=f"g{i % 2}").answer.member_id for i in range(40)]
    assert coordinator.groups["g0"].pending | coordinator.groups["g1"].pending == set(handed_out[-5:])
    assert len(coordinator.shard._timers) == 5 + 1  # a session each; and the look for what has expired
    forgotten = coordinator.join(handed_out[0], group="g0").answer
    assert forgotten.error_code == e.UnknownMemberId.code
    assert coordinator.join(handed_out[-1], group="g1").answer.generation_id == 1


def test_a_rebalance_goes_on_when_the_id_it_waits_for_is_forgotten():
    coordinator = GroupCoordinator(GroupSettings(group_pending_members_max=1))
    (first,) = coordinator.stable_group(1)
    coordinator.join()
    again = coordinator.join(first)
    assert again.is_waiting  # the pending one may still come
    coordinator.join(group="another")
    assert again.answer.generation_id == 2


def test_a_group_that_was_only_ever_asked_for_ids_is_forgotten():
    coordinator = GroupCoordinator()
    coordinator.join(session_ms=8_000)
    coordinator.clock.advance(8_000 + coordinator.settings.offsets_retention_check_interval_ms)
    assert "g" not in coordinator.groups


def test_a_member_id_begins_with_the_clients_name_cut_to_a_bounded_length():
    coordinator = GroupCoordinator()
    assert coordinator.join(client="c").answer.member_id.startswith("c-")
    assert len(coordinator.join(client="c" * 32_767).answer.member_id) < 300


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"group": ""}, e.InvalidGroupId),
        ({"session_ms": 5_999}, e.InvalidSessionTimeout),
        ({"session_ms": 1_800_001}, e.InvalidSessionTimeout),
        ({"member_id": "nobody"}, e.UnknownMemberId),
        ({"protocols": {}}, e.InconsistentGroupProtocol),
        ({"protocol_type": ""}, e.InconsistentGroupProtocol),
    ],
)
def test_a_join_is_refused(options, error):
    coordinator = GroupCoordinator()
    assert coordinator.join(**options).answer.error_code == error.code
    assert not coordinator.groups


def test_protocols_nobody_else_knows_are_refused():
    coordinator = GroupCoordinator()
    coordinator.stable_group(1)
    assert (
        coordinator.join(protocols={"roundrobin": b""}).answer.error_code == e.InconsistentGroupProtocol.code
    )
    assert coordinator.join(protocol_type="connect").answer.error_code == e.InconsistentGroupProtocol.code


def test_a_join_with_many_protocol_names_compares_them_in_one_pass(monkeypatch):
    """The candidates take time in proportion to the names of all members: once for each name of the request would
    stop the broker's loop for hours."""
    coordinator = GroupCoordinator()
    coordinator.stable_group(1, protocols={f"known {i}": b"" for i in range(20_000)})
    group = coordinator.groups["g"]
    candidates = group.candidates()
    calls: list[ClassicGroup] = []

    def counted(group: ClassicGroup) -> set[str]:
        calls.append(group)
        return candidates

    monkeypatch.setattr(ClassicGroup, "candidates", counted)
    refused = coordinator.join(protocols={f"unknown {i}": b"" for i in range(20_000)}).answer
    assert (refused.error_code, len(calls)) == (e.InconsistentGroupProtocol.code, 1)


def test_the_protocol_is_chosen_by_votes_among_those_all_know():
    coordinator = GroupCoordinator(GroupSettings(group_initial_rebalance_delay_ms=3_000))
    offers = [{"a": b"", "b": b""}, {"b": b"", "a": b""}, {"b": b"", "c": b"", "a": b""}]
    calls = [coordinator.join(version=3, protocols=each) for each in offers]
    coordinator.clock.advance(60_000)
    assert {call.answer.protocol_name for call in calls} == {"b"}


def test_the_first_rebalance_waits_for_more_members_and_longer_while_they_come():
    coordinator = GroupCoordinator(GroupSettings(group_initial_rebalance_delay_ms=3_000))
    first = coordinator.join(version=3, rebalance_ms=10_000)
    coordinator.clock.advance(2_000)
    second = coordinator.join(version=3, rebalance_ms=10_000)
    coordinator.clock.advance(1_000)
    assert first.is_waiting  # somebody came: wait again
    coordinator.clock.advance(3_000)
    assert first.answer.generation_id == second.answer.generation_id == 1
    assert len(first.answer.members) == 2


def test_the_first_rebalance_does_not_wait_for_ever():
    coordinator = GroupCoordinator(GroupSettings(group_initial_rebalance_delay_ms=3_000))
    first = coordinator.join(version=3, rebalance_ms=10_000)
    for _ in range(20):
        coordinator.clock.advance(500)
        coordinator.join(version=3, rebalance_ms=10_000)
    assert first.answer is not None


def test_a_full_group_takes_nobody_else():
    coordinator = GroupCoordinator(GroupSettings(group_max_size=1))
    coordinator.stable_group(1)
    answer = coordinator.join().answer
    assert (answer.error_code, answer.member_id) == (e.GroupMaxSizeReached.code, "")


def test_generations_and_members_are_checked():
    coordinator = GroupCoordinator()
    (member,) = coordinator.stable_group(1)
    assert coordinator.heartbeat(member, 0) == e.IllegalGeneration.code
    assert coordinator.heartbeat("nobody", 1) == e.UnknownMemberId.code
    assert coordinator.heartbeat(member, 1, group="none") == e.UnknownMemberId.code
    assert coordinator.sync(member, 7).answer.error_code == e.IllegalGeneration.code
    assert coordinator.sync("nobody", 1).answer.error_code == e.UnknownMemberId.code
    assert (
        coordinator.sync(member, 1, protocol_name="x").answer.error_code == e.InconsistentGroupProtocol.code
    )
    assert (
        coordinator.sync(member, 1, protocol_type="x").answer.error_code == e.InconsistentGroupProtocol.code
    )
    assert coordinator.sync(member, 1, version=5).answer.error_code == e.InconsistentGroupProtocol.code
    assert [each.error_code for each in coordinator.leave("x", group="none").members] == [
        e.UnknownMemberId.code
    ]


def test_an_error_has_a_protocol_name_that_its_version_can_carry():
    coordinator = GroupCoordinator()
    assert coordinator.join("nobody", version=6).answer.protocol_name == ""
    assert coordinator.join("nobody", version=7).answer.protocol_name is None


def test_a_sync_during_preparation_is_told_to_rejoin():
    coordinator = GroupCoordinator()
    (first,) = coordinator.stable_group(1)
    coordinator.enter()
    assert coordinator.sync(first, 1).answer.error_code == e.RebalanceInProgress.code


def test_whoever_waits_in_sync_is_told_when_the_group_rebalances_again():
    coordinator = GroupCoordinator()
    first, second = coordinator.stable_group(2)
    coordinator.join(first)
    coordinator.join(second)
    waiting = coordinator.sync(second, 3)
    coordinator.enter()
    assert waiting.answer.error_code == e.RebalanceInProgress.code


def test_members_that_never_sync_are_out():
    coordinator = GroupCoordinator()
    _, joined = coordinator.enter(session_ms=1_000_000)
    coordinator.clock.advance(60_000)
    assert joined.answer.generation_id == 1
    assert state(coordinator) == "Empty"


def test_a_sync_in_a_stable_group_gives_the_assignment_again():
    coordinator = GroupCoordinator()
    _, second = coordinator.stable_group(2)
    assert coordinator.sync(second, 2).answer.assignment == b"of " + second.encode()
    assert (
        coordinator.join(second).answer.generation_id == 2
    )  # no rebalance for a follower that wants the same
    assert state(coordinator) == "Stable"


def test_the_leader_joining_again_starts_a_rebalance():
    coordinator = GroupCoordinator()
    first, _ = coordinator.stable_group(2)
    assert coordinator.join(first).answer is None
    assert state(coordinator) == "PreparingRebalance"


def test_a_lost_join_answer_is_given_again():
    coordinator = GroupCoordinator()
    member, joined = coordinator.enter()
    assert coordinator.join(member).answer.generation_id == joined.answer.generation_id == 1
    assert state(coordinator) == "CompletingRebalance"


def test_a_join_sent_twice_is_answered_twice():
    coordinator = GroupCoordinator()
    (first,) = coordinator.stable_group(1)
    second, lost = coordinator.enter()
    repeated = coordinator.join(second)
    assert lost.answer.error_code == e.RebalanceInProgress.code
    coordinator.join(first)
    assert repeated.answer.generation_id == 2


def test_a_group_of_connect_workers_is_none_of_our_business():
    coordinator = GroupCoordinator()
    workers = coordinator.stable_group(
        2, protocol_type="connect", protocols={"sessioned": b"\xff", "default": b""}
    )
    assert coordinator.heartbeat(workers[1], 2) == 0
    assert coordinator.replica().state.groups["g"].protocol_type == "connect"  # type: ignore[union-attr]


# Static members


def static(coordinator: GroupCoordinator, instance: str = "i", version: int = 9, **options: Any):
    return coordinator.join(instance=instance, version=version, **options)


def test_a_static_member_needs_no_second_join():
    coordinator = GroupCoordinator()
    answer = static(coordinator).answer
    assert (answer.error_code, answer.member_id) == (0, "i-0001")


@pytest.mark.parametrize(("version", "skips"), [(9, True), (8, False)])
def test_a_restarted_static_leader_gets_its_place_without_a_rebalance(version, skips):
    coordinator = GroupCoordinator()
    old = static(coordinator).answer.member_id
    coordinator.sync(old, 1, {old: b"mine"}, instance="i")
    answer = static(coordinator, version=version).answer
    assert (answer.error_code, answer.generation_id, answer.skip_assignment) == (0, 1, skips)
    assert (answer.leader == answer.member_id) is skips
    assert len(answer.members) == (1 if skips else 0)
    assert coordinator.sync(answer.member_id, 1, instance="i").answer.assignment == b"mine"
    assert coordinator.heartbeat(old, 1, instance="i") == e.FencedInstanceId.code
    assert list(coordinator.replica().state.groups["g"].members) == [answer.member_id]


def test_a_static_member_that_waits_is_fenced_by_its_successor():
    coordinator = GroupCoordinator()
    (first,) = coordinator.stable_group(1)
    waiting = static(coordinator)
    successor = static(coordinator)
    assert waiting.answer.error_code == e.FencedInstanceId.code
    coordinator.join(first)
    assert successor.answer.generation_id == 2


def test_a_static_member_is_kept_through_a_rebalance_it_misses():
    coordinator = GroupCoordinator()
    old = static(coordinator, session_ms=1_000_000).answer.member_id
    coordinator.sync(old, 1, {old: b"mine"}, instance="i")
    second, joined = coordinator.enter(session_ms=1_000_000)
    coordinator.clock.advance(60_000)
    assert joined.answer.leader == second
    assert {each.member_id for each in joined.answer.members} == {old, second}


def test_a_rebalance_that_all_static_members_miss_is_not_tried_more_than_once_a_second(monkeypatch):
    coordinator = GroupCoordinator()
    options: dict[str, Any] = {"session_ms": 10_000, "rebalance_ms": 0}
    leader = static(coordinator, "i", **options).answer.member_id
    coordinator.sync(leader, 1, {}, instance="i")
    follower = static(coordinator, "j", **options)
    coordinator.join(leader, instance="i", **options)
    coordinator.sync(follower.answer.member_id, 2, instance="j")
    coordinator.sync(leader, 2, {}, instance="i")
    timeouts = []
    on_timer = coordinator.table.on_timer

    def counted(name, now_ms):
        timeouts.append(name)
        assert len(timeouts) < 100, "one time-out follows the other without a pause"
        return on_timer(name, now_ms)

    monkeypatch.setattr(coordinator.table, "on_timer", counted)
    coordinator.leave(("", "j"))
    coordinator.clock.advance(9_999)
    assert (state(coordinator), len(timeouts)) == ("PreparingRebalance", 10)
    coordinator.clock.advance(1)  # the session of the member that stays away decides
    assert state(coordinator) == "Empty"


def test_an_administrator_removes_a_static_member_by_its_instance():
    coordinator = GroupCoordinator()
    static(coordinator)
    answer = coordinator.leave(("", "i"), ("", "other"))
    assert [each.error_code for each in answer.members] == [0, e.UnknownMemberId.code]
    assert state(coordinator) == "Empty"


def test_a_static_member_that_changes_the_protocol_causes_a_rebalance():
    coordinator = GroupCoordinator()
    old = static(coordinator, protocols={"a": b"1", "b": b""}).answer.member_id
    coordinator.sync(old, 1, {}, instance="i")
    answer = static(coordinator, protocols={"b": b"2"}).answer
    assert (answer.generation_id, answer.protocol_name) == (2, "b")


# Restart


def test_after_a_restart_members_go_on_in_their_generation():
    coordinator = GroupCoordinator()
    first, second = coordinator.stable_group(2)
    coordinator.restart()
    assert coordinator.heartbeat(first, 2) == 0
    assert coordinator.sync(second, 2).answer.assignment == b"of " + second.encode()
    coordinator.clock.advance(10_000)
    assert state(coordinator) == "Empty"


def test_an_unfinished_generation_is_forgotten_by_a_restart():
    coordinator = GroupCoordinator()
    (first,) = coordinator.stable_group(1)
    second, _ = coordinator.enter()
    coordinator.join(first)
    coordinator.restart()
    assert coordinator.heartbeat(first, 2) == e.IllegalGeneration.code
    assert coordinator.heartbeat(second, 2) == e.UnknownMemberId.code
    assert coordinator.join(first).answer.generation_id == 2


def test_an_assignment_that_cannot_be_written_is_no_assignment():
    coordinator = GroupCoordinator()
    member, _ = coordinator.enter()
    coordinator.log.broken = True
    with pytest.raises(e.CoordinatorNotAvailable):
        coordinator.sync(member, 1, {member: b"mine"})
    assert state(coordinator) == "CompletingRebalance"
    coordinator.log.broken = False
    assert coordinator.sync(member, 1, {member: b"mine"}).answer.assignment == b"mine"
    assert state(coordinator) == "Stable"


def generations(coordinator: GroupCoordinator) -> tuple[int, int]:
    """In memory, and by the log alone."""
    return coordinator.groups["g"].generation, coordinator.replica().state.groups["g"].generation  # type: ignore[union-attr]


def test_a_group_is_not_empty_before_that_is_written():
    coordinator = GroupCoordinator()
    (member,) = coordinator.stable_group(1)
    coordinator.log.broken = True
    with pytest.raises(e.CoordinatorNotAvailable):
        coordinator.leave(member)
    assert (state(coordinator), generations(coordinator)) == ("PreparingRebalance", (1, 1))
    coordinator.log.broken = False
    coordinator.clock.advance(1_000)
    assert (state(coordinator), generations(coordinator)) == ("Empty", (2, 2))


def test_a_group_whose_last_session_ends_becomes_empty_once_the_log_takes_it():
    coordinator = GroupCoordinator()
    coordinator.stable_group(1, session_ms=10_000)
    coordinator.log.broken = True
    coordinator.clock.advance(15_000)
    assert (state(coordinator), generations(coordinator)) == ("PreparingRebalance", (1, 1))
    coordinator.log.broken = False
    coordinator.clock.advance(1_000)
    assert (state(coordinator), generations(coordinator)) == ("Empty", (2, 2))


def test_a_group_that_could_not_become_empty_takes_the_next_member():
    coordinator = GroupCoordinator()
    (member,) = coordinator.stable_group(1)
    coordinator.log.broken = True
    with pytest.raises(e.CoordinatorNotAvailable):
        coordinator.leave(member)
    coordinator.log.broken = False
    newcomer, joined = coordinator.enter()
    assert joined.answer.generation_id == 2
    coordinator.sync(newcomer, 2, {newcomer: b"mine"})
    coordinator.clock.advance(5_000)
    assert (state(coordinator), generations(coordinator)) == ("Stable", (2, 2))


def a_group_with_a_static_member() -> tuple[GroupCoordinator, str]:
    coordinator = GroupCoordinator()
    member = static(coordinator, session_ms=10_000).answer.member_id
    coordinator.sync(member, 1, {member: b"mine"}, instance="i")
    return coordinator, member


def replayed_statics(coordinator: GroupCoordinator) -> dict[str, str]:
    group = coordinator.replica().state.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group.statics


def test_a_static_member_is_replaced_only_once_that_is_written():
    coordinator, old = a_group_with_a_static_member()
    coordinator.log.broken = True
    with pytest.raises(e.CoordinatorNotAvailable):
        static(coordinator, session_ms=10_000)
    assert coordinator.groups["g"].statics == replayed_statics(coordinator) == {"i": old}
    assert coordinator.groups["g"].leader == old
    assert coordinator.heartbeat(old, 1, instance="i") == 0
    coordinator.log.broken = False
    new = static(coordinator, session_ms=10_000).answer.member_id
    assert coordinator.groups["g"].statics == replayed_statics(coordinator) == {"i": new}
    assert coordinator.sync(new, 1, instance="i").answer.assignment == b"mine"


def test_a_static_member_whose_successor_could_not_be_written_still_has_its_session():
    coordinator, _ = a_group_with_a_static_member()
    coordinator.log.broken = True
    with pytest.raises(e.CoordinatorNotAvailable):
        static(coordinator, session_ms=10_000)
    coordinator.log.broken = False
    coordinator.clock.advance(20_000)
    assert (state(coordinator), list(coordinator.groups["g"].members)) == ("Empty", [])


def test_a_successor_offers_its_own_protocols_from_then_on():
    coordinator, _ = a_group_with_a_static_member()
    new = static(coordinator, protocols={"range": b"1", "other": b"2"}).answer.member_id
    assert [name for name, _ in coordinator.groups["g"].members[new].protocols] == ["range", "other"]


def test_every_transition_is_reported_with_its_generation():
    coordinator = GroupCoordinator()
    (member,) = coordinator.stable_group(1)
    coordinator.leave(member)
    text = "\n".join(coordinator.lines)
    for fact in (
        "generation 1: 1 members, leader client-0001",
        "generation 1: stable",
        "generation 2: empty",
    ):
        assert fact in text
