import pytest

from ottla import errors
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.unit.broker.handlers.served import Served

VERSION = 3  # before a member needed an id to join


def a_join(group, member_id=""):
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def served_groups(**settings):
    served = Served(group_initial_rebalance_delay_ms="3000", **settings)
    served.answer(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    served.time.advance(1000)
    return served


@pytest.fixture
def served():
    return served_groups()


def test_a_join_is_answered_when_its_group_has_formed(served):
    call = served.call(a_join("g"), VERSION)
    served.time.advance(2999)
    assert not call.is_over
    served.time.advance(1)
    assert (call.response.error_code, call.response.generation_id) == (0, 1)
    assert call.response.leader == call.response.member_id


def test_the_shard_forgets_a_member_whose_connection_closes(served):
    call = served.call(a_join("g"), VERSION)
    waiting = served.broker.groups.shards[0]._shard._waiting
    assert len(waiting) == 1
    call.running.cancel()
    assert not waiting
    served.time.advance(3000)
    assert not call.is_over


def test_a_group_beyond_the_limit_is_refused_and_those_within_go_on():
    served = served_groups(ottla_groups_max="1")
    first = served.call(a_join("g"), VERSION)
    served.time.advance(3000)
    refused = served.call(a_join("another"), VERSION)
    assert isinstance(refused.error, errors.PolicyViolation)
    again = served.call(a_join("g", first.response.member_id), VERSION)
    assert (again.response.error_code, served.broker.groups.count()) == (0, 1)


def test_a_broker_that_lost_the_shard_sends_members_to_look_for_the_coordinator(served):
    waiting = served.call(a_join("g"), VERSION)
    partition = served.partition("__consumer_offsets")
    partition.on_state(partition.state._replace(leader=2, leader_epoch=1, partition_epoch=9))
    served.broker.groups.on_partition(0, partition)
    assert isinstance(waiting.error, errors.NotCoordinator)
    assert isinstance(served.call(a_join("g"), VERSION).error, errors.NotCoordinator)


def test_a_shard_that_replays_its_log_says_so(served):
    served.broker.groups.shards[0].is_loaded = False
    assert isinstance(served.call(a_join("g"), VERSION).error, errors.CoordinatorLoadInProgress)


def test_the_answer_to_a_goodbye_is_held_back_and_the_next_request_is_not(served):
    joined = served.call(a_join("g"), VERSION)
    served.time.advance(3000)
    member_id = joined.response.member_id
    call = served.call(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)]))
    assert (call.is_over, served.released) == (False, [True])
    served.time.advance(10)
    assert call.response.error_code == 0
