"""Apache Kafka's metadata records, snapshots and log."""

import json
import re
import zipfile
from pathlib import Path

import pytest

from ottla.metadata.records import NO_LEADER
from ottla.migration import kraft_codec, kraft_log
from ottla.migration import kraft_schema as k
from ottla.migration.kraft_codec import UnknownMetadata
from ottla.migration.kraft_image import KraftImage
from ottla.migration.kraft_log import MetadataDamaged
from ottla.storage.memory import MemoryDisk
from ottla.wire.batch import build
from ottla.wire.records import Record
from tests.unit.migration.kafka_folders import TOPIC_ID, a_broker, a_log, a_snapshot, a_topic, features

FOLDER = "__cluster_metadata-0"
JARS = sorted(Path.home().glob(".cache/ottla-oracle/*/libs/kafka-metadata-*.jar"))


def a_disk(**files):
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    for name, data in files.items():
        disk.write_whole(f"{FOLDER}/{name}", data)
    return disk


def checkpoint(end, epoch=1):
    return f"{end:020d}-{epoch:010d}.checkpoint"


def segment(base):
    return f"{base:020d}.log"


def names(log):
    return [record.name for record in log.records if isinstance(record, k.TopicRecord)]


def topic(name):
    return k.TopicRecord(name=name, topic_id=name.encode().ljust(16, b"-"))


# Records


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def shape(fields, newest):
    """Fields as Kafka's schema lists them, in our words."""
    rows = []
    for field in fields:
        kind, array = field["type"].removeprefix("[]"), field["type"].startswith("[]")
        low = int(field["versions"].rstrip("+").partition("-")[0])
        nested = shape(field["fields"], newest) if "fields" in field else kind
        rows.append((snake(field["name"]), nested, array, low, field.get("tag"), "nullableVersions" in field))
    return rows


def our_shape(cls):
    rows = []
    for field in cls.FIELDS:
        nested = our_shape(field.kind) if isinstance(field.kind, type) else field.kind
        low = int(field.versions.partition("-")[0])
        rows.append((field.name, nested, field.array, low, field.tag, bool(field.nullable)))
    return rows


@pytest.mark.skipif(not JARS, reason="the jars of Apache Kafka are not here")
def test_the_records_are_those_of_apache_kafka():
    jar = zipfile.ZipFile(JARS[-1])
    theirs = {}
    for name in jar.namelist():
        if name.startswith("common/metadata/") and name.endswith(".json"):
            text = re.sub(r"^\s*//.*$", "", jar.read(name).decode(), flags=re.MULTILINE)
            schema = json.loads(text)
            newest = int(schema["validVersions"].rpartition("-")[2])
            theirs[schema["apiKey"]] = (newest, shape(schema["fields"], newest))
    assert {number: (newest, our_shape(cls)) for number, (cls, newest) in k.RECORDS.items()} == theirs


@pytest.mark.parametrize("number", k.RECORDS)
def test_a_record_of_every_kind_and_version_is_read_as_written(number):
    cls, newest = k.RECORDS[number]
    for version in range(newest + 1):
        record = cls()
        assert kraft_codec.decode(kraft_codec.encode(record, version)) == record


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "not a metadata record"),
        (b"\x02\x02\x00", "frame of version 2"),
        (b"\x01\x63\x00", "unknown type 99"),
        (b"\x01\x02\x01", "TopicRecord version 1"),
        (kraft_codec.encode(topic("t")) + b"\0", "1 bytes too many"),
        (kraft_codec.encode(topic("t"))[:-5], "TopicRecord"),
    ],
)
def test_what_is_not_known_is_refused(value, why):
    with pytest.raises(UnknownMetadata, match=why):
        kraft_codec.decode(value)


# Snapshot and log


