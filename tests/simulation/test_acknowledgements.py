"""When a producer that waits for acks=all is answered, and with what."""

from ottla.wire import batch as batches
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record
from tests.simulation.cluster_world import BROKERS, World


def a_calm_world():
    world = World(1)
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
