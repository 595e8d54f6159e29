"""`import-kafka` without a JVM: what it keeps, what it refuses, and that it only reads."""

import json
import shutil
import subprocess
import sys

import pytest

from ottla.metadata.records import NO_LEADER, ConfigSet, PartitionCreated, QuotaEntity, QuotaSet, TokenSet
from ottla.migration import copying, exporting, importing, our_metadata
from ottla.migration import kraft_schema as k
from ottla.migration.exporting import Address, CannotExport
from ottla.migration.refusals import CannotImport
from ottla.server.disk import OsDisk
from ottla.storage import checkpoints
from ottla.testing import Broker
from ottla.wire.batch import build
from ottla.wire.records import Record
from tests.unit.migration.kafka_folders import (
    CLUSTER,
    TOPIC_ID,
    a_broker,
    a_log,
    a_topic,
    directory_id,
    features,
    metadata_files,
    some_records,
    versioned,
    write_folder,
)

BASE = (*features(), a_broker(), *a_topic())


def a_source(tmp_path, *records, **options):
    partitions = {"t-0": (TOPIC_ID, some_records())}
    return write_folder(
        tmp_path / "kafka", metadata=metadata_files([*BASE, *records]), partitions=partitions, **options
    )


def tree(path):
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def import_into(tmp_path, *sources):
    said = []
    plan = importing.plan([str(each) for each in sources], str(tmp_path / "ours"))
    importing.run(plan, zookeeper=None, report=said.append)
    return our_metadata.read_journal(OsDisk(str(tmp_path / "ours"))), said


def test_topics_ids_settings_features_producer_ids_and_logs_are_kept_and_the_source_is_only_read(tmp_path):
    source = a_source(
        tmp_path,
        k.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="77"),
        k.ConfigRecord(resource_type=4, resource_name="", name="message.max.bytes", value="2000000"),
        k.ProducerIds(next_producer_id=7000),
    )
    checkpoints.write_offsets(OsDisk(str(source)), checkpoints.HIGH_WATERMARKS, {("t", 0): 3, ("gone", 0): 1})
    before = tree(source)
    image, _ = import_into(tmp_path, source)
    assert tree(source) == before
    assert (image.cluster_id, image.topics["t"].topic_id, image.next_producer_id) == (CLUSTER, TOPIC_ID, 7000)
    assert image.settings(2, "t") == {"retention.ms": "77"}
    assert image.settings(4, "") == {"message.max.bytes": "2000000"}
    assert image.features == {"group.version": 1, "share.version": 1, "transaction.version": 2}
    partition = image.partition("t", 0)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1,), 5)
    ours = OsDisk(str(tmp_path / "ours"))
    assert ours.read_whole(f"t-0/{0:020d}.log") == some_records()
    assert checkpoints.read_offsets(ours, checkpoints.HIGH_WATERMARKS) == {("t", 0): 3}
    assert checkpoints.read_meta(ours) == checkpoints.Meta(CLUSTER, 1, directory_id(1))
    assert ours.exists(checkpoints.CLEAN_MARK)


@pytest.mark.parametrize(
    ("record", "undo", "named"),
    [
        (
            k.FeatureLevel(name="tea.version", feature_level=1),
            k.FeatureLevel(name="tea.version", feature_level=0),
            "the feature tea.version",
        ),
        (
            k.FeatureLevel(name="metadata.version", feature_level=31),
            k.FeatureLevel(name="metadata.version", feature_level=30),
            "metadata.version at level 31",
        ),
        (
            k.ConfigRecord(resource_type=2, resource_name="t", name="remote.storage.enable", value="true"),
            k.ConfigRecord(resource_type=2, resource_name="t", name="remote.storage.enable", value="false"),
            "tiered storage of the topic t",
        ),
        (
            k.ConfigRecord(resource_type=2, resource_name="t", name="made.up", value="1"),
            k.ConfigRecord(resource_type=2, resource_name="t", name="made.up"),
            "made.up=1 of topic t",
        ),
        (
            k.ConfigRecord(resource_type=16, resource_name="m", name="made.up", value="*"),
            k.ConfigRecord(resource_type=16, resource_name="m", name="made.up"),
            "made.up=.* of client metrics m",
        ),
        (
            k.ConfigRecord(resource_type=4, resource_name="1", name="client.quota.callback.class", value="5"),
            k.ConfigRecord(resource_type=4, resource_name="1", name="client.quota.callback.class"),
            "client.quota.callback.class=5 of broker 1",
        ),
        (k.ZkMigrationState(zk_migration_state=1), k.ZkMigrationState(zk_migration_state=3), "ZooKeeper"),
    ],
)
def test_what_we_would_not_honour_is_refused_by_name_unless_it_is_gone(tmp_path, record, undo, named):
    source = a_source(tmp_path, record)
    with pytest.raises(CannotImport, match=named):
        importing.plan([str(source)], str(tmp_path / "ours"))
    assert not (tmp_path / "ours").exists()
    later = write_folder(
        tmp_path / "later",
        metadata=metadata_files([*BASE, record]) | {f"{20:020d}.log": a_log([undo], start=20)},
        partitions={"t-0": (TOPIC_ID, b"")},
    )
    importing.plan([str(later)], str(tmp_path / "ours"))


