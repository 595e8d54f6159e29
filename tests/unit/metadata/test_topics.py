"""Codes and messages are those of Apache Kafka 4.3.1."""

import pytest

from ottla import errors
from ottla.metadata import topics
from ottla.metadata.topics import NO_ID
from ottla.wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic
from ottla.wire.messages.delete_topics import DeleteTopicState

from .cluster import Cluster, topic


def outcome(results):
    return [(each.name, each.error.code if each.error else 0) for each in results]


def more(name="t", count=2, assignments=None):
    if assignments is not None:
        assignments = [CreatePartitionsAssignment(broker_ids=list(each)) for each in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def test_a_topic_without_numbers_gets_the_brokers_defaults():
    cluster = Cluster(1, 2, config={"num.partitions": "3", "default.replication.factor": "2"})
    (made,) = cluster.create(topic())
    assert (made.error, made.partitions, made.replication_factor) == (None, 3, 2)
    found = cluster.image.topics_by_id[made.topic_id]
    assert (found.name, len(found.partitions)) == ("t", 3)
    assert all(each.isr == each.replicas and each.leader == each.replicas[0] for each in found.partitions)


def test_a_single_broker_is_the_only_replica():
    cluster = Cluster(1)
    cluster.create(topic(partitions=2))
    assert [each.replicas for each in cluster.image.partitions()] == [(1,), (1,)]


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        (
            topic(""),
            errors.InvalidTopicException,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (topic("."), errors.InvalidTopicException, "Topic name is invalid: '.' is not allowed"),
        (topic(".."), errors.InvalidTopicException, "Topic name is invalid: '..' is not allowed"),
        (
            topic("a b"),
            errors.InvalidTopicException,
            "Topic name is invalid: 'a b' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'",
        ),
        (
            topic("a" * 250),
            errors.InvalidTopicException,
            f"Topic name is invalid: the length of '{'a' * 250}' is longer than the max allowed length 249",
        ),
        (topic("have"), errors.TopicAlreadyExists, "Topic 'have' already exists."),
        (
            topic("some_where"),
            errors.InvalidTopicException,
            "Topic 'some_where' collides with existing topic: some.where",
        ),
        (
            topic(partitions=0),
            errors.InvalidPartitions,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            topic(replicas=0),
            errors.InvalidReplicationFactor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            topic(replicas=3),
            errors.InvalidReplicationFactor,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be "
            "reached because only 2 broker(s) are registered.",
        ),
        (
            topic(partitions=1, assignments=[(0, [1])]),
            errors.InvalidRequest,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            topic(replicas=1, assignments=[(0, [1])]),
            errors.InvalidRequest,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            topic(assignments=[(0, [1]), (2, [1])]),
            errors.InvalidReplicaAssignment,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            topic(assignments=[(0, [1]), (0, [1])]),
            errors.InvalidReplicaAssignment,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            topic(assignments=[(0, [7])]),
            errors.InvalidReplicaAssignment,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (
            topic(assignments=[(0, [])]),
            errors.InvalidReplicaAssignment,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            topic(assignments=[(0, [1, 1])]),
            errors.InvalidReplicaAssignment,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (topic(nope="1"), errors.InvalidConfig, "Unknown topic config name: nope"),
        (
            topic(retention_ms=None),
            errors.InvalidConfig,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            topic(cleanup_policy="compact," * 5000 + "delete"),
            errors.InvalidConfig,
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        ),
        (
            topic(partitions=10_001),
            errors.PolicyViolation,
            "Excessively large number of partitions per request.",
        ),
        (
            topic("__cluster_metadata"),
            errors.InvalidRequest,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
    ],
)
def test_what_cannot_be_made_is_refused_in_kafkas_words(wanted, error, message):
    cluster = Cluster(1, 2)
    cluster.create(topic("have"), topic("some.where"))
    before = list(cluster.written)
    (result,) = cluster.create(wanted)
    assert (type(result.error), result.error.message) == (error, message)
    assert cluster.written == before


def test_one_bad_topic_does_not_hold_up_the_others():
    cluster = Cluster(1)
    results = cluster.create(topic("a"), topic("b b"), topic("c"))
    assert outcome(results) == [("a", 0), ("b b", 17), ("c", 0)]
    assert set(cluster.image.topics) == {"a", "c"}


def test_a_name_twice_in_a_request_is_not_made():
    cluster = Cluster(1)
    results = cluster.create(topic("a"), topic("a"), topic("c"))
    assert sorted(outcome(results)) == [("a", 42), ("c", 0)]


def test_the_limits_of_the_cluster_hold():
    cluster = Cluster(1, config={"ottla.topics.max": "2", "ottla.partitions.max": "5"})
    assert outcome(cluster.create(topic("a", 6))) == [("a", 44)]
    assert outcome(cluster.create(topic("a", 3), topic("b", 3))) == [("a", 0), ("b", 44)]
    assert outcome(cluster.create(topic("b"), topic("c"))) == [("b", 0), ("c", 44)]


def test_replicas_on_a_fenced_broker_are_not_in_sync():
    cluster = Cluster(1, 2, 3)
    cluster.lose(2)
    cluster.create(topic(assignments=[(0, [2, 1, 3])]))
    found = cluster.partition()
    assert (found.replicas, found.isr, found.leader) == ((2, 1, 3), (1, 3), 1)


def test_replicas_on_fenced_brokers_alone_are_refused():
    cluster = Cluster(1, 2)
    cluster.lose(2)
    assert outcome(cluster.create(topic(assignments=[(0, [2])]))) == [("t", 39)]


def test_topics_are_deleted_by_name_and_by_id_with_their_settings():
    cluster = Cluster(1)
    _, b = cluster.create(topic("a", retention_ms="1"), topic("b", 3))
    wanted = [
        DeleteTopicState(name="a", topic_id=NO_ID),
        DeleteTopicState(name=None, topic_id=b.topic_id),
    ]
    results = cluster.carry_out(topics.delete_topics(wanted, cluster.image, cluster.config))
    assert [(each.name, each.error) for each in results] == [("a", None), ("b", None)]
    assert not cluster.image.topics
    assert not cluster.image.configured()
    assert cluster.image.partition_count == 0
    assert outcome(cluster.create(topic("a"))) == [("a", 0)]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ([("zz", NO_ID)], 3),
        ([(None, b"x" * 16)], 100),
        ([(None, NO_ID)], 42),
        ([("t", b"x" * 16)], 42),
        ([("t", NO_ID), ("t", NO_ID)], 42),
    ],
)
def test_what_cannot_be_deleted_is_refused(wanted, code):
    cluster = Cluster(1)
    cluster.create(topic())
    asked = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in wanted]
    results = cluster.carry_out(topics.delete_topics(asked, cluster.image, cluster.config))
    assert [each.error.code for each in results] == [code]
    assert "t" in cluster.image.topics


