"""Log folders as Apache Kafka leaves them, built byte by byte: no JVM is needed to test what reads them."""

import json

from ottla.migration import kraft_codec
from ottla.migration import kraft_schema as k
from ottla.migration.kraft_snapshot import snapshot
from ottla.storage import checkpoints
from ottla.storage.checkpoints import uuid_text
from ottla.wire.batch import build
from ottla.wire.records import Record

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
TOPIC_ID = bytes(range(16))
VERSIONS = {k.PartitionRecord: 2, k.PartitionChange: 2, k.RegisterBroker: 4, k.BrokerRegistrationChange: 3}


def directory_id(node_id, at=0):
    return bytes([node_id, at]) + bytes(14)


def voters(*node_ids):
    return k.Voters(
        voters=[k.Voter(voter_id=each, kraft_version_feature=k.VersionRange()) for each in node_ids]
    )


def versioned(records):
    return [(record, VERSIONS.get(type(record), 0)) for record in records]


def a_snapshot(records, *, of=(1,), epoch=1):
    return snapshot(versioned(records), epoch=epoch, now_ms=1000, voters=voters(*of))


def a_log(records, *, start=0, epoch=1):
    """One batch for each record."""
    out = b""
    for at, (record, version) in enumerate(versioned(records)):
        row = Record(start + at, 1000, None, kraft_codec.encode(record, version))
        out += build([row], base_offset=start + at, leader_epoch=epoch)
    return out


def a_topic(name="t", topic_id=TOPIC_ID, replicas=(1,), partitions=1):
    yield k.TopicRecord(name=name, topic_id=topic_id)
    for at in range(partitions):
        yield k.PartitionRecord(
            partition_id=at,
            topic_id=topic_id,
            replicas=list(replicas),
            isr=list(replicas),
            leader=replicas[0],
            leader_epoch=4,
            partition_epoch=9,
            directories=[directory_id(each) for each in replicas],
        )


def a_broker(node_id=1, directories=1):
    return k.RegisterBroker(
        broker_id=node_id,
        broker_epoch=3,
        log_dirs=[directory_id(node_id, at) for at in range(directories)],
        cordoned_log_dirs=[],
    )


def features(**levels):
    known = {
        "metadata.version": 30,
        "group.version": 1,
        "transaction.version": 2,
        "share.version": 1,
        **levels,
    }
    return [k.FeatureLevel(name=name, feature_level=level) for name, level in known.items()]


def write_folder(
    path, *, node_id=1, at=0, metadata=None, partitions=None, with_directory_id=True, clean=True
):
    """`metadata` are files of __cluster_metadata-0, `partitions` folders with their topic id and log."""
    path.mkdir(parents=True)
    lines = ["#", "version=1", f"cluster.id={CLUSTER}", f"node.id={node_id}"]
    if with_directory_id:
        lines.append(f"directory.id={uuid_text(directory_id(node_id, at))}")
    (path / "meta.properties").write_text("\n".join(lines) + "\n")
    if metadata is not None:
        (path / "__cluster_metadata-0").mkdir()
        for name, data in metadata.items():
            (path / "__cluster_metadata-0" / name).write_bytes(data)
    for name, (topic_id, log) in (partitions or {}).items():
        (path / name).mkdir()
        (path / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(topic_id)}")
        (path / name / f"{0:020d}.log").write_bytes(log)
    if clean:
        (path / checkpoints.CLEAN_MARK).write_text(json.dumps({"version": 0, "brokerEpoch": 3}))
    return path


def some_records(count=3):
    return build([Record(at, 1000 + at, b"k", b"v%d" % at) for at in range(count)], leader_epoch=4)


def metadata_files(records, *, end=20, epoch=1, of=(1,)):
    return {f"{end:020d}-{epoch:010d}.checkpoint": a_snapshot(records, of=of, epoch=epoch)}