SECURITY = (
    k.AccessControlEntry(
        id=b"a" * 16, resource_type=2, resource_name="t", pattern_type=3, principal="User:x"
    ),
    k.AccessControlEntry(id=b"b" * 16, resource_type=2, resource_name="gone", principal="User:x"),
    k.RemoveAccessControlEntry(id=b"b" * 16),
    k.UserScramCredential(
        name="x", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    ),
    k.UserScramCredential(name="gone", mechanism=1),
    k.RemoveUserScramCredential(name="gone", mechanism=1),
)


def test_rules_and_scram_users_are_kept_there_and_back(tmp_path):
    image, said = import_into(tmp_path, a_source(tmp_path, *SECURITY))
    (rule,) = image.security.acls
    assert (rule.resource_type, rule.name, rule.pattern, rule.principal) == (2, "t", 3, "User:x")
    (user,) = image.security.scram.values()
    assert (user.name, user.salt, user.stored_key, user.server_key, user.iterations) == (
        "x",
        b"s",
        b"k",
        b"v",
        4096,
    )
    assert any("1 ACLs" in line and "authorizer.class.name" in line for line in said)
    plan = exporting.plan(
        [str(tmp_path / "ours")], str(tmp_path / "back"), {1: Address("localhost", 9093)}, None
    )
    exporting.run(plan, report=lambda line: None)
    again = importing.plan([str(tmp_path / "back")], str(tmp_path / "again"))
    assert again.image.security == image.security


def test_quotas_and_tokens_go_to_kafka_and_come_back(tmp_path):
    import_into(tmp_path, a_source(tmp_path))
    plan = exporting.plan(
        [str(tmp_path / "ours")], str(tmp_path / "back"), {1: Address("localhost", 9093)}, None
    )
    entity = (QuotaEntity("client-id", "c"), QuotaEntity("user", None))
    plan.image.apply(QuotaSet(entity, "consumer_byte_rate", "1024.0"))
    plan.image.apply(QuotaSet((QuotaEntity("ip", "10.0.0.1"),), "connection_creation_rate", "5.0"))
    plan.image.apply(TokenSet("id", "User:o", "User:r", ("User:n",), 1, 2, 3))
    exporting.run(plan, report=lambda line: None)
    again = importing.plan([str(tmp_path / "back")], str(tmp_path / "again"))
    assert again.image.security.quotas == plan.image.security.quotas
    assert again.image.security.tokens == plan.image.security.tokens


def test_client_metrics_go_to_kafka_and_come_back(tmp_path):
    settings = {"metrics": "*", "interval.ms": "1000", "match": "client_id=a.*"}
    records = [
        k.ConfigRecord(resource_type=16, resource_name="m", name=name, value=value)
        for name, value in settings.items()
    ]
    image, _ = import_into(tmp_path, a_source(tmp_path, *records))
    assert image.settings(16, "m") == settings
    plan = exporting.plan(
        [str(tmp_path / "ours")], str(tmp_path / "back"), {1: Address("localhost", 9093)}, None
    )
    exporting.run(plan, report=lambda line: None)
    assert (
        importing.plan([str(tmp_path / "back")], str(tmp_path / "again")).image.settings(16, "m") == settings
    )