def test_a_topic_named_by_name_and_by_id_is_deleted_once():
    cluster = Cluster(1)
    (made,) = cluster.create(topic())
    asked = [DeleteTopicState(name="t", topic_id=NO_ID), DeleteTopicState(name=None, topic_id=made.topic_id)]
    results = cluster.carry_out(topics.delete_topics(asked, cluster.image, cluster.config))
    assert [each.error and each.error.code for each in results] == [None, 42]


def test_deletion_can_be_switched_off():
    cluster = Cluster(1, config={"delete.topic.enable": "false"})
    cluster.create(topic())
    asked = [DeleteTopicState(name="t", topic_id=NO_ID)]
    (result,) = cluster.carry_out(topics.delete_topics(asked, cluster.image, cluster.config))
    assert isinstance(result.error, errors.TopicDeletionDisabled)


def test_partitions_are_added_behind_those_there():
    cluster = Cluster(1, 2)
    cluster.create(topic(partitions=1, replicas=2))
    results = cluster.carry_out(
        topics.create_partitions([more(count=3, assignments=[[2, 1], [1, 2]])], cluster.image, cluster.config)
    )
    assert outcome(results) == [("t", 0)]
    assert [each.replicas for each in cluster.image.partitions()][1:] == [(2, 1), (1, 2)]
    cluster.carry_out(topics.create_partitions([more(count=5)], cluster.image, cluster.config))
    assert [len(each.replicas) for each in cluster.image.partitions()] == [2] * 5


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (more(count=2), 37, "Topic already has 2 partition(s)."),
        (more(count=1), 37, "The topic t currently has 2 partition(s); 1 would not be an increase."),
        (more("zz"), 3, None),
        (
            more(count=4, assignments=[[1]]),
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            more(count=3, assignments=[[9]]),
            39,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (more(count=3, assignments=[[1, 2]]), 39, None),
        (more(count=20_000), 44, None),
    ],
)
def test_what_cannot_be_added_is_refused(wanted, code, message):
    cluster = Cluster(1, 2)
    cluster.create(topic(partitions=2, replicas=1))
    (result,) = cluster.carry_out(topics.create_partitions([wanted], cluster.image, cluster.config))
    assert result.error.code == code
    assert message is None or result.error.message == message
    assert cluster.image.partition_count == 2
