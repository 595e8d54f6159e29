"""Live groups between the two protocols, and classic members inside consumer groups."""

import pytest

from ottla import errors as e
from ottla.coordination.groups.settings import GroupSettings
from ottla.coordination.groups.subscription import parse_assignment
from tests.unit.coordination.groups.coordinator import (
    GroupCoordinator,
    assignment,
    partitions_of,
    subscription,
)


def classic_member(coordinator: GroupCoordinator, **options) -> str:
    """Alone in a stable classic group, with all of `t`."""
    member, joined = coordinator.enter(**options)
    partitions = list(range(coordinator.topics.partition_count("t")))
    coordinator.sync(member, joined.answer.generation_id, {member: assignment(t=partitions)})
    return member


def rejoin(coordinator: GroupCoordinator, member: str, owned: list[int], generation: int, version: int = 2):
    """As a cooperative consumer does: it says what it has."""
    wants = subscription("t", version=version, owned={"t": owned}, generation=generation)
    return coordinator.join(member, protocols={"range": wants}).answer


def test_a_member_of_the_new_protocol_upgrades_a_live_group():
    coordinator = GroupCoordinator(t=4)
    old = classic_member(coordinator)
    answer = coordinator.subscribe("new")
    assert (answer.error_code, partitions_of(answer)) == (0, set())  # the old one has them all still
    group = coordinator.groups["g"]
    assert set(group.members) == {old, "new"}
    assert group.members[old].assigned_partitions == coordinator.topics.partitions("t")
    assert coordinator.replica().state.groups["g"] == group


def test_classic_members_give_up_and_go_on_after_an_upgrade():
    coordinator = GroupCoordinator(t=4)
    old = classic_member(coordinator)
    epoch = coordinator.subscribe("new").member_epoch
    assert coordinator.heartbeat(old, 1) == e.RebalanceInProgress.code
    joined = rejoin(coordinator, old, [0, 1, 2, 3], 1)
    assert joined.error_code == 0 and joined.generation_id == 1  # until it has given up
    kept = parse_assignment(coordinator.sync(old, 1).answer.assignment)["t"]
    assert len(kept) == 2
    assert coordinator.heartbeat(old, 1) == e.RebalanceInProgress.code
    assert rejoin(coordinator, old, kept, 1).generation_id == epoch
    assert parse_assignment(coordinator.sync(old, epoch).answer.assignment)["t"] == kept
    assert coordinator.heartbeat(old, epoch) == 0
    others = partitions_of(coordinator.beat("new", epoch))
    assert {number for _, number in others} == {0, 1, 2, 3} - set(kept)
    assert coordinator.groups["g"].state == "Stable"


def test_an_eager_member_gives_up_everything_by_joining():
    coordinator = GroupCoordinator(t=2)
    old = classic_member(coordinator)
    epoch = coordinator.subscribe("new").member_epoch
    joined = coordinator.join(old).answer
    assert joined.generation_id == epoch
    assert len(parse_assignment(coordinator.sync(old, epoch).answer.assignment)["t"]) == 1
    assert len(partitions_of(coordinator.beat("new", epoch))) == 1


def test_whoever_waits_in_the_old_protocol_is_told_to_join_again():
    coordinator = GroupCoordinator(t=2)
    classic_member(coordinator)
    _, waiting = coordinator.enter()
    assert waiting.is_waiting
    coordinator.subscribe("new")
    assert waiting.answer.error_code == e.RebalanceInProgress.code


def test_a_classic_member_joins_a_consumer_group():
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("new")
    assert coordinator.join().answer.error_code == e.MemberIdRequired.code
    old, joined = coordinator.enter()
    assert joined.answer.error_code == 0
    assert coordinator.sync(old, joined.answer.generation_id).answer.error_code == 0
    assert coordinator.groups["g"].members[old].is_classic


