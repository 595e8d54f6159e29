import pytest

from ottla import errors
from ottla.broker.requests.memory import Plenty
from ottla.config.log import LogConfig
from ottla.security.operations import READ, TOPIC
from ottla.storage.files import TRANSACTION_INDEX
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.unit.broker.handlers.served import Denies, Served, a_batch

BY_NAME = 12
WAIT_MS = 500


def a_fetch(*partitions, min_bytes=1, replica_id=-1, max_wait_ms=WAIT_MS, session_epoch=-1):
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)],
        )
        for topic, offset in partitions
    ]
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        session_epoch=session_epoch,
        topics=topics,
    )


def answers(response):
    return {
        topic.topic: (data.error_code, bytes(data.records or b""))
        for topic in response.responses
        for data in topic.partitions
    }


def append(served, topic, value):
    partition = served.partition(topic)
    partition.append(a_batch(value), acks=1, now_ms=served.time.now_ms())
    return partition


@pytest.fixture
def served():
    served = Served()
    served.create("t")
    served.create("u")
    return served


def test_a_fetch_waits_for_a_record_and_is_answered_with_it(served):
    call = served.call(a_fetch(("t", 0)), BY_NAME)
    assert not call.is_over
    partition = append(served, "t", b"a")
    served.time.advance(0)
    error, records = answers(call.response)["t"]
    assert (error, len(records)) == (0, len(a_batch(b"a")))
    assert len(partition.committed) == 0, "nobody waits any more"


def test_a_fetch_that_waits_in_vain_is_answered_when_its_time_is_up(served):
    call = served.call(a_fetch(("t", 0)), BY_NAME)
    served.time.advance(WAIT_MS - 1)
    assert not call.is_over
    served.time.advance(1)
    assert answers(call.response) == {"t": (0, b"")}


def test_a_request_that_memory_does_not_take_is_answered_at_once(served):
    class Full(Plenty):
        def takes(self, size):
            return False

    assert answers(served.call(a_fetch(("t", 0)), BY_NAME, memory=Full()).response) == {"t": (0, b"")}


def test_a_client_that_leaves_takes_its_fetch_with_it(served):
    call = served.call(a_fetch(("t", 0)), BY_NAME)
    assert len(served.partition("t").committed) == 1
    call.running.cancel()
    assert len(served.partition("t").committed) == 0


def test_consumers_see_what_is_committed_and_followers_all_there_is(served):
    served.give_follower("t")
    append(served, "t", b"a")
    assert answers(served.answer(a_fetch(("t", 0), max_wait_ms=0), BY_NAME)) == {"t": (0, b"")}
    _, records = answers(served.answer(a_fetch(("t", 0), replica_id=2), BY_NAME))["t"]
    assert records


def test_the_offset_of_a_follower_commits_the_record_that_a_consumer_waits_for(served):
    partition = served.give_follower("t")
    append(served, "t", b"a")
    consumer = served.call(a_fetch(("t", 0)), BY_NAME)
    served.call(a_fetch(("t", 1), replica_id=2), BY_NAME)
    served.time.advance(0)
    assert partition.log.high_watermark == 1
    assert answers(consumer.response)["t"][1]


def test_a_follower_that_caught_up_is_proposed_for_the_isr(served):
    wanted = []

    class Keeper:
        def on_wanted(self, partition, isr):
            wanted.append((partition.name, isr))

    partition = served.partition("t")
    partition.on_state(partition.state._replace(replicas=(1, 2)))
    append(served, "t", b"a")
    served.call(a_fetch(("t", 0), replica_id=2), BY_NAME, isr=Keeper())
    assert wanted == []
    served.call(a_fetch(("t", 1), replica_id=2), BY_NAME, isr=Keeper())
    assert wanted == [("t-0", frozenset({1, 2}))]


def test_the_others_are_waited_for_beside_a_topic_that_does_not_exist(served):
    call = served.call(a_fetch(("nowhere", 0), ("t", 0)), BY_NAME)
    assert not call.is_over
    append(served, "t", b"a")
    served.time.advance(0)
    told = answers(call.response)
    assert told["nowhere"] == (errors.UnknownTopicOrPartition.code, b"")
    assert told["t"][1]


def test_what_the_client_may_not_read_is_refused_and_not_read(served):
    append(served, "t", b"secret")
    append(served, "u", b"open")
    access = Denies(lambda operation, kind, name: (operation, kind, name) == (READ, TOPIC, "t"))
    told = answers(served.answer(a_fetch(("t", 0), ("u", 0)), BY_NAME, access=access))
    assert told["t"] == (errors.TopicAuthorizationFailed.code, b"")
    assert told["u"][0] == 0 and told["u"][1]


MUCH = b"x" * 300_000


def test_fetches_that_come_at_once_read_one_step_in_a_turn_of_the_loop(served):
    append(served, "t", MUCH)
    append(served, "u", b"a little")
    large = [served.call(a_fetch(("t", 0)), BY_NAME) for _ in range(20)]
    small = served.call(a_fetch(("u", 0)), BY_NAME)
    assert sum(call.is_over for call in large) == 4, "a step of 1 MB, and what made it full"
    assert small.is_over, "what reads little does not wait"
    served.time.advance(0)
    assert [len(answers(call.response)["t"][1]) > len(MUCH) for call in large] == [True] * 20


def test_a_damaged_transaction_index_fails_its_own_partition_alone(served):
    partition = append(served, "u", b"a")
    log, batch = partition.log, a_batch(b"a")
    log.reconfigure(LogConfig(segment_bytes=len(batch)))
    append(served, "u", b"b")  # closes the first segment
    log.disk.write_whole(log.segments[0].path(TRANSACTION_INDEX), b"damaged")
    append(served, "t", b"c")
    request = a_fetch(("u", 0), ("t", 0))
    request.isolation_level = 1  # read_committed
    found = answers(served.answer(request, BY_NAME))
    assert found["u"] == (errors.UnknownServerError.code, b"")
    assert found["t"][0] == 0 and found["t"][1]
