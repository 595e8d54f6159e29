"""What a metadata log of Apache Kafka adds up to: our image, its brokers, and what we have no home for."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.metadata import records as ours
from ottla.metadata.image import Image, Partition, changed
from ottla.metadata.security import removed
from ottla.migration import security
from ottla.migration.kraft_codec import UnknownMetadata
from ottla.migration.kraft_schema import (
    LEADER_UNCHANGED,
    RECOVERY_UNCHANGED,
    AccessControlEntry,
    BrokerRegistrationChange,
    BrokerState,
    ClearElr,
    ClientQuota,
    ConfigRecord,
    DelegationToken,
    FeatureLevel,
    KraftRecord,
    NoOp,
    PartitionChange,
    PartitionRecord,
    ProducerIds,
    RegisterBroker,
    RegisterController,
    RemoveAccessControlEntry,
    RemoveDelegationToken,
    RemoveTopic,
    RemoveUserScramCredential,
    TopicRecord,
    UnregisterBroker,
    UserScramCredential,
    ZkMigrationState,
)
from ottla.wire.schema import ZERO_UUID

_MIGRATION_DONE = (0, 3)  # none, or through with it


@dataclass(slots=True)
class Registered:
    rack: str | None
    directories: frozenset[bytes]
    cordoned: frozenset[bytes] = frozenset()


@dataclass(slots=True)
class KraftImage:
    """`homeless` are the things in force that a broker of ours would not honour, by a key of their own."""

    image: Image = field(default_factory=Image)
    brokers: dict[int, Registered] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    homeless: dict[object, str] = field(default_factory=dict)
    acls: dict[bytes, ours.AclAdded] = field(default_factory=dict)
    early: dict[bytes, dict[int, ours.PartitionCreated]] = field(default_factory=dict)
    """Partitions, by topic, whose lower numbers are not there yet."""

    def apply_all(self, records: Iterable[KraftRecord]) -> None:
        for record in records:
            try:
                self.apply(record)
            except (KeyError, IndexError) as error:
                raise UnknownMetadata(f"{record!r} changes something that was never created") from error
        for early in self.early.values():
            for partition in early.values():
                raise UnknownMetadata(f"{partition!r} is there, and a partition before it is not")

    def apply(self, record: KraftRecord) -> None:
        match record:
            case TopicRecord():
                self.image.apply(ours.TopicCreated(record.name, record.topic_id))
            case RemoveTopic():
                self.image.apply(ours.TopicDeleted(record.topic_id))
                self.early.pop(record.topic_id, None)
            case PartitionRecord():
                self._create(record)
            case PartitionChange():
                self._change(record)
            case ClearElr():
                self._clear_elr(record.topic_name)
            case ConfigRecord():
                self.image.apply(
                    ours.ConfigSet(record.resource_type, record.resource_name, record.name, record.value)
                )
            case ProducerIds():
                self.image.apply(ours.ProducerIdsAllocated(-1, record.next_producer_id))
            case FeatureLevel():
                self.features[record.name] = record.feature_level
            case RegisterBroker() | UnregisterBroker() | BrokerRegistrationChange():
                self._apply_broker(record)
            case NoOp() | BrokerState() | RegisterController():
                pass  # who is alive does not outlast the migration
            case AccessControlEntry() | RemoveAccessControlEntry():
                self._apply_acl(record)
            case UserScramCredential():
                self.image.apply(security.scram(record))
            case ClientQuota():
                self.image.apply(security.quota(record))
            case DelegationToken():
                self.image.apply(security.token(record))
            case RemoveDelegationToken():
                self.image.apply(ours.TokenRemoved(record.token_id))
            case RemoveUserScramCredential():
                self.image.apply(ours.ScramRemoved(record.name, record.mechanism))
            case _:
                self._apply_homeless(record)

    def _apply_acl(self, record: AccessControlEntry | RemoveAccessControlEntry) -> None:
        """Removed by an id, which our rules do not have."""
        if isinstance(record, AccessControlEntry):
            self.acls[record.id] = security.acl(record)
            self.image.apply(self.acls[record.id])
        else:
            self.image.apply(removed(self.acls.pop(record.id)))

    def _apply_broker(self, record: RegisterBroker | UnregisterBroker | BrokerRegistrationChange) -> None:
        match record:
            case RegisterBroker():
                self.brokers[record.broker_id] = Registered(
                    record.rack,
                    frozenset(record.log_dirs) - {ZERO_UUID},
                    frozenset(record.cordoned_log_dirs or ()),
                )
            case UnregisterBroker():
                self.brokers.pop(record.broker_id, None)
            case BrokerRegistrationChange():
                broker = self.brokers[record.broker_id]
                if record.log_dirs:
                    broker.directories = frozenset(record.log_dirs)
                if record.cordoned_log_dirs is not None:
                    broker.cordoned = frozenset(record.cordoned_log_dirs)

    def _create(self, record: PartitionRecord) -> None:
        """Apache Kafka writes the partitions of a topic in any order; ours come one after the other."""
        early = self.early.setdefault(record.topic_id, {})
        early[record.partition_id] = _created(record)
        partitions = self.image.topics_by_id[record.topic_id].partitions
        while (created := early.pop(len(partitions), None)) is not None:
            self.image.apply(created)

    def _change(self, record: PartitionChange) -> None:
        """The rules are Apache Kafka's: a leader that is named, even the same, begins a new epoch."""
        topic = self.image.topics_by_id[record.topic_id]
        before = topic.partitions[record.partition_id]
        new_leader = record.leader != LEADER_UNCHANGED
        recovery = record.leader_recovery_state
        after = before._replace(
            isr=_or(record.isr, before.isr),
            replicas=_or(record.replicas, before.replicas),
            removing=_or(record.removing_replicas, before.removing),
            adding=_or(record.adding_replicas, before.adding),
            elr=_or(record.eligible_leader_replicas, before.elr),
            last_known_elr=_or(record.last_known_elr, before.last_known_elr),
            leader=record.leader if new_leader else before.leader,
            leader_epoch=before.leader_epoch + new_leader,
            partition_epoch=before.partition_epoch + 1,
            recovery_state=before.recovery_state if recovery == RECOVERY_UNCHANGED else recovery,
        )
        self.image.apply(changed(after))

    def _clear_elr(self, topic_name: str) -> None:
        topics = [self.image.topics[topic_name]] if topic_name else list(self.image.topics.values())
        for topic in topics:
            for partition in list(topic.partitions):
                if partition.elr or partition.last_known_elr:
                    self.image.apply(changed(_without_elr(partition)))

    def _apply_homeless(self, record: KraftRecord) -> None:
        match record:
            case ZkMigrationState():
                if record.zk_migration_state in _MIGRATION_DONE:
                    self.homeless.pop("zookeeper", None)
                else:
                    self.homeless["zookeeper"] = "a migration from ZooKeeper that has not ended"
            case _:
                raise TypeError(f"{record!r} is no metadata record")


def _created(record: PartitionRecord) -> ours.PartitionCreated:
    return ours.PartitionCreated(
        record.topic_id,
        record.partition_id,
        tuple(record.replicas),
        tuple(record.isr),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        adding=tuple(record.adding_replicas),
        removing=tuple(record.removing_replicas),
        recovery_state=record.leader_recovery_state,
    )


def _without_elr(partition: Partition) -> Partition:
    return partition._replace(elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1)


def _or(values: list[int] | None, before: tuple[int, ...]) -> tuple[int, ...]:
    return before if values is None else tuple(values)
