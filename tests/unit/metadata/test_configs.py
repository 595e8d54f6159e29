import pytest

from ottla.config.alter import Alteration, Operation
from ottla.config.definitions import VALUE_BYTES_MAX
from ottla.config.settings import Config
from ottla.metadata.configs import ResourceAlterations, alter_configs
from ottla.metadata.records import RECOVERED, RECOVERING, ConfigSet, PartitionChanged

from .cluster import Cluster, topic

SET, DELETE, APPEND, SUBTRACT = Operation
TOO_LONG = "the maximum value size of 32767 bytes."


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


def test_a_broker_id_of_thousands_of_digits_is_refused(cluster):
    code, message = alter(cluster, 4, "9" * 5000, ("log.retention.ms", SET, "5"))
    assert (code, message[:40]) == (42, "Node id must be an integer, but it is: 9")


def test_a_value_that_not_every_client_can_be_told_of_is_refused(cluster):
    """DescribeConfigs before version 4 has two bytes for the length of a value."""
    name, replicas = "leader.replication.throttled.replicas", ",".join(f"{at}:1" for at in range(10_000))
    cut = replicas[: replicas.rindex(",", 0, VALUE_BYTES_MAX)]
    refused = (40, f"The configuration value cannot be added because it exceeds {TOO_LONG}")
    assert alter(cluster, 2, "t", (name, SET, replicas)) == refused
    assert alter(cluster, 2, "t", (name, SET, replicas), incremental=False) == refused
    assert alter(cluster, 2, "t", (name, SET, cut)) is None
    assert alter(cluster, 2, "t", (name, APPEND, "77777:1,77778:1")) == refused
    assert (
        alter(cluster, 4, "1", ("listener.name.a.max.connections", SET, " " * VALUE_BYTES_MAX + "1"))[0] == 40
    )
    assert cluster.image.settings(2, "t")[name] == cut


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


def below_the_minimum(**settings):
    """Replicas 2 and 3 of "t" fell out of its ISR; under a minimum of 2 replica 2 stays eligible."""
    cluster = Cluster(1, 2, 3, config={"min.insync.replicas": "2"})
    cluster.create(topic(assignments=[(0, [1, 2, 3])], **settings))
    for broker_id in (3, 2):
        cluster.lose(broker_id)
    assert eligible(cluster) == ((1,), (2,))
    return cluster


def eligible(cluster, name="t"):
    return cluster.partition(name).isr, cluster.partition(name).elr


def leader_after_the_only_replica_in_sync_dies(cluster):
    """Replica 2 is back, without what replica 1 committed alone."""
    cluster.restart(2)
    cluster.unfence(2)
    cluster.lose(1)
    return cluster.partition().leader


@pytest.mark.parametrize(("unclean", "leader"), [("false", -1), ("true", 2)])
def test_a_lower_minimum_of_a_topic_leaves_nobody_eligible(unclean, leader):
    cluster = below_the_minimum(min_insync_replicas="2", unclean_leader_election_enable=unclean)
    before = cluster.partition()
    assert alter(cluster, 2, "t", ("min.insync.replicas", SET, "1")) is None
    cleared, setting = cluster.written[-2:]
    assert (cleared.elr, cleared.last_known_elr) == ((), ())
    assert setting.name == "min.insync.replicas", "no leader commits under the new minimum before that"
    after = cluster.partition()
    assert after == before._replace(elr=(), partition_epoch=before.partition_epoch + 1)
    assert leader_after_the_only_replica_in_sync_dies(cluster) == leader
    assert cluster.partition().recovery_state == (RECOVERED if leader == -1 else RECOVERING)


@pytest.mark.parametrize("incremental", [True, False])
def test_a_minimum_that_a_topic_no_longer_sets_leaves_nobody_eligible(incremental):
    cluster = below_the_minimum(min_insync_replicas="2")
    cluster.config = Config({"min.insync.replicas": "1"})
    alterations = [("min.insync.replicas", DELETE, None)] if incremental else []
    assert alter(cluster, 2, "t", *alterations, incremental=incremental) is None
    assert eligible(cluster) == ((1,), ())
    assert leader_after_the_only_replica_in_sync_dies(cluster) == -1


