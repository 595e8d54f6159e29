import pytest

from ottla.config.alter import Alteration, Operation
from ottla.config.settings import Config
from ottla.metadata.configs import ResourceAlterations, alter_configs

from .cluster import Cluster, topic

SET, DELETE, APPEND, SUBTRACT = Operation


@pytest.fixture
def cluster():
    made = Cluster(1)
    made.create(topic(retention_ms="5"))
    return made


def alter(cluster, kind, name, *alterations, incremental=True):
    wanted = ResourceAlterations(kind, name, tuple(Alteration(*each) for each in alterations))
    decision = alter_configs([wanted], cluster.image, cluster.config, incremental=incremental)
    (result,) = cluster.carry_out(decision)
    return result.error and (result.error.code, result.error.message)


def test_settings_of_a_topic_change_one_by_one(cluster):
    assert (
        alter(cluster, 2, "t", ("retention.ms", DELETE, None), ("cleanup.policy", APPEND, "compact")) is None
    )
    assert cluster.image.settings(2, "t") == {"cleanup.policy": "delete,compact"}


def test_the_older_request_unsets_what_it_does_not_name(cluster):
    assert alter(cluster, 2, "t", ("segment.ms", SET, "7"), incremental=False) is None
    assert cluster.image.settings(2, "t") == {"segment.ms": "7"}
    assert alter(cluster, 2, "t", incremental=False) is None
    assert not cluster.image.configured()


def test_nothing_is_written_when_nothing_changes(cluster):
    before = list(cluster.written)
    alter(cluster, 2, "t", ("retention.ms", SET, "5"), ("nope", DELETE, None))
    assert cluster.written == before


def test_brokers_and_groups_have_settings_too(cluster):
    assert alter(cluster, 4, "1", ("log.retention.ms", SET, "7")) is None
    assert alter(cluster, 4, "", ("log.retention.ms", SET, "8")) is None
    assert alter(cluster, 32, "g", ("consumer.session.timeout.ms", SET, "46000")) is None
    assert cluster.image.configured() == {(2, "t"), (4, "1"), (4, ""), (32, "g")}


@pytest.mark.parametrize(
    ("kind", "name", "alteration", "error"),
    [
        (2, "nope", ("retention.ms", SET, "5"), (3, "The topic 'nope' does not exist.")),
        (2, "", ("retention.ms", SET, "5"), (42, "Default topic resources are not allowed.")),
        (2, "t", ("nope", SET, "5"), (40, "Unknown topic config name: nope")),
        (3, "x", ("a", SET, "5"), (42, "Unknown resource type 3")),
        (4, "x", ("log.retention.ms", SET, "5"), (42, "Node id must be an integer, but it is: x")),
        (4, "77", ("log.retention.ms", SET, "5"), (42, "Broker 77 is not registered.")),
        (
            4,
            "1",
            ("num.partitions", SET, "5"),
            (42, "Cannot update these configs dynamically: [num.partitions]"),
        ),
        (32, "", ("consumer.session.timeout.ms", SET, "5"), (42, "Default group resources are not allowed.")),
    ],
)
def test_what_cannot_change_is_refused(cluster, kind, name, alteration, error):
    before = list(cluster.written)
    assert alter(cluster, kind, name, alteration) == error
    assert cluster.written == before


@pytest.mark.parametrize("broker", ["", "1"])
def test_dynamic_bounds_that_contradict_static_ones_are_refused(cluster, broker):
    cluster.config = Config({"log.cleaner.min.compaction.lag.ms": "10"})
    code, message = alter(cluster, 4, broker, ("log.cleaner.max.compaction.lag.ms", SET, "5"))
    assert code == 40
    assert "log.cleaner.max.compaction.lag.ms (5) must be greater" in message


def test_a_resource_twice_in_a_request_is_refused_both_times(cluster):
    wanted = [ResourceAlterations(2, "t", (Alteration("segment.ms", SET, each),)) for each in ("1", "2")]
    results = cluster.carry_out(alter_configs(wanted, cluster.image, cluster.config, incremental=True))
    assert [each.error and each.error.code for each in results] == [42, 42]
