import pytest

from ottla import errors
from ottla.config.broker import BROKER_KEYS
from ottla.config.log import LogConfig
from ottla.config.settings import Config, read_assignments, read_properties


def test_the_defaults_of_a_log_are_those_of_its_definition():
    assert LogConfig.from_settings({}, Config()) == LogConfig()


def test_a_topic_overrules_the_broker_and_the_broker_the_default():
    broker = Config({"log.retention.hours": "2", "log.segment.bytes": "2000000"})
    log = LogConfig.from_settings({"segment.bytes": "1048576", "cleanup.policy": "compact"}, broker)
    assert (log.retention_ms, log.segment_bytes, log.compact, log.delete) == (
        7_200_000,
        1_048_576,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1"}, 60_000),
        ({"log.retention.minutes": "1", "log.retention.ms": "7"}, 7),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_of_retention_counts(settings, retention_ms):
    assert Config(settings).topic_default("retention.ms") == retention_ms


def test_segments_below_the_minimum_need_the_internal_setting():
    log = LogConfig.from_settings({"internal.segment.bytes": "300"}, Config())
    assert log.segment_bytes == 300


def test_dynamic_values_of_a_broker_beat_those_of_all_brokers_and_those_the_file():
    config = Config({"message.max.bytes": "1"}, {"message.max.bytes": "2"}, {"message.max.bytes": "3"})
    assert config.message_max_bytes == config["message.max.bytes"] == 3  # type: ignore[attr-defined]
    assert config.with_dynamic({"message.max.bytes": "2"}, {}).message_max_bytes == 2  # type: ignore[attr-defined]
    assert config.with_dynamic({}, {}).message_max_bytes == 1  # type: ignore[attr-defined]


def test_settings_do_not_change_in_place():
    config = Config()
    changed = config.with_overrides({"num.partitions": "6"})
    assert (config.num_partitions, changed.num_partitions) == (1, 6)
    with pytest.raises(AttributeError):
        config.num_partitions = 2


def test_an_unknown_name_is_refused_with_the_closest_one():
    with pytest.raises(errors.InvalidConfig, match=r"num\.partition; did you mean num\.partitions\?"):
        Config({"num.partition": "1"})


def test_names_of_apache_kafka_without_use_here_are_taken_and_listed():
    config = Config({"num.io.threads": "8", "sasl.enabled.mechanisms": "PLAIN"})
    assert config.ignored == ("num.io.threads", "sasl.enabled.mechanisms")


def test_the_older_name_of_the_broker_number_is_understood():
    assert Config({"broker.id": "7"}).node_id == 7
    assert Config({"node.id": "8"}).broker_id == 8


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("num.partitions", "0", "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ("num.partitions", "x", "Invalid value x for configuration num.partitions: Not a number of type INT"),
        ("num.partitions", "1_0", "Not a number of type INT"),
        ("num.partitions", "٣", "Not a number of type INT"),
        ("num.partitions", "3000000000", "Not a number of type INT"),
        ("offsets.topic.replication.factor", "40000", "Not a number of type SHORT"),
        ("log.cleaner.min.cleanable.ratio", "nan", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "Value must be no more than 1"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("group.consumer.migration.policy", "maybe", "String must be one of"),
        ("log.dirs", "a,,b", "must not be empty"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name_and_what_is_allowed(name, text, says):
    with pytest.raises(errors.InvalidConfig) as refused:
        Config({name: text})
    assert says in refused.value.message
    assert name in refused.value.message


@pytest.mark.parametrize(
    "settings",
    [
        {"group.consumer.heartbeat.interval.ms": "1000"},
        {"group.consumer.max.session.timeout.ms": "100"},
        {"group.min.session.timeout.ms": "2000000"},
    ],
)
def test_bounds_that_contradict_each_other_are_refused(settings):
    with pytest.raises(errors.InvalidConfig, match="must be greater than or equal to"):
        Config(settings)


def test_a_property_file_is_read_as_java_reads_it():
    text = "\n".join(
        [
            "# comment",
            "! comment",
            "",
            "listeners = PLAINTEXT://:9092,\\",
            "    OTHER://:9093",
            "num.partitions:3",
            "broker.rack   north side ",
            "log.dirs=C\\:\\\\data\\u0041",
            "empty",
            "last=no\\",
        ]
    )
    assert read_properties(text) == {
        "listeners": "PLAINTEXT://:9092,OTHER://:9093",
        "num.partitions": "3",
        "broker.rack": "north side ",
        "log.dirs": "C:\\dataA",
        "empty": "",
        "last": "no",
    }


def test_assignments_of_the_command_line_need_a_name_and_an_equals_sign():
    assert read_assignments(["a.b=c=d", " x = 1 "]) == {"a.b": "c=d", "x": "1"}
    for wrong in ("a", "=1"):
        with pytest.raises(errors.InvalidConfig):
            read_assignments([wrong])


def test_every_default_is_allowed_by_its_own_definition():
    for key in BROKER_KEYS.values():
        if key.default is not None:
            assert key.parse(key.format(key.default)) == key.default
        assert key.documentation.endswith((".", "!"))


def test_folders_come_from_log_dirs_or_else_from_log_dir():
    assert Config({"log.dir": "a"}).log_dirs_in_use() == ("a",)
    assert Config({"log.dir": "a", "log.dirs": "b, c"}).log_dirs_in_use() == ("b", "c")
