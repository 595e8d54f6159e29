"""Live groups between the two protocols, and classic members inside consumer groups."""

import pytest

from ottla import errors as e
from ottla.coordination.groups.settings import GroupSettings
from ottla.coordination.groups.subscription import parse_assignment
from tests.unit.coordination.groups.world import World, assignment, partitions_of, subscription


def classic_member(world: World, **options) -> str:
    """Alone in a stable classic group, with all of `t`."""
    member, joined = world.enter(**options)
    partitions = list(range(world.topics.partition_count("t")))
    world.sync(member, joined.answer.generation_id, {member: assignment(t=partitions)})
    return member


def rejoin(world: World, member: str, owned: list[int], generation: int, version: int = 2):
    """As a cooperative consumer does: it says what it has."""
    wants = subscription("t", version=version, owned={"t": owned}, generation=generation)
    return world.join(member, protocols={"range": wants}).answer


def test_a_member_of_the_new_protocol_upgrades_a_live_group():
    world = World(t=4)
    old = classic_member(world)
    answer = world.subscribe("new")
    assert (answer.error_code, partitions_of(answer)) == (0, set())  # the old one has them all still
    group = world.groups["g"]
    assert set(group.members) == {old, "new"}
    assert group.members[old].assigned_partitions == world.topics.partitions("t")
    assert world.replica().state.groups["g"] == group


def test_classic_members_give_up_and_go_on_after_an_upgrade():
    world = World(t=4)
    old = classic_member(world)
    epoch = world.subscribe("new").member_epoch
    assert world.heartbeat(old, 1) == e.RebalanceInProgress.code
    joined = rejoin(world, old, [0, 1, 2, 3], 1)
    assert joined.error_code == 0 and joined.generation_id == 1  # until it has given up
    kept = parse_assignment(world.sync(old, 1).answer.assignment)["t"]
    assert len(kept) == 2
    assert world.heartbeat(old, 1) == e.RebalanceInProgress.code
    assert rejoin(world, old, kept, 1).generation_id == epoch
    assert parse_assignment(world.sync(old, epoch).answer.assignment)["t"] == kept
    assert world.heartbeat(old, epoch) == 0
    others = partitions_of(world.beat("new", epoch))
    assert {number for _, number in others} == {0, 1, 2, 3} - set(kept)
    assert world.groups["g"].state == "Stable"


def test_an_eager_member_gives_up_everything_by_joining():
    world = World(t=2)
    old = classic_member(world)
    epoch = world.subscribe("new").member_epoch
    joined = world.join(old).answer
    assert joined.generation_id == epoch
    assert len(parse_assignment(world.sync(old, epoch).answer.assignment)["t"]) == 1
    assert len(partitions_of(world.beat("new", epoch))) == 1


def test_whoever_waits_in_the_old_protocol_is_told_to_join_again():
    world = World(t=2)
    classic_member(world)
    _, waiting = world.enter()
    assert waiting.answer is None
    world.subscribe("new")
    assert waiting.answer.error_code == e.RebalanceInProgress.code


def test_a_classic_member_joins_a_consumer_group():
    world = World(t=2)
    world.subscribe("new")
    assert world.join().answer.error_code == e.MemberIdRequired.code
    old, joined = world.enter()
    assert joined.answer.error_code == 0
    assert world.sync(old, joined.answer.generation_id).answer.error_code == 0
    assert world.groups["g"].members[old].is_classic


def test_a_classic_member_that_never_syncs_is_out():
    world = World(t=2)
    world.subscribe("new")
    old, _ = world.enter(rebalance_ms=20_000, session_ms=1_000_000)
    world.clock.advance(19_999)
    assert old in world.groups["g"].members
    world.clock.advance(1)
    assert old not in world.groups["g"].members


def test_a_classic_member_that_does_not_follow_the_hint_is_out():
    world = World(t=2)
    old = classic_member(world, rebalance_ms=20_000)
    world.subscribe("new")
    for _ in range(4):
        assert world.heartbeat(old, 1) == e.RebalanceInProgress.code
        world.beat("new", world.groups["g"].members["new"].epoch)
        world.clock.advance(5_000)
    assert old not in world.groups["g"].members


def test_a_silent_classic_member_is_out_after_its_own_session():
    world = World(t=2)
    old = classic_member(world, session_ms=8_000)
    world.subscribe("new")
    world.clock.advance(8_000)
    assert list(world.groups["g"].members) == ["new"]
    assert world.heartbeat(old, 1) == e.UnknownMemberId.code


def test_a_classic_member_that_gave_up_in_time_stays_after_a_restart():
    world = World(t=2)
    old = classic_member(world, rebalance_ms=20_000)
    epoch = world.subscribe("new").member_epoch
    rejoin(world, old, [0, 1], 1)
    kept = parse_assignment(world.sync(old, 1).answer.assignment)["t"]
    world.restart()
    assert rejoin(world, old, kept, 1).generation_id == epoch
    world.sync(old, epoch)
    for _ in range(30):
        world.clock.advance(3_000)
        assert world.heartbeat(old, epoch) == 0
        world.beat("new", epoch)
    assert set(world.groups["g"].members) == {old, "new"}


