"""The classic protocol: joining, syncing, heartbeats, leaving, time."""

import pytest

from ottla import errors as e
from ottla.coordination.groups.settings import GroupSettings
from tests.unit.coordination.groups.world import World, subscription


def state(world: World, group: str = "g") -> str:
    return str(world.groups[group].state.value)


def test_the_first_join_is_told_to_come_back_with_its_id():
    world = World()
    answer = world.join(version=4).answer
    assert answer.error_code == e.MemberIdRequired.code
    assert answer.member_id == "client-0001"
    assert state(world) == "Empty"


def test_before_version_4_a_member_is_in_at_once():
    world = World()
    answer = world.join(version=3).answer
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, answer.member_id)
    assert [each.member_id for each in answer.members] == [answer.member_id]


def test_one_member_joins_syncs_and_is_stable():
    world = World()
    member, joined = world.enter()
    assert joined.answer.generation_id == 1
    assert state(world) == "CompletingRebalance"
    synced = world.sync(member, 1, {member: b"mine"}).answer
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert synced.protocol_type == "consumer" and synced.protocol_name == "range"
    assert state(world) == "Stable"
    assert world.heartbeat(member, 1) == 0


def test_a_second_member_waits_until_the_first_has_joined_again():
    world = World()
    (first,) = world.stable_group(1)
    second, joined = world.enter()
    assert joined.answer is None
    assert world.heartbeat(first, 1) == e.RebalanceInProgress.code
    again = world.join(first)
    assert again.answer.generation_id == joined.answer.generation_id == 2
    assert again.answer.leader == first and joined.answer.members == []
    assert {each.member_id for each in again.answer.members} == {first, second}
    follower = world.sync(second, 2)
    assert follower.answer is None
    world.sync(first, 2, {first: b"a", second: b"b"})
    assert follower.answer.assignment == b"b"


def test_members_that_do_not_come_back_in_time_are_out():
    world = World()
    first, second = world.stable_group(2, session_ms=100_000)
    again = world.join(second, session_ms=100_000, protocols={"range": subscription("other")})
    world.clock.advance(59_999)
    assert again.answer is None
    world.clock.advance(1)
    assert again.answer.leader == second
    assert list(world.groups["g"].members) == [second]
    assert world.heartbeat(first, again.answer.generation_id) == e.UnknownMemberId.code


def test_the_rebalance_waits_for_the_slowest_members_timeout():
    world = World()
    _, quick = world.stable_group(2, session_ms=1_000_000, rebalance_ms=300_000)
    again = world.join(
        quick, session_ms=1_000_000, rebalance_ms=1_000, protocols={"range": subscription("other")}
    )
    world.clock.advance(299_999)
    assert again.answer is None
    world.clock.advance(1)
    assert again.answer.generation_id == 3


def test_a_silent_member_is_out_after_its_session():
    world = World()
    first, second = world.stable_group(2)
    world.clock.advance(9_000)
    assert world.heartbeat(first, 2) == 0
    world.clock.advance(1_000)
    assert state(world) == "PreparingRebalance"
    assert list(world.groups["g"].members) == [first]
    assert world.heartbeat(second, 2) == e.UnknownMemberId.code


def test_the_last_member_leaves_an_empty_group_behind():
    world = World()
    (member,) = world.stable_group(1)
    assert world.leave(member).members[0].error_code == 0
    assert state(world) == "Empty"
    assert world.groups["g"].generation == 2
    assert world.replica().state.groups["g"].generation == 2
    assert world.heartbeat(member, 2) == e.UnknownMemberId.code


def test_leaving_in_a_batch_answers_for_each():
    world = World()
    first, second = world.stable_group(2)
    answer = world.leave(first, "nobody", second)
    assert [each.error_code for each in answer.members] == [0, e.UnknownMemberId.code, 0]
    assert state(world) == "Empty"