def test_a_classic_member_that_never_syncs_is_out():
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("new")
    old, _ = coordinator.enter(rebalance_ms=20_000, session_ms=1_000_000)
    coordinator.clock.advance(19_999)
    assert old in coordinator.groups["g"].members
    coordinator.clock.advance(1)
    assert old not in coordinator.groups["g"].members


def test_a_classic_member_that_does_not_follow_the_hint_is_out():
    coordinator = GroupCoordinator(t=2)
    old = classic_member(coordinator, rebalance_ms=20_000)
    coordinator.subscribe("new")
    for _ in range(4):
        assert coordinator.heartbeat(old, 1) == e.RebalanceInProgress.code
        coordinator.beat("new", coordinator.groups["g"].members["new"].epoch)
        coordinator.clock.advance(5_000)
    assert old not in coordinator.groups["g"].members


def test_a_silent_classic_member_is_out_after_its_own_session():
    coordinator = GroupCoordinator(t=2)
    old = classic_member(coordinator, session_ms=8_000)
    coordinator.subscribe("new")
    coordinator.clock.advance(8_000)
    assert list(coordinator.groups["g"].members) == ["new"]
    assert coordinator.heartbeat(old, 1) == e.UnknownMemberId.code


def test_a_classic_member_that_gave_up_in_time_stays_after_a_restart():
    coordinator = GroupCoordinator(t=2)
    old = classic_member(coordinator, rebalance_ms=20_000)
    epoch = coordinator.subscribe("new").member_epoch
    rejoin(coordinator, old, [0, 1], 1)
    kept = parse_assignment(coordinator.sync(old, 1).answer.assignment)["t"]
    coordinator.restart()
    assert rejoin(coordinator, old, kept, 1).generation_id == epoch
    coordinator.sync(old, epoch)
    for _ in range(30):
        coordinator.clock.advance(3_000)
        assert coordinator.heartbeat(old, epoch) == 0
        coordinator.beat("new", epoch)
    assert set(coordinator.groups["g"].members) == {old, "new"}


@pytest.mark.parametrize("way", ["leave", "session"])
def test_the_last_member_of_the_new_protocol_takes_the_group_back(way):
    coordinator = GroupCoordinator(t=2)
    old = classic_member(coordinator, session_ms=100_000)
    epoch = coordinator.subscribe("new").member_epoch
    coordinator.join(old, session_ms=100_000)
    coordinator.sync(old, epoch)
    if way == "leave":
        assert coordinator.beat("new", -1).member_epoch == -1
    coordinator.clock.advance(45_000 if way == "session" else 0)
    group = coordinator.groups["g"]
    assert group.state.value == "PreparingRebalance"
    assert coordinator.heartbeat(old, epoch) == e.RebalanceInProgress.code
    joined = coordinator.join(old).answer
    assert (joined.generation_id, joined.leader) == (epoch + 1, old)
    coordinator.sync(old, epoch + 1, {old: b"all"})
    replayed = coordinator.replica().state.groups["g"]
    assert (replayed.generation, list(replayed.members)) == (epoch + 1, [old])  # type: ignore[union-attr]


def test_a_crash_right_after_the_way_back_leaves_a_group_that_works():
    coordinator = GroupCoordinator(t=2)
    old = classic_member(coordinator)
    epoch = coordinator.subscribe("new").member_epoch
    coordinator.join(old)
    coordinator.sync(old, epoch)
    coordinator.beat("new", -1)
    coordinator.restart()
    assert coordinator.heartbeat(old, epoch) == 0
    assert coordinator.join(old).answer.generation_id == epoch + 1


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_policy_can_forbid_the_upgrade(policy):
    coordinator = GroupCoordinator(GroupSettings(group_consumer_migration_policy=policy), t=2)
    old = classic_member(coordinator)
    assert coordinator.subscribe("new").error_code == e.GroupIdNotFound.code
    assert coordinator.heartbeat(old, 1) == 0


