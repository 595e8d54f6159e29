import pytest

from ottla import errors
from ottla.security.operations import DESCRIBE
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.broker.handlers.served import Denies, Served

HIDDEN = Denies(lambda operation, kind, name: operation == DESCRIBE and name == "t")


@pytest.fixture
def served():
    """A share group that has begun with the topic t."""
    served = Served()
    served.create("t")
    served.answer(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    joining = ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"]
    )
    served.answer(joining)
    while not described(served, None).topics:
        assert served.time.next_event(), "the group does not begin"
    return served


def described(served, topics, **ports):
    asked = DescribeShareGroupOffsetsRequestGroup(group_id="g")
    asked.topics = topics
    (group,) = served.answer(DescribeShareGroupOffsetsRequest(groups=[asked]), **ports).groups
    assert not group.error_code, group
    return group


def test_offsets_of_all_topics_leave_out_those_that_the_client_may_not_see(served):
    assert [topic.topic_name for topic in described(served, None).topics] == ["t"]
    assert described(served, None, access=HIDDEN).topics == []


def test_a_topic_that_the_client_may_not_see_is_refused_without_its_id(served):
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])]
    (seen,) = described(served, topics).topics
    (hidden,) = described(served, topics, access=HIDDEN).topics
    assert seen.topic_id == served.broker.image.topics["t"].topic_id
    assert hidden.topic_id == bytes(16)
    assert [part.error_code for part in hidden.partitions] == [errors.TopicAuthorizationFailed.code]
