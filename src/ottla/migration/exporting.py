"""Our log folders become folders that Apache Kafka 4.3 starts from: the logs are copied, the metadata becomes a
snapshot of its own log."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.broker.assembly import METADATA_FOLDER
from ottla.config.group import GROUP_KEYS, UNUSED_GROUP_KEYS
from ottla.config.settings import Config
from ottla.config.topic import INTERNAL_SEGMENT_BYTES, TOPIC_KEYS
from ottla.errors import OttlaError
from ottla.frozen import frozen
from ottla.metadata.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, Broker, Image, Partition
from ottla.metadata.names import is_internal
from ottla.metadata.records import NO_LEADER
from ottla.migration import copying, kraft_schema, our_metadata, security
from ottla.migration.kraft_schema import KraftRecord, Voters
from ottla.migration.kraft_snapshot import snapshot
from ottla.migration.refusals import METADATA_VERSION_MAX
from ottla.migration.source_folder import OFFSET_FILES, SourceFolder, copy_all, left_behind
from ottla.server.disk import OsDisk
from ottla.storage import checkpoints
from ottla.storage.checkpoints import Meta
from ottla.storage.folder_names import partition_folder
from ottla.storage.ownership import KAFKA_METADATA, contents
from ottla.storage.partition_files import write_topic_id

LISTENER = "CONTROLLER"
# The snapshot stands for entries before this offset. Apache Kafka takes the next epoch when it elects.
END_OFFSET, EPOCH = 100, 1
BROKER_EPOCH = 1
METADATA_TOPIC_ID = bytes(15) + b"\x01"
_RECORD_VERSIONS: dict[type[KraftRecord], int] = {
    kraft_schema.PartitionRecord: 2,
    kraft_schema.RegisterBroker: 4,
}

Report = Callable[[str], None]


class CannotExport(OttlaError):
    """The folder is not what Apache Kafka could go on with."""


@frozen
class Address:
    host: str
    port: int


def open_folder(path: str) -> SourceFolder:
    disk = OsDisk(path)
    meta = checkpoints.read_meta(disk)
    if meta is None:
        raise CannotExport(f"{path} has no {checkpoints.META_PROPERTIES}: it is no log folder")
    inside = contents(disk)
    if inside.of_kafka:
        raise CannotExport(f"{path} is a log folder of Apache Kafka already")
    folder = SourceFolder(path, meta, disk, list(inside.partitions), list(inside.marked))
    if not folder.was_clean:
        raise CannotExport(
            f"{path} was not stopped cleanly: start the broker and stop it (SIGTERM), then export"
        )
    return folder


@dataclass(slots=True)
class BrokerPlan:
    node_id: int
    directory_id: bytes
    folders: list[SourceFolder]
    target: str

    def without_folder(self, image: Image) -> list[tuple[str, int]]:
        here = {key for folder in self.folders for key in folder.partitions}
        keys = [(p.topic, p.index) for p in image.partitions() if self.node_id in p.replicas]
        return [key for key in keys if key not in here]


@dataclass(slots=True)
class Plan:
    image: Image
    brokers: list[BrokerPlan]
    voters: dict[int, Address]
    sources: list[str]


def plan(sources: Sequence[str], to: str, voters: Mapping[int, Address], zookeeper: Config | None) -> Plan:
    """`voters` are the controllers-to-be and where they will listen."""
    copying.check_unused(sources)
    copying.check_target(to)
    folders = [open_folder(path) for path in sources]
    image = (
        our_metadata.read_zookeeper(zookeeper) if zookeeper else our_metadata.read_journal(folders[0].disk)
    )
    if not image.cluster_id:
        where = zookeeper.zookeeper_connect if zookeeper else f"{sources[0]}/{METADATA_FOLDER}"
        raise CannotExport(f"{where} holds no metadata; for a broker of a cluster, name it with --zookeeper")
    for folder in folders:
        if folder.meta.cluster_id != image.cluster_id:
            raise CannotExport(
                f"{folder.path} is of cluster {folder.meta.cluster_id}, not {image.cluster_id}"
            )
        folder.leave_strays(image)
    brokers = _brokers(folders, image, to)
    unknown = sorted(voters.keys() - {broker.node_id for broker in brokers})
    if unknown or not voters:
        raise CannotExport(
            f"broker {unknown[0] if unknown else '?'} is to be a controller, but is not exported"
        )
    return Plan(image, brokers, dict(voters), list(sources))


def _brokers(folders: list[SourceFolder], image: Image, to: str) -> list[BrokerPlan]:
    wanted = {replica for partition in image.partitions() for replica in partition.replicas} | {
        *image.brokers
    }
    exported = {folder.meta.node_id for folder in folders}
    if wanted - exported:
        raise CannotExport(
            f"the folders of broker {', '.join(map(str, sorted(wanted - exported)))} are missing: all brokers of a "
            "cluster are exported together, each with --data"
        )
    plans = []
    for node_id in sorted(exported):
        own = [folder for folder in folders if folder.meta.node_id == node_id]
        target = to if len(exported) == 1 else str(Path(to) / f"broker-{node_id}")
        broker = BrokerPlan(node_id, own[0].meta.directory_id, own, target)
        _check_complete(broker, image)
        plans.append(broker)
    return plans


def _check_complete(broker: BrokerPlan, image: Image) -> None:
    """All folders of the broker, and every partition that had records. One that never had any has no folder."""
    registered = image.brokers.get(broker.node_id)
    named = {folder.meta.directory_id for folder in broker.folders}
    if registered is not None and not named.issuperset(registered.directories):
        raise CannotExport(
            f"broker {broker.node_id} has {len(registered.directories)} log folders, and {len(named)} of them "
            "are named: name each with --data"
        )
    written: set[tuple[str, int]] = set()  # checkpoints list the others at offset 0
    for folder in broker.folders:
        for name in OFFSET_FILES:
            written |= {key for key, at in checkpoints.read_offsets(folder.disk, name).items() if at > 0}
    for key in broker.without_folder(image):
        if key in written:
            raise CannotExport(
                f"broker {broker.node_id} had {partition_folder(*key)}, and its folder is gone: its records are lost"
            )


def run(plan: Plan, *, report: Report) -> None:
    total = sum(folder.size_bytes for broker in plan.brokers for folder in broker.folders)
    copying.check_space(plan.brokers[0].target, total)
    meter = copying.Meter(total)
    now_ms = time.time_ns() // 1_000_000
    metadata = [(record, _RECORD_VERSIONS.get(type(record), 0)) for record in kraft_records(plan, report)]
    whole = snapshot(metadata, epoch=EPOCH, now_ms=now_ms, voters=_voters(plan))
    features = [(record, 0) for record in _features(plan.image)]
    bootstrap = snapshot(features, epoch=0, now_ms=now_ms)
    for broker in plan.brokers:
        copy_all(broker.folders, plan.image, broker.target, meter)
        _write_metadata(broker, plan.image.cluster_id, whole, bootstrap)
    meter.close()
    copying.check_unused(plan.sources)
    for broker in plan.brokers:
        for key in broker.without_folder(plan.image):
            if not is_internal(key[0]):
                report(
                    f"empty: {partition_folder(*key)} never had a record, and has no folder; Kafka makes one"
                )
        _tell(broker, report)


def kraft_records(plan: Plan, report: Report) -> Iterator[KraftRecord]:
    """The image as Apache Kafka's own snapshots list it: features first."""
    image = plan.image
    yield from _features(image)
    directories = {broker.node_id: broker.directory_id for broker in plan.brokers}
    for node_id, directory_id in directories.items():
        yield _registered(node_id, image.brokers.get(node_id), directory_id)
    for topic in image.topics.values():
        yield kraft_schema.TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for partition in topic.partitions:
            yield _partition(partition, directories)
    yield from _settings(image, report)
    yield from security.exported(image.security)
    if image.next_producer_id:
        yield kraft_schema.ProducerIds(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)


