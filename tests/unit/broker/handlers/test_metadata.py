import pytest

from ottla import errors
from ottla.security.operations import CREATE, DESCRIBE
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.broker.handlers.served import Denies, Served


def a_request(*names, create=False):
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def answers(response):
    return {topic.name: (topic.error_code, len(topic.partitions)) for topic in response.topics}


@pytest.fixture
def served():
    served = Served()
    served.create("t", partitions=3)
    return served


def test_a_topic_is_described_with_its_leaders(served):
    response = served.answer(a_request("t"))
    assert answers(response) == {"t": (0, 3)}
    assert {partition.leader_id for topic in response.topics for partition in topic.partitions} == {1}
    assert [broker.node_id for broker in response.brokers] == [1]


def test_a_missing_topic_is_created_where_client_and_settings_want_it(served):
    assert answers(served.answer(a_request("new"))) == {"new": (errors.UnknownTopicOrPartition.code, 0)}
    assert answers(served.answer(a_request("new", create=True))) == {"new": (0, 1)}


def test_nothing_is_created_where_the_settings_forbid_it():
    served = Served(auto_create_topics_enable="false")
    code = errors.UnknownTopicOrPartition.code
    assert answers(served.answer(a_request("new", create=True))) == {"new": (code, 0)}
    assert "new" not in served.broker.image.topics


def test_a_name_that_no_topic_can_have_is_called_so(served):
    assert answers(served.answer(a_request("a/b", create=True))) == {
        "a/b": (errors.InvalidTopicException.code, 0)
    }


def test_whether_a_hidden_topic_exists_is_not_told(served):
    access = Denies(lambda operation, kind, name: operation == DESCRIBE and name in ("t", "nowhere"))
    told = answers(served.answer(a_request("t", "nowhere"), access=access))
    assert told["t"] == told["nowhere"] == (errors.TopicAuthorizationFailed.code, 0)
    everything = MetadataRequest()
    everything.topics = None  # as an argument it would mean the default
    assert answers(served.answer(everything, access=access)) == {}


def test_an_id_that_a_hidden_topic_has_is_refused_without_the_name(served):
    topic_id, nobodys = served.broker.image.topics["t"].topic_id, bytes(15) + b"x"
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=None, topic_id=i) for i in (topic_id, nobodys)]
    )
    access = Denies(lambda operation, kind, name: operation == DESCRIBE)
    told = {
        topic.topic_id: (topic.name, topic.error_code, topic.partitions)
        for topic in served.answer(request, access=access).topics
    }
    assert told == {
        topic_id: (None, errors.TopicAuthorizationFailed.code, []),
        nobodys: (None, errors.UnknownTopicId.code, []),
    }


def test_a_missing_topic_that_the_client_may_not_create_is_refused_only_where_it_would_be_created(served):
    access = Denies(lambda operation, kind, name: operation == CREATE)
    refused = {"new": (errors.TopicAuthorizationFailed.code, 0)}
    missing = {"new": (errors.UnknownTopicOrPartition.code, 0)}
    assert answers(served.answer(a_request("new", create=True), access=access)) == refused
    assert answers(served.answer(a_request("new"), access=access)) == missing
    never = Served(auto_create_topics_enable="false")
    assert answers(never.answer(a_request("new", create=True), access=access)) == missing


def test_a_broker_whose_disk_failed_is_told_as_an_offline_replica(served):
    served.partition("t", 1).go_offline()
    (topic,) = served.answer(a_request("t")).topics
    assert [partition.offline_replicas for partition in topic.partitions] == [[], [1], []]


def test_clients_that_ask_for_everything_at_once_share_a_turn_of_the_loop(served):
    served.create("many", partitions=150)
    calls = [served.call(MetadataRequest(topics=None)) for _ in range(20)]
    assert sum(call.is_over for call in calls) == 2, "these make it full"
    served.time.advance(0)
    assert [answers(call.response)["many"] for call in calls] == [(0, 150)] * 20