def test_groups_of_other_protocol_types_are_not_upgraded():
    coordinator = GroupCoordinator(t=2)
    (worker,) = coordinator.stable_group(1, protocol_type="connect", protocols={"default": b""})
    assert coordinator.subscribe("new").error_code == e.GroupIdNotFound.code
    assert coordinator.heartbeat(worker, 1) == 0


def test_a_subscription_nobody_can_read_is_not_upgraded():
    coordinator = GroupCoordinator(t=2)
    (member,) = coordinator.stable_group(1, protocols={"range": b"\xff"})
    assert coordinator.subscribe("new").error_code == e.GroupIdNotFound.code
    assert coordinator.heartbeat(member, 1) == 0


def test_an_empty_group_changes_its_protocol_without_ado():
    coordinator = GroupCoordinator(t=2)
    coordinator.commit(5)
    (member,) = coordinator.stable_group(1)
    coordinator.leave(member)
    assert partitions_of(coordinator.subscribe("new")) == coordinator.topics.partitions("t")
    assert coordinator.committed() == 5
    coordinator.beat("new", -1)
    back = coordinator.join(version=3).answer
    assert (back.error_code, back.generation_id) == (0, 1)
    coordinator.sync(back.member_id, 1, {})
    assert coordinator.committed() == 5
    assert list(coordinator.replica().state.groups["g"].members) == [back.member_id]


def an_empty_consumer_group_whose_classic_successor_could_not_be_written() -> GroupCoordinator:
    coordinator = GroupCoordinator(GroupSettings(group_initial_rebalance_delay_ms=3_000), t=2)
    coordinator.subscribe("new")
    coordinator.beat("new", -1)
    coordinator.log.broken = True
    with pytest.raises(e.CoordinatorNotAvailable):
        coordinator.join(version=3)
    coordinator.log.broken = False
    return coordinator


def delete_group(coordinator: GroupCoordinator) -> None:
    (result,) = coordinator.ask(lambda token, now: coordinator.table.on_delete_groups(["g"], token, now))
    assert result.error_code == 0


@pytest.mark.parametrize("way", ["deleted", "expired"])
def test_a_classic_group_that_could_not_be_written_does_not_return_when_its_predecessor_goes(way):
    coordinator = an_empty_consumer_group_whose_classic_successor_could_not_be_written()
    if way == "deleted":
        delete_group(coordinator)
    else:
        coordinator.clock.advance(3_600_000)
    assert "g" not in coordinator.groups
    joined = coordinator.join(version=3)
    coordinator.clock.advance(3_000)
    assert (joined.answer.error_code, joined.answer.generation_id) == (0, 1)


def test_a_classic_group_that_could_not_be_written_does_not_return_with_a_downgrade():
    coordinator = an_empty_consumer_group_whose_classic_successor_could_not_be_written()
    epoch = coordinator.subscribe("new").member_epoch
    old = coordinator.join(version=3).answer.member_id
    coordinator.beat("new", -1)
    assert list(coordinator.groups["g"].members) == [old]
    assert coordinator.groups["g"].generation > epoch
    assert coordinator.replica().state.groups["g"].members.keys() == {old}


def test_a_classic_group_takes_the_place_of_a_consumer_group_at_the_second_try():
    coordinator = an_empty_consumer_group_whose_classic_successor_could_not_be_written()
    joined = coordinator.join(version=3)
    coordinator.clock.advance(3_000)
    assert list(coordinator.groups["g"].members) == [joined.answer.member_id]


@pytest.mark.parametrize("delay_ms", [0, 3_000])
def test_a_join_whose_group_could_not_be_written_is_answered_at_once(delay_ms):
    coordinator = GroupCoordinator(GroupSettings(group_initial_rebalance_delay_ms=delay_ms), t=2)
    coordinator.strict = False
    coordinator.subscribe("new")
    coordinator.beat("new", -1)
    coordinator.log.broken = True
    assert isinstance(coordinator.join(version=3).answer, e.CoordinatorNotAvailable)