def _features(image: Image) -> Iterator[KraftRecord]:
    levels = {
        "metadata.version": METADATA_VERSION_MAX,
        "eligible.leader.replicas.version": 1,
        **image.features,
    }
    for name, level in levels.items():
        yield kraft_schema.FeatureLevel(name=name, feature_level=level)


def _registered(node_id: int, broker: Broker | None, directory_id: bytes) -> KraftRecord:
    """Fenced, as a broker that has stopped. Its epoch is in its mark of a clean stop too: Apache Kafka lets a
    replica whose stop was not clean lead only if nobody else can."""
    endpoints = [
        kraft_schema.Endpoint(name=endpoint.name, host=endpoint.host, port=endpoint.port, security_protocol=0)
        for endpoint in (broker.endpoints if broker is not None else ())
    ]
    newest = kraft_schema.FeatureRange(
        name="metadata.version", min_supported_version=7, max_supported_version=METADATA_VERSION_MAX
    )
    return kraft_schema.RegisterBroker(
        broker_id=node_id,
        incarnation_id=os.urandom(16),
        broker_epoch=BROKER_EPOCH,
        end_points=endpoints,
        features=[newest],
        rack=broker.rack if broker is not None else None,
        fenced=True,
        log_dirs=[directory_id],
        cordoned_log_dirs=[],
    )