def test_leaving_before_version_3_answers_at_the_top():
    world = World()
    (member,) = world.stable_group(1)
    assert world.leave("nobody", version=2).error_code == e.UnknownMemberId.code
    answer = world.leave(member, version=0)
    assert (answer.error_code, answer.members) == (0, [])


def test_a_pending_member_can_leave_and_holds_up_nobody():
    world = World()
    (first,) = world.stable_group(1)
    pending = world.join().answer.member_id
    again = world.join(first)
    assert again.answer is None  # the pending one may still come
    assert world.leave(pending).members[0].error_code == 0
    assert again.answer.generation_id == 2


def test_a_pending_member_that_never_joins_is_forgotten_after_its_session():
    world = World()
    (first,) = world.stable_group(1)
    world.join(session_ms=8_000)
    again = world.join(first)
    world.clock.advance(8_000)
    assert again.answer.generation_id == 2
    assert not world.groups["g"].pending


def test_of_the_ids_that_nobody_joins_with_only_the_latest_are_remembered():
    world = World(GroupSettings(group_pending_members_max=5))
    handed_out = [world.join(group=f"g{i % 2}").answer.member_id for i in range(40)]
    assert world.groups["g0"].pending | world.groups["g1"].pending == set(handed_out[-5:])
    assert len(world.shard._timers) == 5 + 1  # a session each; and the look for what has expired
    forgotten = world.join(handed_out[0], group="g0").answer
    assert forgotten.error_code == e.UnknownMemberId.code
    assert world.join(handed_out[-1], group="g1").answer.generation_id == 1


def test_a_rebalance_goes_on_when_the_id_it_waits_for_is_forgotten():
    world = World(GroupSettings(group_pending_members_max=1))
    (first,) = world.stable_group(1)
    world.join()
    again = world.join(first)
    assert again.answer is None  # the pending one may still come
    world.join(group="another")
    assert again.answer.generation_id == 2


def test_a_group_that_was_only_ever_asked_for_ids_is_forgotten():
    world = World()
    world.join(session_ms=8_000)
    world.clock.advance(8_000 + world.settings.offsets_retention_check_interval_ms)
    assert "g" not in world.groups


def test_a_member_id_begins_with_the_clients_name_cut_to_a_bounded_length():
    world = World()
    assert world.join(client="c").answer.member_id.startswith("c-")
    assert len(world.join(client="c" * 32_767).answer.member_id) < 300


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
    world = World()
    assert world.join(**options).answer.error_code == error.code
    assert not world.groups


def test_protocols_nobody_else_knows_are_refused():
    world = World()
    world.stable_group(1)
    assert world.join(protocols={"roundrobin": b""}).answer.error_code == e.InconsistentGroupProtocol.code
    assert world.join(protocol_type="connect").answer.error_code == e.InconsistentGroupProtocol.code


def test_the_protocol_is_chosen_by_votes_among_those_all_know():
    world = World(GroupSettings(group_initial_rebalance_delay_ms=3_000))
    offers = [{"a": b"", "b": b""}, {"b": b"", "a": b""}, {"b": b"", "c": b"", "a": b""}]
    calls = [world.join(version=3, protocols=each) for each in offers]
    world.clock.advance(60_000)
    assert {call.answer.protocol_name for call in calls} == {"b"}


def test_the_first_rebalance_waits_for_more_members_and_longer_while_they_come():
    world = World(GroupSettings(group_initial_rebalance_delay_ms=3_000))
    first = world.join(version=3, rebalance_ms=10_000)
    world.clock.advance(2_000)
    second = world.join(version=3, rebalance_ms=10_000)
    world.clock.advance(1_000)
    assert first.answer is None  # somebody came: wait again
    world.clock.advance(3_000)
    assert first.answer.generation_id == second.answer.generation_id == 1
    assert len(first.answer.members) == 2