def test_the_newest_whole_snapshot_counts_and_the_log_behind_it():
    whole = a_snapshot([topic("a"), topic("b")])
    disk = a_disk(
        **{
            checkpoint(5): a_snapshot([topic("old")]),
            checkpoint(8): whole,
            checkpoint(9): whole[: -len(a_snapshot([])) // 4],  # its footer is missing
            checkpoint(12) + ".part": whole,
            checkpoint(13) + ".deleted": whole,
            segment(5): a_log([topic("in snapshot")] * 3, start=5),
            segment(8): a_log([topic("c")], start=8, epoch=2),
        }
    )
    log = kraft_log.read(disk)
    assert names(log) == ["a", "b", "c"]
    assert (log.voters, log.last_epoch, log.end_offset) == ({1}, 2, 9)  # type: ignore[comparison-overlap]


def test_a_torn_tail_of_the_log_is_left_out():
    data = a_log([topic("a"), topic("b")])
    assert names(kraft_log.read(a_disk(**{segment(0): data[:-3]}))) == ["a"]


def test_damage_before_the_last_segment_is_refused():
    data = a_log([topic("a"), topic("b")])
    disk = a_disk(**{segment(0): data[:-3], segment(2): a_log([topic("c")], start=2)})
    with pytest.raises(MetadataDamaged):
        kraft_log.read(disk)


def test_a_log_that_begins_after_the_newest_snapshot_is_refused():
    disk = a_disk(**{checkpoint(3): a_snapshot([topic("a")]), segment(7): a_log([topic("b")], start=7)})
    with pytest.raises(MetadataDamaged, match="begins at offset 7"):
        kraft_log.read(disk)


def test_records_of_aborted_and_unfinished_metadata_transactions_are_dropped():
    records = [
        topic("a"),
        *(k.BeginTransaction(name="x"), topic("aborted"), k.AbortTransaction(reason="y")),
        *(k.BeginTransaction(), topic("b"), k.EndTransaction()),
        *(k.BeginTransaction(), topic("unfinished")),
    ]
    assert names(kraft_log.read(a_disk(**{segment(0): a_log(records)}))) == ["a", "b"]


def test_voters_of_a_fixed_quorum_are_read_from_its_state():
    state = {
        "leaderId": 1,
        "leaderEpoch": 2,
        "currentVoters": [{"voterId": 1}, {"voterId": 3}],
        "data_version": 0,
    }
    disk = a_disk(**{segment(0): a_log([topic("a")]), "quorum-state": json.dumps(state).encode()})
    assert kraft_log.read(disk).voters == {1, 3}


def test_an_unknown_control_record_is_refused():
    row = Record(0, 1, kraft_codec.control_key(9), b"")
    disk = a_disk(**{segment(0): build([row], control=True, leader_epoch=1)})
    with pytest.raises(UnknownMetadata, match="control record of the unknown type 9"):
        kraft_log.read(disk)


# The image


def image_of(*records):
    kraft = KraftImage()
    kraft.apply_all(records)
    return kraft


def change(**fields):
    return k.PartitionChange(partition_id=0, topic_id=TOPIC_ID, **fields)


def test_a_partition_changes_as_in_apache_kafka():
    kraft = image_of(
        *a_topic(replicas=(1, 2)),
        change(isr=[2], leader=2),
        change(isr=[], leader=-1, eligible_leader_replicas=[2], last_known_elr=[2]),
        change(leader=-1),  # the same again is a new epoch all the same
        change(replicas=[2, 3], adding_replicas=[3]),
    )
    partition = kraft.image.partition("t", 0)
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 3), (), NO_LEADER)
    assert (partition.leader_epoch, partition.partition_epoch) == (4 + 3, 9 + 4)
    assert (partition.elr, partition.last_known_elr, partition.adding) == ((2,), (2,), (3,))
    kraft.apply(k.ClearElr(topic_name=""))
    assert kraft.image.partition("t", 0).elr == ()


def test_partitions_come_in_any_order_and_are_in_theirs():
    """A group is found by the number of its partition."""
    created, *partitions = a_topic(partitions=5)
    kraft = image_of(created, *(partitions[at] for at in (3, 1, 0, 4, 2)))
    assert [each.index for each in kraft.image.topics["t"].partitions] == [0, 1, 2, 3, 4]
    with pytest.raises(UnknownMetadata, match="a partition before it is not"):
        image_of(created, partitions[1])


def test_settings_producer_ids_brokers_and_removed_topics():
    kraft = image_of(
        a_broker(1),
        a_broker(2),
        k.UnregisterBroker(broker_id=2),
        *a_topic(),
        *a_topic("gone", b"g" * 16),
        k.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
        k.ConfigRecord(resource_type=2, resource_name="t", name="segment.ms", value="5"),
        k.ConfigRecord(resource_type=2, resource_name="t", name="segment.ms", value=None),
        k.RemoveTopic(topic_id=b"g" * 16),
        k.ProducerIds(next_producer_id=7000),
        *features(),
    )
    assert list(kraft.image.topics) == ["t"]
    assert kraft.image.settings(2, "t") == {"retention.ms": "5"}
    assert kraft.image.next_producer_id == 7000
    assert list(kraft.brokers) == [1]
    assert kraft.features["metadata.version"] == 30


@pytest.mark.parametrize(
    "record",
    [
        k.RemoveTopic(topic_id=b"x" * 16),
        k.PartitionChange(partition_id=7, topic_id=TOPIC_ID),
        k.RemoveAccessControlEntry(id=b"x" * 16),
        k.BrokerRegistrationChange(broker_id=9, log_dirs=[b"x" * 16]),
    ],
)
def test_a_change_of_what_was_never_created_is_refused(record):
    with pytest.raises(UnknownMetadata, match="never created"):
        image_of(*a_topic(), record)
