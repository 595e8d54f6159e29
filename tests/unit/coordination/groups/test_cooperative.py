"""Cooperative rebalances of classic groups: the second one begins without waiting for heartbeats."""

import pytest

from ottla import errors as e
from tests.unit.coordination.groups.coordinator import Call, GroupCoordinator, assignment, subscription

IN_PROGRESS = e.RebalanceInProgress.code


class Joined:
    """One member owns four partitions and leads; another one, with two, and a newcomer have joined beside it."""

    def __init__(self) -> None:
        self.coordinator = GroupCoordinator()
        self.leader = self.enter({"t": [0, 1, 2, 3]})
        self.sync(self.leader, 1, {self.leader: assignment(t=[0, 1, 2, 3])})
        other, joining = self.coordinator.enter(protocols=owning({"t": [4, 5]}))
        self.newcomer, newest = self.coordinator.enter(protocols=owning({}))
        self.other = other
        self.join(self.leader, {"t": [0, 1, 2, 3]})
        assert joining.answer.generation_id == newest.answer.generation_id == 2

    def enter(self, owned: dict[str, list[int]]) -> str:
        member_id, _ = self.coordinator.enter(protocols=owning(owned))
        return member_id

    def join(self, member_id: str, owned: dict[str, list[int]]) -> Call:
        return self.coordinator.join(member_id, protocols=owning(owned))

    def sync(self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None) -> Call:
        return self.coordinator.sync(member_id, generation, assignments)

    def all_sync(self) -> dict[str, Call]:
        """The leader gives up two partitions, which nobody has for now."""
        calls = {each: self.sync(each, 2) for each in (self.other, self.newcomer)}
        assigned = {self.leader: assignment(t=[0, 1]), self.other: assignment(t=[4, 5])}
        return {**calls, self.leader: self.sync(self.leader, 2, assigned)}


def owning(owned: dict[str, list[int]]) -> dict[str, bytes]:
    return {"cooperative-sticky": subscription("t", owned=owned)}


def test_a_member_that_gives_up_partitions_is_answered_at_once_and_the_others_join_with_it():
    joined = Joined()
    synced = joined.all_sync()
    assert synced[joined.leader].answer.assignment == assignment(t=[0, 1])
    assert synced[joined.other].is_waiting and synced[joined.newcomer].is_waiting
    rejoining = joined.join(joined.leader, {"t": [0, 1]})
    assert synced[joined.other].answer.error_code == IN_PROGRESS
    assert synced[joined.newcomer].answer.error_code == IN_PROGRESS
    joined.join(joined.other, {"t": [4, 5]})
    joined.join(joined.newcomer, {})
    assert rejoining.answer.generation_id == 3


def test_the_others_get_their_assignments_soon_if_nobody_joins_again():
    joined = Joined()
    synced = joined.all_sync()
    joined.coordinator.clock.advance(1_500)
    assert synced[joined.other].answer.assignment == assignment(t=[4, 5])
    assert synced[joined.newcomer].answer.assignment == b""
    assert joined.coordinator.heartbeat(joined.other, 2) == e.NONE
    again = joined.sync(joined.other, 2)
    assert again.answer.assignment == assignment(t=[4, 5])


def test_nobody_waits_twice_in_a_row():
    """Assignors of Java clients before 3.3 forget what members of an older generation own: they would never end."""
    joined = Joined()
    joined.all_sync()
    joined.join(joined.leader, {"t": [0, 1]})
    joined.join(joined.other, {"t": [4, 5]})
    joined.join(joined.newcomer, {})
    follower = joined.sync(joined.other, 3)
    joined.sync(joined.leader, 3, {joined.leader: assignment(t=[0]), joined.other: assignment(t=[4, 5])})
    assert follower.answer.assignment == assignment(t=[4, 5])


def test_a_sync_that_comes_late_is_held_too():
    joined = Joined()
    assigned = {joined.leader: assignment(t=[0, 1]), joined.other: assignment(t=[4, 5])}
    joined.sync(joined.leader, 2, assigned)
    late = joined.sync(joined.other, 2)
    assert late.is_waiting
    joined.join(joined.leader, {"t": [0, 1]})
    assert late.answer.error_code == IN_PROGRESS


def test_a_repeated_sync_takes_the_place_of_the_one_that_is_held():
    joined = Joined()
    synced = joined.all_sync()
    repeated = joined.sync(joined.other, 2)
    assert synced[joined.other].answer.error_code == IN_PROGRESS
    joined.coordinator.clock.advance(1_500)
    assert repeated.answer.assignment == assignment(t=[4, 5])


def test_nobody_waits_where_nobody_gives_up_anything():
    joined = Joined()
    follower = joined.sync(joined.other, 2)
    kept = {joined.leader: assignment(t=[0, 1, 2, 3]), joined.other: assignment(t=[4, 5])}
    assert joined.sync(joined.leader, 2, kept).answer.error_code == e.NONE
    assert follower.answer.assignment == assignment(t=[4, 5])


@pytest.mark.parametrize("foreign", [b"", b"\0", b"\0\1\xff\xff\xff\xff", b"of another kind"])
def test_nobody_waits_for_members_whose_bytes_cannot_be_read(foreign: bytes):
    coordinator = GroupCoordinator()
    first, _ = coordinator.enter(protocols={"own": foreign})
    coordinator.sync(first, 1, {})
    second, _ = coordinator.enter(protocols={"own": foreign})
    coordinator.join(first, protocols={"own": foreign})
    follower = coordinator.sync(second, 2)
    coordinator.sync(first, 2, {first: foreign, second: b"b"})
    assert follower.answer.assignment == b"b"


def test_those_that_wait_begin_again_if_the_assignment_cannot_be_written():
    joined = Joined()
    joined.coordinator.strict = False
    joined.coordinator.log.broken = True
    synced = joined.all_sync()
    assert isinstance(synced[joined.leader].answer, e.ProtocolError)
    assert synced[joined.other].is_waiting
    joined.coordinator.log.broken = False
    joined.coordinator.clock.advance(1_500)
    assert synced[joined.other].answer.error_code == IN_PROGRESS
    assert joined.join(joined.other, {"t": [4, 5]}).answer.generation_id == 2
    again = joined.all_sync()
    assert again[joined.leader].answer.assignment == assignment(t=[0, 1])