def test_the_first_rebalance_does_not_wait_for_ever():
    world = World(GroupSettings(group_initial_rebalance_delay_ms=3_000))
    first = world.join(version=3, rebalance_ms=10_000)
    for _ in range(20):
        world.clock.advance(500)
        world.join(version=3, rebalance_ms=10_000)
    assert first.answer is not None


def test_a_full_group_takes_nobody_else():
    world = World(GroupSettings(group_max_size=1))
    world.stable_group(1)
    answer = world.join().answer
    assert (answer.error_code, answer.member_id) == (e.GroupMaxSizeReached.code, "")


def test_generations_and_members_are_checked():
    world = World()
    (member,) = world.stable_group(1)
    assert world.heartbeat(member, 0) == e.IllegalGeneration.code
    assert world.heartbeat("nobody", 1) == e.UnknownMemberId.code
    assert world.heartbeat(member, 1, group="none") == e.UnknownMemberId.code
    assert world.sync(member, 7).answer.error_code == e.IllegalGeneration.code
    assert world.sync("nobody", 1).answer.error_code == e.UnknownMemberId.code
    assert world.sync(member, 1, protocol_name="x").answer.error_code == e.InconsistentGroupProtocol.code
    assert world.sync(member, 1, protocol_type="x").answer.error_code == e.InconsistentGroupProtocol.code
    assert world.sync(member, 1, version=5).answer.error_code == e.InconsistentGroupProtocol.code
    assert [each.error_code for each in world.leave("x", group="none").members] == [e.UnknownMemberId.code]


def test_an_error_has_a_protocol_name_that_its_version_can_carry():
    world = World()
    assert world.join("nobody", version=6).answer.protocol_name == ""
    assert world.join("nobody", version=7).answer.protocol_name is None


def test_a_sync_during_preparation_is_told_to_rejoin():
    world = World()
    (first,) = world.stable_group(1)
    world.enter()
    assert world.sync(first, 1).answer.error_code == e.RebalanceInProgress.code


def test_whoever_waits_in_sync_is_told_when_the_group_rebalances_again():
    world = World()
    first, second = world.stable_group(2)
    world.join(first)
    world.join(second)
    waiting = world.sync(second, 3)
    world.enter()
    assert waiting.answer.error_code == e.RebalanceInProgress.code


def test_members_that_never_sync_are_out():
    world = World()
    _, joined = world.enter(session_ms=1_000_000)
    world.clock.advance(60_000)
    assert joined.answer.generation_id == 1
    assert state(world) == "Empty"


def test_a_sync_in_a_stable_group_gives_the_assignment_again():
    world = World()
    _, second = world.stable_group(2)
    assert world.sync(second, 2).answer.assignment == b"of " + second.encode()
    assert world.join(second).answer.generation_id == 2  # no rebalance for a follower that wants the same
    assert state(world) == "Stable"


def test_the_leader_joining_again_starts_a_rebalance():
    world = World()
    first, _ = world.stable_group(2)
    assert world.join(first).answer is None
    assert state(world) == "PreparingRebalance"


def test_a_lost_join_answer_is_given_again():
    world = World()
    member, joined = world.enter()
    assert world.join(member).answer.generation_id == joined.answer.generation_id == 1
    assert state(world) == "CompletingRebalance"


def test_a_join_sent_twice_is_answered_twice():
    world = World()
    (first,) = world.stable_group(1)
    second, lost = world.enter()
    repeated = world.join(second)
    assert lost.answer.error_code == e.RebalanceInProgress.code
    world.join(first)
    assert repeated.answer.generation_id == 2


def test_a_group_of_connect_workers_is_none_of_our_business():
    world = World()
    workers = world.stable_group(2, protocol_type="connect", protocols={"sessioned": b"\xff", "default": b""})
    assert world.heartbeat(workers[1], 2) == 0
    assert world.replica().state.groups["g"].protocol_type == "connect"


# Static members


def static(world: World, instance: str = "i", version: int = 9, **options: object):
    return world.join(instance=instance, version=version, **options)  # type: ignore[arg-type]


