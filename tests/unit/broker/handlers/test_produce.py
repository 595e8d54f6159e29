import pytest

from ottla import errors
from ottla.broker.requests.refusals import CloseConnection
from ottla.config.log import LogConfig
from ottla.wire import batch as batches
from ottla.wire import compression
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record
from tests.unit.broker.handlers.served import Served, a_batch

ALL, LEADER, NONE = -1, 1, 0
BY_NAME = 12


def a_produce(*partitions, acks=ALL, topic="t", timeout_ms=1000):
    data = [PartitionProduceData(index=index, records=records) for index, records in partitions]
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def answers(response):
    (topic,) = response.responses
    return [(each.index, each.error_code, each.base_offset) for each in topic.partition_responses]


@pytest.fixture
def served():
    served = Served()
    served.create("t", partitions=2)
    return served


def test_the_answer_waits_for_the_replicas_and_the_next_request_does_not(served):
    partition = served.give_follower("t")
    call = served.call(a_produce((0, a_batch(b"a", b"b"))), BY_NAME)
    assert (call.is_over, served.released) == (False, [True])
    partition.on_follower_fetch(2, 2, 0, -1, served.time.now_ms())
    assert answers(call.response) == [(0, 0, 0)]


def test_a_record_that_is_not_replicated_in_time_stays_in_the_log(served):
    partition = served.give_follower("t")
    response = served.answer(a_produce((0, a_batch(b"a")), timeout_ms=50), BY_NAME)
    assert answers(response) == [(0, errors.RequestTimedOut.code, -1)]
    assert partition.log.end_offset == 1


def test_a_leader_that_is_replaced_while_the_request_waits_does_not_acknowledge(served):
    partition = served.give_follower("t")
    call = served.call(a_produce((0, a_batch(b"a"))), BY_NAME)
    partition.on_state(partition.state._replace(leader=2, leader_epoch=1, partition_epoch=9))
    assert answers(call.response) == [(0, errors.NotLeaderOrFollower.code, -1)]


def test_acks_1_does_not_wait_for_replicas(served):
    served.give_follower("t")
    assert answers(served.answer(a_produce((0, a_batch(b"a")), acks=LEADER), BY_NAME)) == [(0, 0, 0)]


def test_a_partition_that_fails_leaves_the_others_their_answers(served):
    broken = bytearray(a_batch(b"a"))
    broken[-1] ^= 1
    response = served.answer(a_produce((0, bytes(broken)), (1, a_batch(b"b")), (7, a_batch(b"c"))), BY_NAME)
    assert answers(response) == [
        (0, errors.CorruptMessage.code, -1),
        (1, 0, 0),
        (7, errors.UnknownTopicOrPartition.code, -1),
    ]


def test_an_error_of_acks_0_closes_the_connection(served):
    call = served.call(a_produce((7, a_batch(b"a")), acks=NONE), BY_NAME)
    assert isinstance(call.error, CloseConnection)


def test_a_partition_named_twice_is_refused_and_nothing_is_written(served):
    response = served.answer(a_produce((0, a_batch(b"a")), (0, a_batch(b"b"))), BY_NAME)
    assert answers(response) == [(0, errors.InvalidRequest.code, -1)] * 2
    assert served.partition("t").log.end_offset == 0


def test_internal_topics_are_written_by_coordinators_and_the_admin_client_alone(served):
    served.create("__consumer_offsets")
    request = a_produce((0, a_batch(b"a")), topic="__consumer_offsets")
    assert answers(served.answer(request, BY_NAME)) == [(0, errors.InvalidTopicException.code, -1)]
    request = a_produce((0, a_batch(b"a")), topic="__consumer_offsets")
    assert answers(served.answer(request, BY_NAME, client_id="__admin_client"))[0][1] == 0


@pytest.mark.parametrize("codec", [compression.NONE, compression.GZIP])
def test_much_that_is_compressed_again_is_compressed_in_a_thread(served, codec):
    """On the loop a megabyte would take half a second, with zstd at its hardest."""
    log = served.partition("t").log
    log.reconfigure(LogConfig(compression_type="zstd", compression_zstd_level=22))
    served.process.jobs.at_once = False
    little, much = (batches.build([Record(0, 0, None, b"v" * size)], codec=codec) for size in (1000, 100_000))
    assert served.call(a_produce((0, little)), BY_NAME).is_over
    call = served.call(a_produce((0, much)), BY_NAME)
    assert not call.is_over
    assert answers(served.finish(call)) == [(0, 0, 1)]
    stored = log.read(0, max_bytes=1 << 20, up_to=2).data
    assert {header.codec for _, header in batches.headers(stored)} == {compression.ZSTD}


def test_much_that_is_compressed_as_the_topic_wants_it_is_not_compressed_again(served):
    log = served.partition("t").log
    log.reconfigure(LogConfig(compression_type="gzip"))
    served.process.jobs.at_once = False
    batch = batches.build([Record(0, 0, None, b"v" * 100_000)], codec=compression.GZIP)
    assert served.call(a_produce((0, batch)), BY_NAME).is_over