@pytest.mark.parametrize("way", ["leave", "session"])
def test_the_last_member_of_the_new_protocol_takes_the_group_back(way):
    world = World(t=2)
    old = classic_member(world, session_ms=100_000)
    epoch = world.subscribe("new").member_epoch
    world.join(old, session_ms=100_000)
    world.sync(old, epoch)
    if way == "leave":
        assert world.beat("new", -1).member_epoch == -1
    world.clock.advance(45_000 if way == "session" else 0)
    group = world.groups["g"]
    assert group.state.value == "PreparingRebalance"
    assert world.heartbeat(old, epoch) == e.RebalanceInProgress.code
    joined = world.join(old).answer
    assert (joined.generation_id, joined.leader) == (epoch + 1, old)
    world.sync(old, epoch + 1, {old: b"all"})
    replayed = world.replica().state.groups["g"]
    assert (replayed.generation, list(replayed.members)) == (epoch + 1, [old])


def test_a_crash_right_after_the_way_back_leaves_a_group_that_works():
    world = World(t=2)
    old = classic_member(world)
    epoch = world.subscribe("new").member_epoch
    world.join(old)
    world.sync(old, epoch)
    world.beat("new", -1)
    world.restart()
    assert world.heartbeat(old, epoch) == 0
    assert world.join(old).answer.generation_id == epoch + 1


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_policy_can_forbid_the_upgrade(policy):
    world = World(GroupSettings(group_consumer_migration_policy=policy), t=2)
    old = classic_member(world)
    assert world.subscribe("new").error_code == e.GroupIdNotFound.code
    assert world.heartbeat(old, 1) == 0


def test_groups_of_other_protocol_types_are_not_upgraded():
    world = World(t=2)
    (worker,) = world.stable_group(1, protocol_type="connect", protocols={"default": b""})
    assert world.subscribe("new").error_code == e.GroupIdNotFound.code
    assert world.heartbeat(worker, 1) == 0


def test_a_subscription_nobody_can_read_is_not_upgraded():
    world = World(t=2)
    (member,) = world.stable_group(1, protocols={"range": b"\xff"})
    assert world.subscribe("new").error_code == e.GroupIdNotFound.code
    assert world.heartbeat(member, 1) == 0


def test_an_empty_group_changes_its_protocol_without_ado():
    world = World(t=2)
    world.commit(5)
    (member,) = world.stable_group(1)
    world.leave(member)
    assert partitions_of(world.subscribe("new")) == world.topics.partitions("t")
    assert world.committed() == 5
    world.beat("new", -1)
    back = world.join(version=3).answer
    assert (back.error_code, back.generation_id) == (0, 1)
    world.sync(back.member_id, 1, {})
    assert world.committed() == 5
    assert list(world.replica().state.groups["g"].members) == [back.member_id]


def test_classic_members_commit_under_their_epoch():
    world = World(t=2)
    old = classic_member(world)
    world.subscribe("new")
    assert world.commit(3, member_id=old, generation=1, version=8) == 0
    assert world.commit(3, member_id=old, generation=9, version=8) == e.IllegalGeneration.code


def test_requests_of_classic_members_are_checked_in_a_consumer_group():
    world = World(t=2)
    old = classic_member(world)
    world.subscribe("new")
    assert world.heartbeat("nobody", 1) == e.UnknownMemberId.code
    assert world.heartbeat(old, 7) == e.IllegalGeneration.code
    assert world.heartbeat("new", 2) == e.UnknownMemberId.code
    assert world.sync(old, 7).answer.error_code == e.IllegalGeneration.code
    assert world.sync(old, 1).answer.error_code == e.RebalanceInProgress.code
    assert world.join(protocols={"x": b""}).answer.error_code == e.InconsistentGroupProtocol.code
    assert world.join(protocol_type="connect").answer.error_code == e.InconsistentGroupProtocol.code
    assert world.join("x", protocols={"range": b""}).answer.error_code == e.InconsistentGroupProtocol.code


def test_classic_members_leave_a_consumer_group():
    world = World(t=2)
    old = classic_member(world)
    world.subscribe("new")
    codes = [each.error_code for each in world.leave(old, "nobody").members]
    assert codes == [0, e.UnknownMemberId.code]
    assert list(world.groups["g"].members) == ["new"]


def test_a_static_member_moves_to_the_new_protocol_and_keeps_its_place():
    world = World(t=2)
    old = world.join(instance="i").answer.member_id
    world.sync(old, 1, {old: assignment(t=[0, 1])}, instance="i")
    answer = world.subscribe("new", instance="i")
    assert (answer.error_code, partitions_of(answer)) == (0, world.topics.partitions("t"))
    assert list(world.groups["g"].members) == ["new"]
    assert world.heartbeat(old, 1, instance="i") == e.FencedInstanceId.code


def test_a_restarted_static_classic_member_takes_its_place_in_a_consumer_group():
    world = World(t=2)
    world.subscribe("new")
    old = world.join(instance="i").answer.member_id
    again = world.join(instance="i").answer
    assert again.error_code == 0 and again.member_id != old
    assert set(world.groups["g"].members) == {"new", again.member_id}
    assert world.heartbeat(old, 1, instance="i") == e.FencedInstanceId.code