def test_groups_of_every_known_kind_are_kept_and_an_unknown_kind_is_refused_until_it_is_deleted(tmp_path):
    key, classic, share, streams = (bytes((0, kind)) + b"group" for kind in (24, 2, 11, 17))
    known = build(
        [Record(at, 1, key, b"x") for at, key in enumerate((classic, share, streams))], leader_epoch=1
    )
    alive = known + build([Record(3, 1, key, b"x")], base_offset=3, leader_epoch=1)
    deleted = alive + build([Record(4, 1, key, None)], base_offset=4, leader_epoch=1)
    for name, log in (("known", known), ("alive", alive), ("deleted", deleted)):
        source = write_folder(
            tmp_path / name,
            metadata=metadata_files([*features(), a_broker(), *a_topic("__consumer_offsets")]),
            partitions={"__consumer_offsets-0": (TOPIC_ID, log)},
        )
        if name == "alive":
            with pytest.raises(CannotImport, match=r"unknown kind .record types 24"):
                importing.plan([str(source)], str(tmp_path / "ours"))
        else:
            importing.plan([str(source)], str(tmp_path / "ours"))


@pytest.mark.parametrize("kind", ["lockf", "flock"])
def test_a_source_in_use_is_refused(tmp_path, kind):
    """By Apache Kafka, or by Ottla: their locks are of different kinds."""
    source = a_source(tmp_path)
    holder = (
        f"import fcntl, sys; file = open({str(source / '.lock')!r}, 'w'); fcntl.{kind}(file, fcntl.LOCK_EX); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", holder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"locked\n"
        with pytest.raises(copying.SourceInUse, match="stop it first"):
            importing.plan([str(source)], str(tmp_path / "ours"))
        process.communicate()
    importing.plan([str(source)], str(tmp_path / "ours"))


def test_a_target_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "x").touch()
    with pytest.raises(Exception, match="is not empty"):
        importing.plan([str(a_source(tmp_path))], str(tmp_path / "ours"))


def test_a_directory_id_that_kafka_never_wrote_is_made_up(tmp_path):
    records = [*features(), k.RegisterBroker(broker_id=1), *a_topic()]
    source = write_folder(
        tmp_path / "kafka",
        metadata=metadata_files(records),
        partitions={"t-0": (TOPIC_ID, b"")},
        with_directory_id=False,
    )
    import_into(tmp_path, source)
    meta = checkpoints.read_meta(OsDisk(str(tmp_path / "ours")))
    assert meta.directory_id != bytes(16)


def test_deletions_and_unknown_partitions_stay_behind_and_are_named(tmp_path):
    source = a_source(tmp_path)
    for name in (
        f"t-1.{'0' * 32}-delete",
        f"t-2.{'0' * 32}-future",
        f"t-3.{'0' * 32}-stray",
        "alien-0",
        "u-0",
    ):
        (source / name).mkdir()
    _, said = import_into(tmp_path, source)
    left = sorted(line.split("/")[-1].split(" ")[0] for line in said if line.startswith("left behind"))
    assert left == sorted(
        each.name
        for each in source.iterdir()
        if each.is_dir() and each.name not in ("t-0", "__cluster_metadata-0")
    )
    folders = {each.name for each in (tmp_path / "ours").iterdir() if each.is_dir()}
    assert folders == {"t-0", "metadata"}


def test_a_partition_of_an_earlier_topic_of_that_name_stays_behind(tmp_path):
    source = write_folder(
        tmp_path / "kafka", metadata=metadata_files(BASE), partitions={"t-0": (b"x" * 16, some_records())}
    )
    _, said = import_into(tmp_path, source)
    assert any("t-0" in line and line.startswith("left behind") for line in said)
    assert any("no folder for t-0" in line for line in said)


def test_a_partition_whose_folder_is_lost_is_refused(tmp_path):
    source = write_folder(tmp_path / "kafka", metadata=metadata_files(BASE))
    checkpoints.write_offsets(OsDisk(str(source)), checkpoints.HIGH_WATERMARKS, {("t", 0): 3})
    with pytest.raises(CannotImport, match="t-0, and its folder is gone"):
        importing.plan([str(source)], str(tmp_path / "ours"))


