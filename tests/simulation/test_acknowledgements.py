"""When a producer that waits for acks=all is answered, and with what."""

import pytest

from ottla import errors
from ottla.wire import batch as batches
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record
from tests.simulation.cluster_world import BROKERS, ClusterWorld


def a_calm_world():
    world = ClusterWorld(1)
    world.calm = True
    for broker_id in BROKERS:
        world.start(broker_id)
    world.until(world._created, 10_000)
    world.until(world._is_whole, 10_000)
    return world


def a_produce_request():
    data = PartitionProduceData(index=0, records=batches.build([Record(0, 0, None, b"1")]))
    return ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )


def test_deleting_records_waits_for_replicas_that_live_and_no_longer():
    world = a_calm_world()
    state = world.checks.image.partition("t", 0)
    leader = world.members[state.leader]
    leader.serve(a_produce_request(), 9, lambda answer: None)
    here = leader.broker.replicas.partitions["t", 0]
    world.until(lambda: here.log.high_watermark == 1, 1000)
    silent, other = [each for each in BROKERS if each != state.leader]
    world.blocked = {frozenset((state.leader, silent))}
    answers = []
    partition = DeleteRecordsPartition(partition_index=0, offset=1)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[partition])], timeout_ms=20_000
    )
    leader.serve(request, 2, answers.append)
    world.until(lambda: here.followers[other].log_start_offset == 1, 2000)
    world.go_on(200)
    assert not answers
    world.members[silent].kill()
    world.members.pop(silent).log.expire()
    world.until(lambda: answers, 2000)
    (told,) = answers[0].topics[0].partitions
    assert (told.error_code, told.low_watermark) == (0, 1)


def test_a_producer_waits_on_when_its_leader_goes_on_under_a_new_epoch():
    """Refused, its batch would be in the log all the same: the client would not know where."""
    world = a_calm_world()
    state = world.checks.image.partition("t", 0)
    leader = world.members[state.leader]
    followers = [each for each in BROKERS if each != state.leader]
    world.blocked = {frozenset((state.leader, each)) for each in followers}
    answers = []
    leader.serve(a_produce_request(), 9, answers.append)
    stay = (state.leader, followers[0])
    partition = ReassignablePartition(partition_index=0, replicas=list(stay))
    move = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[partition])], timeout_ms=5000
    )
    controller = next(each for each in world.members.values() if each.controller.is_active)
    controller.serve(move, 0, lambda answer: None)
    here = leader.broker.replicas.partitions["t", 0]
    world.until(lambda: here.state.replicas == stay, 2000)
    assert here.state.leader_epoch == state.leader_epoch + 1
    assert not answers
    world.blocked = set()
    world.until(lambda: answers, 3000)
    (told,) = answers[0].responses[0].partition_responses
    assert (told.error_code, told.base_offset) == (0, 0)


@pytest.mark.parametrize(
    ("ahead", "error"), [(-1, errors.FencedLeaderEpoch), (1, errors.UnknownLeaderEpoch)], ids=["old", "new"]
)
def test_a_fetch_of_another_epoch_does_not_tell_what_a_follower_has(ahead, error):
    """It may have been cut since; counted, records would be acknowledged that it has not."""
    world = a_calm_world()
    world._move_leader_of(0)
    world.until(lambda: world.checks.image.partition("t", 0).leader_epoch == 1, 2000)
    world.until(world._is_whole, 5000)
    state = world.checks.image.partition("t", 0)
    leader = world.members[state.leader]
    follower = next(each for each in BROKERS if each != state.leader)
    world.blocked = {frozenset((state.leader, each)) for each in BROKERS if each != state.leader}
    world.go_on(1000)  # what was under way has arrived
    here = leader.broker.replicas.partitions["t", 0]
    here.append(batches.build([Record(0, 0, None, b"1")]), acks=1, now_ms=world.time.now_ms())
    believed = here.followers[follower].end_offset
    wanted = FetchPartition(
        partition=0, current_leader_epoch=state.leader_epoch + ahead, fetch_offset=1, last_fetched_epoch=1
    )
    request = FetchRequest(
        replica_state=ReplicaState(
            replica_id=follower, replica_epoch=world.checks.image.brokers[follower].epoch
        ),
        max_wait_ms=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic_id=state.topic_id, partitions=[wanted])],
    )
    answers = []
    leader.serve(request, 17, answers.append)
    world.until(lambda: answers, 1000)
    assert answers[0].responses[0].partitions[0].error_code == error.code
    assert here.followers[follower].end_offset == believed < 1


def test_a_follower_that_lost_its_disk_does_not_come_into_the_isr_by_what_it_had_before():
    """The controller did not answer; asked again, it must not take the follower's next life for the last one."""
    world = a_calm_world()
    state = world.checks.image.partition("t", 0)
    follower = next(each for each in BROKERS if each != state.leader)
    leader = world.members[state.leader]
    here = leader.broker.replicas.partitions["t", 0]

    def power_fails():
        member = world.members.pop(follower)
        member.kill()
        world.disks[follower].crash(lose_unsynced=True)
        member.log.expire()
        world.until(lambda: world.checks.image.brokers[follower].fenced, 5000)

    asked = []
    answer_to = leader.broker.isr._channel.ask
    leader.broker.isr._channel.ask = lambda request, version, answer, lane: asked.append(answer)
    power_fails()
    leader.serve(a_produce_request(), 9, lambda answer: None)
    world.until(lambda: here.log.high_watermark == 1, 5000)
    world.start(follower)
    world.until(lambda: here.proposed_isr == set(BROKERS), 5000)
    epoch = here.followers[follower].broker_epoch
    power_fails()
    world.start(follower)
    world.until(lambda: here.followers[follower].broker_epoch > epoch, 5000)
    assert here.followers[follower].end_offset == 0
    world.members[follower].pause()
    leader.broker.isr._channel.ask = answer_to
    asked[0](errors.NetworkException("silence"))
    world.until(lambda: here.proposed_isr is None, 2000)
    assert follower not in world.checks.image.partition("t", 0).isr
    world.members[follower].resume()
    world.until(world._is_whole, 10_000)