@pytest.mark.parametrize("value", ["1", None])
def test_another_minimum_of_all_brokers_leaves_nobody_eligible(value):
    cluster = below_the_minimum()
    if value is None:
        cluster.write(ConfigSet(4, "", "min.insync.replicas", "2"))
    operation = DELETE if value is None else SET
    assert alter(cluster, 4, "", ("min.insync.replicas", operation, value)) is None
    cluster.config = Config({"min.insync.replicas": "1"})
    assert eligible(cluster) == ((1,), ())
    assert leader_after_the_only_replica_in_sync_dies(cluster) == -1


@pytest.mark.parametrize(
    ("alteration", "incremental"),
    [(("min.insync.replicas", SET, "1"), each) for each in (True, False)]
    + [(("min.insync.replicas", DELETE, None), True)],
)
def test_a_broker_has_no_minimum_of_its_own(alteration, incremental):
    """It would commit under it what it leads, and the controller, which does not look at it, elect a replica without
    these records."""
    cluster = below_the_minimum()
    before = list(cluster.written)
    assert alter(cluster, 4, "1", alteration, incremental=incremental) == (
        40,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    )
    assert cluster.written == before


@pytest.mark.parametrize("incremental", [True, False])
def test_a_minimum_that_a_broker_already_has_can_be_unset(incremental):
    """From an imported cluster without ELR, say."""
    cluster = below_the_minimum()
    cluster.write(ConfigSet(4, "1", "min.insync.replicas", "1"))
    alterations = [("min.insync.replicas", DELETE, None)] if incremental else []
    assert alter(cluster, 4, "1", *alterations, incremental=incremental) is None
    assert not cluster.image.settings(4, "1")
    assert eligible(cluster) == ((1,), (2,))


def test_the_last_known_leader_is_forgotten_with_the_minimum():
    cluster = below_the_minimum()
    cluster.lose(1)
    for broker_id in (1, 2):
        cluster.restart(broker_id, clean=False)
    assert cluster.partition().last_known_elr
    assert alter(cluster, 2, "t", ("min.insync.replicas", SET, "1")) is None
    assert cluster.partition().last_known_elr == ()


def test_topics_with_their_own_minimum_do_not_follow_the_default():
    cluster = below_the_minimum(min_insync_replicas="2")
    assert alter(cluster, 4, "", ("min.insync.replicas", SET, "1")) is None
    assert eligible(cluster) == ((1,), (2,))


def test_an_only_replica_leads_again_after_its_minimum_changed():
    cluster = Cluster(1, 2)
    cluster.create(topic(assignments=[(0, [2])]))
    cluster.lose(2)
    assert alter(cluster, 2, "t", ("min.insync.replicas", SET, "2")) is None
    cluster.restart(2)
    cluster.unfence(2)
    assert cluster.partition().leader == 2


def test_a_partition_is_changed_once_when_its_topic_and_the_default_change_in_a_request():
    cluster = below_the_minimum()
    before = len(cluster.written)
    wanted = [
        ResourceAlterations(kind, name, (Alteration("min.insync.replicas", SET, "1"),))
        for kind, name in ((4, ""), (2, "t"))
    ]
    cluster.carry_out(alter_configs(wanted, cluster.image, cluster.config, incremental=True))
    kinds = [type(record) for record in cluster.written[before:]]
    assert kinds == [PartitionChanged, ConfigSet, ConfigSet]


def test_other_settings_and_other_topics_leave_the_eligible_alone():
    cluster = below_the_minimum()
    cluster.create(topic("other", assignments=[(0, [1])]))
    before = cluster.partition()
    assert alter(cluster, 2, "t", ("retention.ms", SET, "7")) is None
    assert alter(cluster, 2, "other", ("min.insync.replicas", SET, "1")) is None
    assert alter(cluster, 4, "", ("log.retention.ms", SET, "7")) is None
    assert cluster.partition() == before
