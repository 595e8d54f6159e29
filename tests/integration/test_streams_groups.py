"""Streams groups at a broker: internal topics in the name of the member, and its rights."""

import time

import pytest

from ottla.broker.handlers.streams_groups import PARTITIONS_AT_ONCE, _parts
from ottla.coordination.groups.streams.topology import InternalTopic
from ottla.metadata.topics import PARTITIONS_PER_REQUEST_MAX
from ottla.testing import Broker
from tests.compat.raw import Raw

GROUP, SOURCE, CHANGELOG = "words", "lines", "words-store-changelog"
MISSING_INTERNAL_TOPICS = 3


def joining(replicas=1):
    """A first heartbeat of a member that has a store."""
    changelog = {
        "name": CHANGELOG,
        "replication_factor": replicas,
        "topic_configs": [{"key": "cleanup.policy", "value": "compact"}],
    }
    part = {"subtopology_id": "0", "source_topics": [SOURCE], "state_changelog_topics": [changelog]}
    return {
        "group_id": GROUP,
        "member_id": "a",
        "process_id": "p",
        "rebalance_timeout": 60_000,
        "topology": {"epoch": 0, "subtopologies": [part]},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    }


@pytest.fixture
def broker():
    with Broker(
        security="SASL_PLAINTEXT",
        users={"alice": "x"},
        authorizer=True,
        group_streams_initial_rebalance_delay_ms=0,
        group_streams_assignment_interval_ms=0,
    ) as broker:
        for name in (SOURCE, "__consumer_offsets"):
            broker.create_topic(name, 2)
        yield broker


@pytest.fixture
def ask(broker):
    """A heartbeat of alice."""
    with Raw(broker.bootstrap) as raw:
        raw.call("sasl_handshake", 1, {"mechanism": "PLAIN"})
        raw.call("sasl_authenticate", 2, {"auth_bytes": b"\0alice\0x"})
        yield lambda body: raw.call("streams_group_heartbeat", 0, body)


def allow_reading(broker):
    broker.allow("User:alice", "READ", group=GROUP)
    for name in (SOURCE, CHANGELOG):
        broker.allow("User:alice", "DESCRIBE", topic=name)


def test_a_member_needs_its_group_and_may_see_its_topics(broker, ask):
    assert ask(joining())["error_code"] == "GROUP_AUTHORIZATION_FAILED"
    broker.allow("User:alice", "READ", group=GROUP)
    broker.allow("User:alice", "DESCRIBE", topic=SOURCE)
    assert ask(joining())["error_code"] == "TOPIC_AUTHORIZATION_FAILED"
    broker.allow("User:alice", "DESCRIBE", topic=CHANGELOG)
    assert ask(joining())["error_code"] == "NONE"


def test_internal_topics_are_created_for_members_that_may_create_them(broker, ask):
    allow_reading(broker)
    (status,) = ask(joining())["status"]
    assert status == {
        "status_code": MISSING_INTERNAL_TOPICS,
        "status_detail": f"Internal topics are missing: {CHANGELOG}; Unauthorized to CREATE on topics {CHANGELOG}.",
    }
    assert CHANGELOG not in broker.topics()
    broker.allow("User:alice", "CREATE", topic=CHANGELOG)
    (status,) = ask(joining())["status"]
    assert status["status_detail"] == f"Internal topics are missing: {CHANGELOG}"
    deadline = time.monotonic() + 60
    while (answer := ask(joining()))["status"]:
        assert time.monotonic() < deadline
    assert answer["active_tasks"] == [{"subtopology_id": "0", "partitions": [0, 1]}]


def test_a_member_hears_why_its_topics_cannot_be_created(broker, ask):
    allow_reading(broker)
    broker.allow("User:alice", "CREATE", topic=CHANGELOG)
    (status,) = ask(joining(replicas=3))["status"]
    assert status["status_code"] == MISSING_INTERNAL_TOPICS
    assert f"; Creation failed: {CHANGELOG} (" in status["status_detail"]


def test_very_many_internal_topics_are_created_a_few_at_a_time():
    """One heartbeat may ask for twenty thousand partitions: in one step they took seconds of everybody's time."""
    topics = tuple(InternalTopic(f"t{number}", 90, 1) for number in range(200))
    parts = list(_parts(topics))
    assert max(sum(topic.partitions for topic in part) for part in parts) <= PARTITIONS_AT_ONCE
    wanted = [topic for part in parts for topic in part]
    assert wanted == list(topics[: len(wanted)])
    assert sum(topic.partitions for topic in wanted) <= PARTITIONS_PER_REQUEST_MAX
    assert list(_parts((InternalTopic("t", 50_000, 1),))) == [[InternalTopic("t", 50_000, 1)]]