def test_all_log_folders_of_a_broker_are_asked_for_and_become_one(tmp_path):
    records = [*features(), a_broker(directories=2), *a_topic(partitions=2)]
    first = write_folder(
        tmp_path / "a", metadata=metadata_files(records), partitions={"t-0": (TOPIC_ID, some_records())}
    )
    second = write_folder(tmp_path / "b", at=1, partitions={"t-1": (TOPIC_ID, some_records(2))})
    with pytest.raises(CannotImport, match="another log folder"):
        importing.plan([str(first)], str(tmp_path / "ours"))
    import_into(tmp_path, first, second)
    ours = OsDisk(str(tmp_path / "ours"))
    assert ours.read_whole(f"t-1/{0:020d}.log") == some_records(2)
    assert ours.read_whole(f"t-0/{0:020d}.log") == some_records()


# Several brokers


def three(tmp_path, *, logs=("x", "x", "x"), given=(1, 2, 3)):
    """Voters 1 to 3. `logs` name the last topic that each one's metadata log knows."""
    paths = []
    for node_id, last in zip((1, 2, 3), logs, strict=True):
        records = [*features(), *(a_broker(each) for each in (1, 2, 3)), *a_topic(replicas=(2, 1, 3))]
        extra = [k.TopicRecord(name=each, topic_id=each.encode() * 16) for each in last]
        epoch = 2 if last.isupper() else 1
        files = metadata_files(records, of=(1, 2, 3)) | {
            f"{20:020d}.log": a_log(extra, start=20, epoch=epoch)
        }
        path = write_folder(
            tmp_path / f"kafka-{node_id}",
            node_id=node_id,
            metadata=files,
            partitions={"t-0": (TOPIC_ID, some_records())},
        )
        if node_id in given:
            paths.append(str(path))
    return paths


def test_the_longest_log_of_the_newest_epoch_counts(tmp_path):
    plan = importing.plan(three(tmp_path, logs=("x", "xy", "xyz")), str(tmp_path / "ours"))
    assert set(plan.image.topics) == {"t", "x", "y", "z"}
    plan = importing.plan(three(tmp_path / "2", logs=("x", "xyz", "A")), str(tmp_path / "ours"))
    assert set(plan.image.topics) == {"t", "A"}


def test_a_minority_of_the_controllers_cannot_tell_what_was_committed(tmp_path):
    with pytest.raises(CannotImport, match="1 of 3 controllers"):
        importing.plan(three(tmp_path, given=(2,)), str(tmp_path / "ours"))


def test_all_brokers_are_imported_together(tmp_path):
    with pytest.raises(CannotImport, match="folders of broker 3 are missing"):
        importing.plan(three(tmp_path, given=(1, 2)), str(tmp_path / "ours"))


def test_in_a_cluster_nobody_leads_until_somebody_in_sync_is_there(tmp_path):
    plan = importing.plan(three(tmp_path), str(tmp_path / "ours"))
    assert [broker.target for broker in plan.brokers] == [
        str(tmp_path / "ours" / f"broker-{i}") for i in (1, 2, 3)
    ]
    (partition,) = [
        each for each in importing.records(plan, alone=None) if isinstance(each, PartitionCreated)
    ]
    assert (partition.leader, partition.isr, partition.leader_epoch) == (NO_LEADER, (2, 1, 3), 5)


def test_folders_of_two_clusters_are_refused(tmp_path):
    one, two, _ = three(tmp_path)
    meta = tmp_path / "kafka-2" / "meta.properties"
    meta.write_text(meta.read_text().replace(CLUSTER, "AAAAAAAAAAAAAAAAAAAAAQ"))
    with pytest.raises(CannotImport, match="is of cluster"):
        importing.plan([one, two], str(tmp_path / "ours"))


# And back


def test_what_is_exported_imports_to_the_same_metadata_and_logs(tmp_path):
    source = a_source(
        tmp_path,
        k.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="77"),
        k.ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        k.ProducerIds(next_producer_id=7000),
    )
    image, _ = import_into(tmp_path, source)
    plan = exporting.plan(
        [str(tmp_path / "ours")], str(tmp_path / "back"), {1: Address("localhost", 9093)}, None
    )
    exporting.run(plan, report=lambda line: None)
    mark = json.loads((tmp_path / "back" / checkpoints.CLEAN_MARK).read_text())
    assert mark["brokerEpoch"] == exporting.BROKER_EPOCH
    again = importing.plan([str(tmp_path / "back")], str(tmp_path / "again"))
    back = again.image.partition("t", 0)
    assert back == image.partition("t", 0)._replace(leader=NO_LEADER, leader_epoch=6, partition_epoch=11)
    assert again.image.configured() == image.configured()
    assert again.image.settings(2, "t") == image.settings(2, "t")
    assert again.image.next_producer_id == 7000
    assert again.features["metadata.version"] == 30
    assert tree(tmp_path / "back" / "t-0") == tree(tmp_path / "ours" / "t-0")