def _partition(partition: Partition, directories: dict[int, bytes]) -> KraftRecord:
    """Without a leader: one is elected when a replica in sync, or an eligible one, is there."""
    return kraft_schema.PartitionRecord(
        partition_id=partition.index,
        topic_id=partition.topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=NO_LEADER,
        leader_recovery_state=partition.recovery_state,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
        directories=[directories[replica] for replica in partition.replicas],
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _settings(image: Image, report: Report) -> Iterator[KraftRecord]:
    for kind, name in sorted(image.configured()):
        for setting, value in image.settings(kind, name).items():
            if not _is_kafkas(kind, setting):
                report(f"left behind: the setting {setting}={value}, which Apache Kafka 4.3 does not have")
                continue
            yield kraft_schema.ConfigRecord(resource_type=kind, resource_name=name, name=setting, value=value)
    if "min.insync.replicas" not in image.settings(BROKER_RESOURCE, ""):
        # Clusters with eligible leader replicas have it as a setting of the cluster.
        yield kraft_schema.ConfigRecord(
            resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value="1"
        )


def _is_kafkas(kind: int, setting: str) -> bool:
    """With a setting that Apache Kafka does not know, it would refuse every later change of the same topic or group."""
    if kind == TOPIC_RESOURCE:
        return setting in TOPIC_KEYS or setting == INTERNAL_SEGMENT_BYTES.name
    if kind == GROUP_RESOURCE:
        return setting in GROUP_KEYS or setting in UNUSED_GROUP_KEYS
    return not setting.startswith(("ottla.", "errors.deadletterqueue."))


def _voters(plan: Plan) -> Voters:
    directories = {broker.node_id: broker.directory_id for broker in plan.brokers}
    return Voters(
        voters=[
            kraft_schema.Voter(
                voter_id=node_id,
                voter_directory_id=directories[node_id],
                endpoints=[kraft_schema.VoterEndpoint(name=LISTENER, host=address.host, port=address.port)],
                kraft_version_feature=kraft_schema.VersionRange(max_supported_version=1),
            )
            for node_id, address in sorted(plan.voters.items())
        ]
    )


def _write_metadata(broker: BrokerPlan, cluster_id: str, whole: bytes, bootstrap: bytes) -> None:
    disk = OsDisk(broker.target)
    disk.make_folder(KAFKA_METADATA)
    disk.write_whole(f"{KAFKA_METADATA}/{END_OFFSET:020d}-{EPOCH:010d}.checkpoint", whole)
    write_topic_id(disk, KAFKA_METADATA, METADATA_TOPIC_ID)
    disk.write_whole("bootstrap.checkpoint", bootstrap)
    checkpoints.write_clean_mark(disk, BROKER_EPOCH)
    checkpoints.write_meta(disk, Meta(cluster_id, broker.node_id, broker.directory_id))
    copying.sync_folder(Path(broker.target, KAFKA_METADATA))
    copying.sync_folder(Path(broker.target))


def _tell(broker: BrokerPlan, report: Report) -> None:
    count = sum(len(folder.partitions) for folder in broker.folders)
    report(f"broker {broker.node_id}: {count} partitions in {broker.target}")
    for line in left_behind(broker.folders):
        report(line)