def test_a_refused_classic_join_leaves_an_empty_consumer_group_as_it_was():
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("new")
    coordinator.beat("new", -1)
    coordinator.commit(5)
    group = coordinator.groups["g"]
    assert coordinator.join("nobody").answer.error_code == e.UnknownMemberId.code
    assert coordinator.groups["g"] is group
    assert coordinator.replica().state.groups["g"] == group


def test_classic_members_commit_under_their_epoch():
    coordinator = GroupCoordinator(t=2)
    old = classic_member(coordinator)
    coordinator.subscribe("new")
    assert coordinator.commit(3, member_id=old, generation=1, version=8) == 0
    assert coordinator.commit(3, member_id=old, generation=9, version=8) == e.IllegalGeneration.code


def test_requests_of_classic_members_are_checked_in_a_consumer_group():
    coordinator = GroupCoordinator(t=2)
    old = classic_member(coordinator)
    coordinator.subscribe("new")
    assert coordinator.heartbeat("nobody", 1) == e.UnknownMemberId.code
    assert coordinator.heartbeat(old, 7) == e.IllegalGeneration.code
    assert coordinator.heartbeat("new", 2) == e.UnknownMemberId.code
    assert coordinator.sync(old, 7).answer.error_code == e.IllegalGeneration.code
    assert coordinator.sync(old, 1).answer.error_code == e.RebalanceInProgress.code
    assert coordinator.join(protocols={"x": b""}).answer.error_code == e.InconsistentGroupProtocol.code
    assert coordinator.join(protocol_type="connect").answer.error_code == e.InconsistentGroupProtocol.code
    assert (
        coordinator.join("x", protocols={"range": b""}).answer.error_code == e.InconsistentGroupProtocol.code
    )


def test_classic_members_leave_a_consumer_group():
    coordinator = GroupCoordinator(t=2)
    old = classic_member(coordinator)
    coordinator.subscribe("new")
    codes = [each.error_code for each in coordinator.leave(old, "nobody").members]
    assert codes == [0, e.UnknownMemberId.code]
    assert list(coordinator.groups["g"].members) == ["new"]


def test_a_static_member_moves_to_the_new_protocol_and_keeps_its_place():
    coordinator = GroupCoordinator(t=2)
    old = coordinator.join(instance="i").answer.member_id
    coordinator.sync(old, 1, {old: assignment(t=[0, 1])}, instance="i")
    answer = coordinator.subscribe("new", instance="i")
    assert (answer.error_code, partitions_of(answer)) == (0, coordinator.topics.partitions("t"))
    assert list(coordinator.groups["g"].members) == ["new"]
    assert coordinator.heartbeat(old, 1, instance="i") == e.FencedInstanceId.code


def test_a_restarted_static_classic_member_takes_its_place_in_a_consumer_group():
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("new")
    old = coordinator.join(instance="i").answer.member_id
    again = coordinator.join(instance="i").answer
    assert again.error_code == 0 and again.member_id != old
    assert set(coordinator.groups["g"].members) == {"new", again.member_id}
    assert coordinator.heartbeat(old, 1, instance="i") == e.FencedInstanceId.code


@pytest.mark.parametrize(
    ("options", "prefix"),
    [
        ({"client": "c" * 32_767}, "c" * 255),
        ({"client": "c" * 32_767, "version": 3}, "c" * 255),
        ({"instance": "i" * 32_767}, "i" * 255),
    ],
)
def test_the_id_of_a_classic_member_in_a_consumer_group_is_cut_to_a_bounded_length(options, prefix):
    """A longer one fits neither into the answer nor into the group's records."""
    coordinator = GroupCoordinator(t=2)
    coordinator.subscribe("new")
    member_id = coordinator.join(**options).answer.member_id
    assert member_id.rpartition("-")[0] == prefix
