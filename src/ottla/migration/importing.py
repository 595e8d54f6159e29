"""Log folders of Apache Kafka become folders of ours: planned and checked first, then copied, and the
metadata last. Until that is written, a start on the copy is refused."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ottla.broker.assembly import METADATA_FOLDER, uuid_4
from ottla.broker.routes import FEATURES
from ottla.config.settings import Config
from ottla.errors import OttlaError, ProtocolError
from ottla.metadata.controller import Controller
from ottla.metadata.decision import Decision
from ottla.metadata.image import Image, created
from ottla.metadata.journal import Journal
from ottla.metadata.log import MetadataLog
from ottla.metadata.names import CONSUMER_OFFSETS, is_internal
from ottla.metadata.records import (
    NO_LEADER,
    ClusterCreated,
    ConfigSet,
    FeatureSet,
    PartitionCreated,
    ProducerIdsAllocated,
    Record,
    TopicCreated,
)
from ottla.migration import copying, our_metadata, refusals
from ottla.migration.kafka_folder import NO_DIRECTORY_ID, KafkaFolder, foreign_groups
from ottla.migration.kraft_image import KraftImage
from ottla.migration.kraft_log import MetadataLog as KraftLog
from ottla.migration.refusals import CannotImport
from ottla.migration.source_folder import OFFSET_FILES, copy_all, left_behind
from ottla.server.disk import OsDisk
from ottla.server.zookeeper.log import ZooKeeperLog
from ottla.storage import checkpoints
from ottla.storage.checkpoints import Meta
from ottla.storage.folder_names import partition_folder

Report = Callable[[str], None]


@dataclass(slots=True)
class BrokerPlan:
    """All log folders of one broker become one of ours."""

    node_id: int
    folders: list[KafkaFolder]
    target: str
    missing: list[str] = field(default_factory=list)

    @property
    def was_clean(self) -> bool:
        return all(folder.was_clean for folder in self.folders)

    @property
    def size_bytes(self) -> int:
        return sum(folder.size_bytes for folder in self.folders)


@dataclass(slots=True)
class Plan:
    cluster_id: str
    image: Image
    features: dict[str, int]
    brokers: list[BrokerPlan]
    sources: list[str]


def plan(sources: Sequence[str], data: str) -> Plan:
    """What an import would do. CannotImport says why it will not."""
    if len({os.path.realpath(path) for path in sources}) < len(sources):
        raise CannotImport("the same folder is given twice")
    copying.check_unused(sources)
    copying.check_target(data)
    folders = [KafkaFolder.open(path) for path in sources]
    cluster_id = _one_cluster(folders)
    kraft = KraftImage()
    kraft.apply_all(_newest_log(folders).records)
    refusals.check(kraft)
    brokers = _brokers(folders, kraft, data)
    _check_groups(brokers)
    return Plan(cluster_id, kraft.image, kraft.features, brokers, list(sources))


def _one_cluster(folders: list[KafkaFolder]) -> str:
    first = folders[0]
    for folder in folders:
        if folder.meta.cluster_id != first.meta.cluster_id:
            raise CannotImport(
                f"{folder.path} is of cluster {folder.meta.cluster_id}, {first.path} of {first.meta.cluster_id}"
            )
    return first.meta.cluster_id


def _newest_log(folders: list[KafkaFolder]) -> KraftLog:
    """The longest under the newest epoch, of a majority of the voters: the one that an election would choose,
    so it holds everything that was committed."""
    logs = {folder.meta.node_id: folder.metadata() for folder in folders if folder.has_metadata}
    if not logs:
        raise CannotImport(
            "no folder has __cluster_metadata-0: give the one of metadata.log.dir with --from too"
        )
    newest = max(logs.values(), key=lambda log: (log.last_epoch, log.end_offset))
    if not newest.voters:
        raise CannotImport(
            "the metadata log does not say who its voters are: has this Kafka ever been started?"
        )
    present = newest.voters & logs.keys()
    if len(present) * 2 <= len(newest.voters):
        missing = ", ".join(map(str, sorted(newest.voters - logs.keys())))
        raise CannotImport(
            f"{len(present)} of {len(newest.voters)} controllers cannot tell which end of the metadata log was "
            f"committed: give the folders of more of them with --from (missing: {missing})"
        )
    return max((logs[voter] for voter in present), key=lambda log: (log.last_epoch, log.end_offset))


def _brokers(folders: list[KafkaFolder], kraft: KraftImage, data: str) -> list[BrokerPlan]:
    image = kraft.image
    wanted = {replica for partition in image.partitions() for replica in partition.replicas} | {
        *kraft.brokers
    }
    imported = {folder.meta.node_id for folder in folders}
    if wanted - imported:
        raise CannotImport(
            f"the folders of broker {', '.join(map(str, sorted(wanted - imported)))} are missing: "
            "all brokers of a cluster are imported together, each with --from"
        )
    plans = []
    for node_id in sorted(wanted):
        own = [folder for folder in folders if folder.meta.node_id == node_id]
        target = data if len(wanted) == 1 else str(Path(data) / f"broker-{node_id}")
        for folder in own:
            folder.leave_strays(image)
        _check_directories(node_id, own, kraft)
        broker = BrokerPlan(node_id, own, target)
        broker.missing = _missing(broker, image)
        plans.append(broker)
    return plans


def _check_directories(node_id: int, folders: list[KafkaFolder], kraft: KraftImage) -> None:
    registered = kraft.brokers[node_id].directories if node_id in kraft.brokers else frozenset()
    lacking = registered - {folder.meta.directory_id for folder in folders}
    if lacking:
        names = ", ".join(checkpoints.uuid_text(directory_id) for directory_id in sorted(lacking))
        raise CannotImport(
            f"broker {node_id} has another log folder, with directory.id {names}: add it with --from"
        )
    seen: dict[tuple[str, int], str] = {}
    for folder in folders:
        for key in folder.partitions:
            if key in seen:
                raise CannotImport(f"{partition_folder(*key)} is in {seen[key]} and in {folder.path}")
            seen[key] = folder.path


def _missing(broker: BrokerPlan, image: Image) -> list[str]:
    here = {key for folder in broker.folders for key in folder.partitions}
    known: set[tuple[str, int]] = set()
    for folder in broker.folders:
        for name in OFFSET_FILES:
            known |= checkpoints.read_offsets(folder.disk, name).keys()
    missing = []
    for partition in image.partitions():
        key = partition.topic, partition.index
        if broker.node_id not in partition.replicas or key in here:
            continue
        name = partition_folder(*key)
        if key in known:
            raise CannotImport(
                f"broker {broker.node_id} had {name}, and its folder is gone: its records are lost"
            )
        missing.append(name)
    return missing


def _check_groups(brokers: list[BrokerPlan]) -> None:
    for broker in brokers:
        for folder in broker.folders:
            kinds = foreign_groups(folder, CONSUMER_OFFSETS)
            if kinds:
                listed = ", ".join(map(str, sorted(kinds)))
                raise CannotImport(
                    f"{folder.path}: {CONSUMER_OFFSETS} holds groups of an unknown kind (record types {listed}). "
                    "Delete those groups in Apache Kafka first"
                )


def run(plan: Plan, *, zookeeper: Config | None, report: Report) -> None:
    """Copy, then hand the metadata over. More than one broker needs a running ZooKeeper; `zookeeper` has the
    settings to reach it."""
    if zookeeper is not None:
        _check_empty(zookeeper, our_metadata.read_zookeeper(zookeeper))
    for broker in plan.brokers:
        copying.check_space(broker.target, broker.size_bytes)
    meter = copying.Meter(sum(broker.size_bytes for broker in plan.brokers))
    for broker in plan.brokers:
        _copy(broker, plan, meter)
    meter.close()
    copying.check_unused(plan.sources)
    first = plan.brokers[0]
    if zookeeper is None:
        disk = OsDisk(first.target)
        _write(Journal(disk, METADATA_FOLDER), first.node_id, records(plan, alone=first.node_id))
    else:
        asyncio.run(_write_to_zookeeper(zookeeper, records(plan, alone=None)))
    for broker in plan.brokers:
        _tell(broker, report)
    if plan.image.security.acls:
        report(
            f"{len(plan.image.security.acls)} ACLs: they are enforced where authorizer.class.name is set, as it was "
            "in server.properties"
        )


def records(plan: Plan, *, alone: int | None) -> list[Record]:
    """The metadata, ready to be applied. The cluster's id comes last: without it nobody starts.

    Leaders begin under new epochs. `alone` leads at once; in a cluster those in sync are elected as they come.
    """
    image = plan.image
    records: list[Record] = []
    for topic in image.topics.values():
        records.append(TopicCreated(topic.name, topic.topic_id))
        for partition in topic.partitions:
            records.append(_as_imported(created(partition), alone))
    for kind, name in sorted(image.configured()):
        records += [ConfigSet(kind, name, key, value) for key, value in image.settings(kind, name).items()]
    records += image.security.records()
    records.append(ProducerIdsAllocated(-1, image.next_producer_id))
    records += [FeatureSet(name, plan.features[name]) for name in FEATURES if plan.features.get(name)]
    records.append(ClusterCreated(plan.cluster_id))
    return records


def _as_imported(partition: PartitionCreated, alone: int | None) -> PartitionCreated:
    leads = alone is not None
    return PartitionCreated(
        partition.topic_id,
        partition.partition,
        partition.replicas,
        (alone,) if alone is not None else partition.isr,
        alone if alone is not None else NO_LEADER,
        partition.leader_epoch + 1,
        partition.partition_epoch + 1,
        elr=() if leads else partition.elr,
        last_known_elr=() if leads else partition.last_known_elr,
        adding=partition.adding,
        removing=partition.removing,
        recovery_state=partition.recovery_state,
    )


def _copy(broker: BrokerPlan, plan: Plan, meter: copying.Meter) -> None:
    copy_all(broker.folders, plan.image, broker.target, meter)
    disk = OsDisk(broker.target)
    if broker.was_clean:
        checkpoints.write_clean_mark(disk, -1)
    checkpoints.write_meta(disk, Meta(plan.cluster_id, broker.node_id, _directory_id(broker.folders)))
    copying.sync_folder(Path(broker.target))


def _directory_id(folders: list[KafkaFolder]) -> bytes:
    known = [folder.meta.directory_id for folder in folders if folder.meta.directory_id != NO_DIRECTORY_ID]
    return known[0] if known else uuid_4(os.urandom(16))


def _write(log: MetadataLog, node_id: int, records: list[Record]) -> None:
    controller = Controller(node_id, log, Config({"node.id": str(node_id)}))
    controller.open()
    answers: list[object] = []
    controller.submit(lambda image, config: Decision(tuple(records), None), answers.append)
    log.close()
    _check_written(answers[0])


async def _write_to_zookeeper(config: Config, records: list[Record]) -> None:
    log = ZooKeeperLog.of(config)
    controller = Controller(config.node_id, log, config)
    try:
        async with asyncio.timeout(our_metadata.CONNECT_S):
            controller.open()
            while controller.epoch is None:
                await asyncio.sleep(0.01)
            _check_empty(config, controller.image)
            done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            controller.submit(lambda image, config: Decision(tuple(records), None), done.set_result)
            _check_written(await done)
    except TimeoutError as error:
        raise OttlaError(
            f"ZooKeeper at {config.zookeeper_connect} did not answer within {our_metadata.CONNECT_S:.0f} s"
        ) from error
    finally:
        log.close()


def _check_empty(config: Config, image: Image) -> None:
    if image.cluster_id or image.topics:
        raise CannotImport(
            f"{config.zookeeper_connect} holds a cluster already: import into a path of its own (HOST:PORT/PATH)"
        )


def _check_written(answer: object) -> None:
    if isinstance(answer, ProtocolError):
        raise answer


def _tell(broker: BrokerPlan, report: Report) -> None:
    count = sum(len(folder.partitions) for folder in broker.folders)
    report(f"broker {broker.node_id}: {count} partitions, {broker.size_bytes >> 20} MiB, in {broker.target}")
    if not broker.was_clean:
        report(f"broker {broker.node_id} was not stopped cleanly: its logs are checked at the first start")
    for line in left_behind(broker.folders):
        report(line)
    internal = [name for name in broker.missing if is_internal(name.rpartition("-")[0])]
    for name in broker.missing:
        if name not in internal:
            report(f"broker {broker.node_id} had no folder for {name}: it starts empty there")
    if internal:
        report(
            f"broker {broker.node_id} had no folder for {len(internal)} partitions of internal topics: they start empty"
        )