def stopped_after_one_record(folder):
    with Broker(data=str(folder)) as broker:
        broker.create_topic("greetings", partitions=2)
        broker.send("greetings", "hello", partition=1)
    return str(folder)


def test_partitions_that_never_had_a_record_are_exported_without_a_folder(tmp_path):
    data, back = stopped_after_one_record(tmp_path / "ours"), tmp_path / "back"
    said = []
    exporting.run(
        exporting.plan([data], str(back), {1: Address("localhost", 9093)}, None), report=said.append
    )
    assert [line.split()[1] for line in said if line.startswith("empty: ")] == ["greetings-0"]
    again = importing.plan([str(back)], str(tmp_path / "again"))
    assert len(again.image.topics["greetings"].partitions) == 2
    assert tree(back / "greetings-1") == tree(tmp_path / "ours" / "greetings-1")


def test_a_partition_of_ours_whose_folder_is_lost_is_not_exported(tmp_path):
    data = stopped_after_one_record(tmp_path / "ours")
    shutil.rmtree(tmp_path / "ours" / "greetings-1")
    with pytest.raises(CannotExport, match="had greetings-1, and its folder is gone: its records are lost"):
        exporting.plan([data], str(tmp_path / "back"), {1: Address("localhost", 9093)}, None)


def test_every_log_folder_of_a_broker_has_to_be_exported(tmp_path):
    folders = [str(tmp_path / "one"), str(tmp_path / "two")]
    with Broker({"log.dirs": ",".join(folders)}, data=folders[0]) as broker:
        broker.create_topic("t", partitions=4)
    with pytest.raises(CannotExport, match="has 2 log folders, and 1 of them are named"):
        exporting.plan(folders[:1], str(tmp_path / "back"), {1: Address("localhost", 9093)}, None)
    exporting.plan(folders, str(tmp_path / "back"), {1: Address("localhost", 9093)}, None)


def test_settings_that_kafka_does_not_have_are_left_behind_and_named(tmp_path):
    """With them it would refuse every later change of the same topic or group."""
    import_into(tmp_path, a_source(tmp_path))
    plan = exporting.plan(
        [str(tmp_path / "ours")], str(tmp_path / "back"), {1: Address("localhost", 9093)}, None
    )
    ours = (
        ConfigSet(2, "t", "errors.deadletterqueue.group.enable", "true"),
        ConfigSet(32, "g", "errors.deadletterqueue.topic.name", "dlq.t"),
        ConfigSet(32, "g", "ottla.share.release.backoff.ms", "5"),
        ConfigSet(4, "", "errors.deadletterqueue.topic.name.prefix", "x."),
        ConfigSet(2, "t", "mirror.source", "link"),
    )
    kafkas = (
        ConfigSet(2, "t", "retention.ms", "5"),
        ConfigSet(32, "g", "share.auto.offset.reset", "earliest"),
    )
    for record in (*ours, *kafkas):
        plan.image.apply(record)
    said = []
    exporting.run(plan, report=said.append)
    left = {line.partition("=")[0].split()[-1] for line in said if line.startswith("left behind")}
    assert left == {record.name for record in ours}
    back = importing.plan([str(tmp_path / "back")], str(tmp_path / "again")).image
    assert (back.settings(2, "t"), back.settings(32, "g")) == (
        {"retention.ms": "5"},
        {"share.auto.offset.reset": "earliest"},
    )


def test_a_folder_that_was_not_stopped_cleanly_is_not_exported(tmp_path):
    import_into(tmp_path, a_source(tmp_path, clean=False))
    with pytest.raises(CannotExport, match="not stopped cleanly"):
        exporting.plan([str(tmp_path / "ours")], str(tmp_path / "back"), {1: Address("h", 1)}, None)


def test_versions_of_the_fixtures_are_the_newest():
    for record, version in versioned([*BASE]):
        assert version == next(newest for cls, newest in k.RECORDS.values() if cls is type(record))
