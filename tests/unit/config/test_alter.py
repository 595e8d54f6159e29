"""Codes and messages are those of Apache Kafka 4.3.1."""

import pytest

from ottla import errors
from ottla.config.alter import Alteration, Operation, altered, check_dynamic_broker, replaced
from ottla.config.group import check_group
from ottla.config.settings import Config
from ottla.config.topic import TOPIC_KEYS, check_topic

SET, DELETE, APPEND, SUBTRACT = Operation


def alter(current, *alterations):
    config = Config()
    return altered(
        current,
        [Alteration(*each) for each in alterations],
        TOPIC_KEYS.get,
        lambda key: key.format(config.topic_default(key.name)),
    )


def test_set_and_delete():
    assert alter({"a": "1", "b": "2"}, ("a", SET, "3"), ("b", DELETE, None)) == {"a": "3"}


def test_deleting_what_is_not_set_changes_nothing():
    assert alter({"a": "1"}, ("nope", DELETE, None)) == {"a": "1"}


def test_appending_begins_from_what_the_topic_inherits_and_takes_a_value_once():
    once = alter({}, ("cleanup.policy", APPEND, "compact"))
    assert once == {"cleanup.policy": "delete,compact"}
    assert alter(once, ("cleanup.policy", APPEND, "compact")) == once


def test_subtracting_may_leave_an_empty_list():
    assert alter({"cleanup.policy": "compact"}, ("cleanup.policy", SUBTRACT, "compact")) == {
        "cleanup.policy": ""
    }


@pytest.mark.parametrize(
    ("alterations", "error", "message"),
    [
        ([("retention.ms", SET, None)], errors.InvalidRequest, "Null value not supported for : retention.ms"),
        (
            [("retention.ms", APPEND, "1")],
            errors.InvalidConfig,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
            errors.InvalidRequest,
            "Error due to duplicate config keys",
        ),
        ([("retention.ms", 7, "1")], errors.InvalidRequest, "Unknown operation 7 for retention.ms"),
    ],
)
def test_a_request_out_of_shape_is_refused(alterations, error, message):
    with pytest.raises(error) as refused:
        alter({}, *alterations)
    assert refused.value.message == message


def test_the_older_request_replaces_everything():
    assert replaced([("retention.ms", "1")]) == {"retention.ms": "1"}
    with pytest.raises(errors.InvalidRequest):
        replaced([("retention.ms", None)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        (
            {"retention.ms": "-2"},
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            {"cleanup.policy": "foo"},
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ({"cleanup.policy": "delete,,compact"}, "Configuration 'cleanup.policy' values must not be empty."),
        (
            {"compression.gzip.level": "0"},
            "Invalid value 0 for configuration compression.gzip.level: "
            "Value must be between 1 and 9 or equal to -1",
        ),
        (
            {"min.cleanable.dirty.ratio": "1.5"},
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            {"leader.replication.throttled.replicas": "x"},
            "Invalid value [x] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the "
            "following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"},
            "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (50)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_wrong_topic_settings_are_refused_in_kafkas_words(settings, message):
    with pytest.raises(errors.InvalidConfig) as refused:
        check_topic(settings)
    assert refused.value.message == message


@pytest.mark.parametrize("value", ["*", "0:1,1:2", ""])
def test_throttled_replicas_are_pairs_or_a_star(value):
    check_topic({"leader.replication.throttled.replicas": value})


def test_what_is_read_only_does_not_change_while_running():
    with pytest.raises(errors.InvalidRequest, match=r"Cannot update these configs dynamically: \[num"):
        check_dynamic_broker({}, {"num.partitions": "5"}, one_broker=True)


def test_what_belongs_to_one_broker_is_not_set_for_all():
    with pytest.raises(errors.InvalidRequest, match="at default cluster level"):
        check_dynamic_broker({}, {"leader.replication.throttled.rate": "9"}, one_broker=False)
    check_dynamic_broker({}, {"leader.replication.throttled.rate": "9"}, one_broker=True)


def test_wrong_and_unknown_broker_settings_are_refused():
    for name, text in (("log.retention.ms", "x"), ("no.such.name", "1")):
        with pytest.raises(errors.InvalidConfig, match=name):
            check_dynamic_broker({}, {name: text}, one_broker=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"x": "1"}, "Unknown group config name: x"),
        (
            {"consumer.session.timeout.ms": "10"},
            "consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms",
        ),
        (
            {"consumer.heartbeat.interval.ms": "50000"},
            "consumer.heartbeat.interval.ms must be less than or equal to "
            "group.consumer.max.heartbeat.interval.ms",
        ),
        (
            {"streams.heartbeat.interval.ms": "10"},
            "streams.heartbeat.interval.ms must be greater than or equal to group.streams.min.heartbeat.interval.ms",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            {"streams.assignment.interval.ms": "99999"},
            "streams.assignment.interval.ms must be less than or equal to group.streams.max.assignment.interval.ms",
        ),
        (
            {"share.partition.max.record.locks": "1000000"},
            "share.partition.max.record.locks must be less than or equal to "
            "group.share.max.partition.max.record.locks",
        ),
        (
            {"share.record.lock.duration.ms": "1000"},
            "share.record.lock.duration.ms must be greater than or equal to "
            "group.share.min.record.lock.duration.ms",
        ),
        (
            {"share.session.timeout.ms": "1000"},
            "share.session.timeout.ms must be greater than or equal to group.share.min.session.timeout.ms",
        ),
    ],
)
def test_group_settings_stay_within_the_brokers_bounds(settings, message):
    with pytest.raises(errors.InvalidConfig) as refused:
        check_group(settings, Config())
    assert refused.value.message == message


@pytest.mark.parametrize("name", ["streams.initial.rebalance.delay.ms", "consumer.assignment.interval.ms"])
def test_settings_of_groups_are_accepted_and_their_values_checked(name):
    check_group({name: "1500"}, Config())
    with pytest.raises(errors.InvalidConfig, match=name):
        check_group({name: "soon"}, Config())
