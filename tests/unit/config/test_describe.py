"""The expected values are what Apache Kafka 4.3.1 answered."""

from ottla.config.definitions import Source, Type
from ottla.config.describe import describe_broker, describe_broker_default, describe_group, describe_topic
from ottla.config.settings import Config

KAFKA_TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def entries(found):
    return {entry.name: entry for entry in found}


def synonyms(entry):
    return [(each.name, each.value, int(each.source)) for each in entry.synonyms]


def test_a_topic_has_exactly_the_settings_and_defaults_of_apache_kafka():
    found = describe_topic({}, Config())
    assert {entry.name: entry.value for entry in found} == KAFKA_TOPIC_DEFAULTS
    assert all(entry.source is Source.DEFAULT and not entry.read_only for entry in found)
    assert all(entry.documentation for entry in found)


def test_the_synonyms_of_a_topic_setting_begin_with_the_one_in_force():
    config = Config({}, {"log.retention.ms": "888"}, {"log.retention.ms": "777"})
    retention = entries(describe_topic({"retention.ms": " 5000 "}, config))["retention.ms"]
    assert (retention.value, retention.source, retention.type) == ("5000", Source.TOPIC, Type.LONG)
    assert synonyms(retention) == [
        ("retention.ms", "5000", 1),
        ("log.retention.ms", "777", 2),
        ("log.retention.ms", "888", 3),
        ("log.retention.hours", "168", 5),
    ]


def test_a_coarser_unit_alone_is_no_synonym_and_the_source_is_the_default():
    retention = entries(describe_topic({}, Config({"log.retention.hours": "2"})))["retention.ms"]
    assert (retention.value, retention.source, retention.synonyms) == ("7200000", Source.DEFAULT, ())


def test_an_empty_list_is_shown_as_an_empty_text():
    policy = entries(describe_topic({"cleanup.policy": ""}, Config()))["cleanup.policy"]
    assert (policy.value, policy.source) == ("", Source.TOPIC)
    assert synonyms(policy) == [("cleanup.policy", "", 1), ("log.cleanup.policy", "delete", 5)]


def test_a_broker_shows_who_set_a_value_and_what_cannot_change():
    found = entries(describe_broker(Config({"num.partitions": "3"}, {"log.cleaner.backoff.ms": "2"})))
    assert (found["num.partitions"].value, found["num.partitions"].read_only) == ("3", True)
    assert synonyms(found["num.partitions"]) == [("num.partitions", "3", 4), ("num.partitions", "1", 5)]
    assert (found["log.cleaner.backoff.ms"].source, found["log.cleaner.backoff.ms"].read_only) == (
        Source.DYNAMIC_DEFAULT_BROKER,
        False,
    )
    assert found["log.cleaner.min.cleanable.ratio"].value == "0.5"
    assert "log.cleaner.threads" not in found
    assert found["log.retention.ms"].value is None


def test_the_default_of_all_brokers_lists_only_what_was_set():
    found = describe_broker_default(
        Config({"num.partitions": "3"}, {"log.retention.ms": "888", "num.io.threads": "9"})
    )
    assert [(entry.name, entry.value, entry.source) for entry in found] == [
        ("log.retention.ms", "888", Source.DYNAMIC_DEFAULT_BROKER)
    ]
    assert synonyms(found[0]) == [("log.retention.ms", "888", 3)]


def test_a_group_falls_back_to_the_brokers_settings():
    found = entries(describe_group({"consumer.session.timeout.ms": "46000"}, Config()))
    assert synonyms(found["consumer.session.timeout.ms"]) == [
        ("consumer.session.timeout.ms", "46000", 8),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    assert found["consumer.heartbeat.interval.ms"].value == "5000"


def test_the_internal_segment_size_is_listed_where_it_is_set():
    found = entries(describe_topic({"internal.segment.bytes": "300"}, Config()))
    assert (found["internal.segment.bytes"].value, found["internal.segment.bytes"].source) == (
        "300",
        Source.TOPIC,
    )
    assert "internal.segment.bytes" not in entries(describe_topic({}, Config()))


def test_settings_of_groups_without_effect_are_listed_where_they_are_set():
    found = entries(describe_group({"consumer.assignment.interval.ms": "1"}, Config()))
    shown = found["consumer.assignment.interval.ms"]
    assert (shown.value, shown.source, shown.type) == ("1", Source.GROUP, Type.INT)
    assert "without effect" in shown.documentation
    assert "consumer.assignment.interval.ms" not in entries(describe_group({}, Config()))
