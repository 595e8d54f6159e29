import errno

import pytest

from ottla import errors
from ottla.security.operations import CLUSTER, DELETE, DESCRIBE
from ottla.storage.checkpoints import LOG_START_OFFSETS
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.unit.broker.handlers.served import Denies, Served, a_batch

REFUSED = errors.TopicAuthorizationFailed.code


@pytest.fixture
def served():
    served = Served()
    served.create("t")
    return served


def without(*operations):
    return Denies(lambda operation, kind, name: kind == CLUSTER or operation in operations)


def deleted(served, access, **topic):
    state = DeleteTopicState(**topic)
    (result,) = served.permitted(DeleteTopicsRequest(topics=[state]), access).responses
    return result.name, result.error_code


def test_a_topic_named_by_its_id_is_refused_with_its_name_only_to_those_who_may_see_it(served):
    topic_id = served.broker.image.topics["t"].topic_id
    assert deleted(served, without(DELETE), name=None, topic_id=topic_id) == ("t", REFUSED)
    assert deleted(served, without(DELETE, DESCRIBE), name=None, topic_id=topic_id) == (None, REFUSED)
    assert deleted(served, without(), name=None, topic_id=topic_id) == ("t", 0)


def test_an_id_that_no_topic_has_is_unknown_to_everybody(served):
    told = deleted(served, without(DELETE, DESCRIBE), name=None, topic_id=bytes(15) + b"x")
    assert told == (None, errors.UnknownTopicId.code)


def test_whether_a_name_is_a_topics_is_told_only_to_those_who_may_see_it(served):
    for name in ("t", "nowhere"):
        assert deleted(served, without(DESCRIBE), name=name) == (name, REFUSED)
    assert deleted(served, without(DELETE), name="t") == ("t", REFUSED)
    assert deleted(served, without(DELETE), name="nowhere") == (
        "nowhere",
        errors.UnknownTopicOrPartition.code,
    )


def test_a_name_and_an_id_at_once_are_an_invalid_request_whatever_the_rights(served):
    both = {"name": "t", "topic_id": served.broker.image.topics["t"].topic_id}
    assert deleted(served, without(DELETE, DESCRIBE), **both) == ("t", errors.InvalidRequest.code)


def test_a_topic_that_is_created_again_has_no_gate_of_the_deleted_one(served):
    """Both begin at leader epoch 0, so the second one got the gate of the first."""
    gates = served.broker.transactions.gates
    gate, _ = gates.of(("t", 0), 7)
    assert gates.of(("t", 0), 7)[0] is gate
    assert deleted(served, without(), name="t") == ("t", 0)
    assert not gates._gates
    served.create("t")
    assert gates.of(("t", 0), 7)[0] is not gate


def records_deleted(served, topic):
    wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
    (answered,) = served.answer(DeleteRecordsRequest(topics=[wanted], timeout_ms=1000)).topics
    (result,) = answered.partitions
    return result.error_code, result.low_watermark


@pytest.mark.parametrize("topic", ["__share_group_state", "__consumer_offsets", "__transaction_state"])
def test_the_records_of_coordinators_are_deleted_by_them_alone(served, topic):
    served.create(topic)
    partition = served.partition(topic)
    partition.append(a_batch(b"a", b"b"), acks=-1, now_ms=0)
    assert records_deleted(served, topic) == (errors.InvalidTopicException.code, -1)
    assert partition.log.log_start_offset == 0


def test_that_records_are_deleted_is_not_told_while_the_disk_is_too_full_to_keep_it(served):
    """After a kill they would be back."""
    log = served.partition("t").log
    served.partition("t").append(a_batch(b"a", b"b"), acks=-1, now_ms=0)
    log.disk.fail("write_whole", OSError(errno.ENOSPC, "full"), path_part=LOG_START_OFFSETS)
    assert records_deleted(served, "t") == (errors.KafkaStorageError.code, -1)
    log.disk.clear_faults()
    assert records_deleted(served, "t") == (0, 2)