def test_a_static_member_needs_no_second_join():
    world = World()
    answer = static(world).answer
    assert (answer.error_code, answer.member_id) == (0, "i-0001")


@pytest.mark.parametrize(("version", "skips"), [(9, True), (8, False)])
def test_a_restarted_static_leader_gets_its_place_without_a_rebalance(version, skips):
    world = World()
    old = static(world).answer.member_id
    world.sync(old, 1, {old: b"mine"}, instance="i")
    answer = static(world, version=version).answer
    assert (answer.error_code, answer.generation_id, answer.skip_assignment) == (0, 1, skips)
    assert (answer.leader == answer.member_id) is skips
    assert len(answer.members) == (1 if skips else 0)
    assert world.sync(answer.member_id, 1, instance="i").answer.assignment == b"mine"
    assert world.heartbeat(old, 1, instance="i") == e.FencedInstanceId.code
    assert list(world.replica().state.groups["g"].members) == [answer.member_id]


def test_a_static_member_that_waits_is_fenced_by_its_successor():
    world = World()
    (first,) = world.stable_group(1)
    waiting = static(world)
    successor = static(world)
    assert waiting.answer.error_code == e.FencedInstanceId.code
    world.join(first)
    assert successor.answer.generation_id == 2


def test_a_static_member_is_kept_through_a_rebalance_it_misses():
    world = World()
    old = static(world, session_ms=1_000_000).answer.member_id
    world.sync(old, 1, {old: b"mine"}, instance="i")
    second, joined = world.enter(session_ms=1_000_000)
    world.clock.advance(60_000)
    assert joined.answer.leader == second
    assert {each.member_id for each in joined.answer.members} == {old, second}


def test_an_administrator_removes_a_static_member_by_its_instance():
    world = World()
    static(world)
    answer = world.leave(("", "i"), ("", "other"))
    assert [each.error_code for each in answer.members] == [0, e.UnknownMemberId.code]
    assert state(world) == "Empty"


def test_a_static_member_that_changes_the_protocol_causes_a_rebalance():
    world = World()
    old = static(world, protocols={"a": b"1", "b": b""}).answer.member_id
    world.sync(old, 1, {}, instance="i")
    answer = static(world, protocols={"b": b"2"}).answer
    assert (answer.generation_id, answer.protocol_name) == (2, "b")


# Restart


def test_after_a_restart_members_go_on_in_their_generation():
    world = World()
    first, second = world.stable_group(2)
    world.restart()
    assert world.heartbeat(first, 2) == 0
    assert world.sync(second, 2).answer.assignment == b"of " + second.encode()
    world.clock.advance(10_000)
    assert state(world) == "Empty"


def test_an_unfinished_generation_is_forgotten_by_a_restart():
    world = World()
    (first,) = world.stable_group(1)
    second, _ = world.enter()
    world.join(first)
    world.restart()
    assert world.heartbeat(first, 2) == e.IllegalGeneration.code
    assert world.heartbeat(second, 2) == e.UnknownMemberId.code
    assert world.join(first).answer.generation_id == 2


def test_an_assignment_that_cannot_be_written_is_no_assignment():
    world = World()
    member, _ = world.enter()
    world.log.broken = True
    with pytest.raises(e.CoordinatorNotAvailable):
        world.sync(member, 1, {member: b"mine"})
    assert state(world) == "CompletingRebalance"
    world.log.broken = False
    assert world.sync(member, 1, {member: b"mine"}).answer.assignment == b"mine"
    assert state(world) == "Stable"


def test_every_transition_is_reported_with_its_generation():
    world = World()
    (member,) = world.stable_group(1)
    world.leave(member)
    text = "\n".join(world.lines)
    for fact in (
        "generation 1: 1 members, leader client-0001",
        "generation 1: stable",
        "generation 2: empty",
    ):
        assert fact in text
