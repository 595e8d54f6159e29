"""What the cluster looks like: the sum of the metadata log. Only `apply` changes it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from ottla.frozen import frozen
from ottla.metadata.records import (
    NO_LEADER,
    RECOVERED,
    BrokerFenced,
    BrokerRegistered,
    BrokerStopping,
    BrokerUnfenced,
    BrokerUnregistered,
    ClusterCreated,
    ConfigSet,
    ControllerChanged,
    Endpoint,
    FeatureSet,
    Ints,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    Record,
    SoleReplicasRestarted,
    TopicCreated,
    TopicDeleted,
)
from ottla.metadata.security import Security

TOPIC_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE = 2, 4, 32
CLIENT_METRICS_RESOURCE = 16

_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


class Partition(NamedTuple):
    """One partition as the controller decided it; replaced as a whole by every change.

    A named tuple, as many thousands are made and changed when a broker comes or goes.
    """

    topic: str
    topic_id: bytes
    index: int  # type: ignore[assignment]  # tuples have an `index` too
    replicas: Ints
    isr: Ints
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: Ints = ()
    last_known_elr: Ints = ()
    adding: Ints = ()
    removing: Ints = ()
    directories: tuple[bytes, ...] = ()
    recovery_state: int = RECOVERED

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass(slots=True)
class Topic:
    name: str
    topic_id: bytes
    partitions: list[Partition] = field(default_factory=list)


@frozen
class Broker:
    broker_id: int
    epoch: int
    incarnation: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    directories: tuple[bytes, ...] = ()
    fenced: bool = True
    stopping: bool = False

    @property
    def may_lead(self) -> bool:
        return not self.fenced and not self.stopping

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)


class Image:
    """Topics, partitions, brokers, settings, features and producer ids.

    `version` counts applied records; `position` is the number of the next entry of the log.
    """

    def __init__(self) -> None:
        self.version = 0
        self.position = 0
        self.cluster_id = ""
        self.controller_id = -1
        self.controller_epoch = 0
        self.features: dict[str, int] = {}
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self.partition_count = 0
        self.next_producer_id = 0
        self.security = Security()
        self._settings: dict[tuple[int, str], dict[str, str]] = {}
        self.client_metrics: set[str] = set()  # names of subscriptions
        self._alike: dict[str, set[str]] = {}
        self._watchers: list[Callable[[Record], None]] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Image) and self._state() == other._state()

    __hash__ = None  # type: ignore[assignment]

    # Questions

    def partition(self, topic: str, index: int) -> Partition | None:
        known = self.topics.get(topic)
        if known is None or not 0 <= index < len(known.partitions):
            return None
        return known.partitions[index]

    def partitions(self) -> Iterator[Partition]:
        for topic in self.topics.values():
            yield from topic.partitions

    def settings(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What was set for a resource while running; the broker resource "" is the default of all brokers."""
        return self._settings.get((resource_type, name), _NO_SETTINGS)

    def configured(self) -> set[tuple[int, str]]:
        """Resources (type and name) that have settings of their own."""
        return set(self._settings)

    def topics_alike(self, name: str) -> set[str]:
        """Topics whose metric names are the same, because dots and underscores are one there."""
        return self._alike.get(_folded(name), set())

    def may_lead(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.may_lead

    def watch(self, callback: Callable[[Record], None]) -> None:
        """Called after every applied record, in order; one that changes many partitions is heard as a
        PartitionChanged of each."""
        self._watchers.append(callback)

    # The one way to change

    def apply_entry(self, position: int, records: Iterable[Record]) -> None:
        """An entry of the log, or a snapshot of all before `position + 1`.

        A watcher that fails must not leave half an entry applied: it is heard of at the end.
        """
        failures: list[Exception] = []
        for record in records:
            for change in self._change(record):
                failures += self._tell(change)
        self.position = position + 1
        if failures:
            raise failures[0]

    def apply(self, record: Record) -> None:
        for change in self._change(record):
            for failure in self._tell(change):
                raise failure

    def _change(self, record: Record) -> Iterable[Record]:
        """Changes the state; returns the records that watchers are given."""
        self._apply(record)
        self.version += 1
        if isinstance(record, SoleReplicasRestarted) and self._watchers:
            return [
                changed(partition)
                for partition in self.partitions()
                if partition.replicas == (record.broker_id,)
            ]
        return (record,)

    def _tell(self, record: Record) -> list[Exception]:
        failures: list[Exception] = []
        for callback in self._watchers:
            try:
                callback(record)
            except Exception as error:
                failures.append(error)
        return failures

    def records(self) -> Iterator[Record]:
        """What rebuilds this image when applied to an empty one: a snapshot."""
        if self.cluster_id:
            yield ClusterCreated(self.cluster_id)
        yield ControllerChanged(self.controller_id, self.controller_epoch)
        yield from (FeatureSet(name, level) for name, level in self.features.items())
        for broker in self.brokers.values():
            yield BrokerRegistered(
                broker.broker_id,
                broker.epoch,
                broker.incarnation,
                broker.endpoints,
                broker.rack,
                broker.directories,
            )
            if not broker.fenced:
                yield BrokerUnfenced(broker.broker_id)
            if broker.stopping:
                yield BrokerStopping(broker.broker_id)
        for topic in self.topics.values():
            yield TopicCreated(topic.name, topic.topic_id)
            yield from (created(partition) for partition in topic.partitions)
        for (kind, name), settings in self._settings.items():
            yield from (ConfigSet(kind, name, key, value) for key, value in settings.items())
        yield from self.security.records()
        yield ProducerIdsAllocated(-1, self.next_producer_id)

    def _apply(self, record: Record) -> None:
        match record:
            case PartitionChanged():
                topic = self.topics_by_id[record.topic_id]
                topic.partitions[record.partition] = _partition(topic.name, record)
            case PartitionCreated():
                topic = self.topics_by_id[record.topic_id]
                topic.partitions.append(_partition(topic.name, record))
                self.partition_count += 1
            case SoleReplicasRestarted():
                self._restart_sole_replicas(record.broker_id)
            case TopicCreated():
                topic = Topic(record.name, record.topic_id)
                self.topics[record.name] = self.topics_by_id[record.topic_id] = topic
                self._alike.setdefault(_folded(record.name), set()).add(record.name)
            case TopicDeleted():
                self._delete_topic(record.topic_id)
            case ConfigSet():
                self._set(record)
            case ProducerIdsAllocated():
                self.next_producer_id = record.next_producer_id
            case FeatureSet():
                self.features[record.name] = record.level
                if record.level == 0:
                    del self.features[record.name]
            case ClusterCreated():
                self.cluster_id = record.cluster_id
            case ControllerChanged():
                self.controller_id, self.controller_epoch = record.controller_id, record.epoch
            case _:
                if not self.security.apply(record):
                    self._apply_broker(record)

    def _restart_sole_replicas(self, broker_id: int) -> None:
        alone = (broker_id,)
        for topic in self.topics.values():
            topic.partitions = [
                partition._replace(
                    leader=broker_id,
                    isr=alone,
                    elr=(),
                    last_known_elr=(),
                    leader_epoch=partition.leader_epoch + 1,
                    partition_epoch=partition.partition_epoch + 1,
                )
                if partition.replicas == alone
                else partition
                for partition in topic.partitions
            ]

    def _apply_broker(self, record: Record) -> None:
        match record:
            case BrokerRegistered():
                self.brokers[record.broker_id] = Broker(
                    record.broker_id,
                    record.epoch,
                    record.incarnation,
                    record.endpoints,
                    record.rack,
                    record.directories,
                )
            case BrokerUnregistered():
                del self.brokers[record.broker_id]
            case BrokerFenced():
                self._set_broker(record.broker_id, fenced=True, stopping=False)
            case BrokerUnfenced():
                self._set_broker(record.broker_id, fenced=False, stopping=False)
            case BrokerStopping():
                broker = self.brokers[record.broker_id]
                self._set_broker(record.broker_id, fenced=broker.fenced, stopping=True)
            case _:
                raise TypeError(f"{record!r} is no metadata record")

    def _set_broker(self, broker_id: int, *, fenced: bool, stopping: bool) -> None:
        broker = self.brokers[broker_id]
        self.brokers[broker_id] = Broker(
            broker_id,
            broker.epoch,
            broker.incarnation,
            broker.endpoints,
            broker.rack,
            broker.directories,
            fenced,
            stopping,
        )

    def _delete_topic(self, topic_id: bytes) -> None:
        topic = self.topics_by_id.pop(topic_id)
        del self.topics[topic.name]
        self.partition_count -= len(topic.partitions)
        self._settings.pop((TOPIC_RESOURCE, topic.name), None)
        alike = self._alike[_folded(topic.name)]
        alike.discard(topic.name)
        if not alike:
            del self._alike[_folded(topic.name)]

    def _set(self, record: ConfigSet) -> None:
        resource = record.resource_type, record.resource_name
        settings = self._settings.setdefault(resource, {})
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value
        if not settings:
            del self._settings[resource]
        if record.resource_type == CLIENT_METRICS_RESOURCE:
            (self.client_metrics.add if settings else self.client_metrics.discard)(record.resource_name)

    def _state(self) -> tuple[object, ...]:
        return (
            self.cluster_id,
            self.controller_id,
            self.controller_epoch,
            self.features,
            self.brokers,
            self.topics,
            self.partition_count,
            self.next_producer_id,
            self.security,
            self._settings,
            self._alike,
        )


def created(partition: Partition) -> PartitionCreated:
    return PartitionCreated(**_fields(partition))


def changed(partition: Partition) -> PartitionChanged:
    return PartitionChanged(**_fields(partition))


def _fields(partition: Partition) -> dict[str, Any]:
    return {
        "topic_id": partition.topic_id,
        "partition": partition.index,
        "replicas": partition.replicas,
        "isr": partition.isr,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "elr": partition.elr,
        "last_known_elr": partition.last_known_elr,
        "adding": partition.adding,
        "removing": partition.removing,
        "directories": partition.directories,
        "recovery_state": partition.recovery_state,
    }


def _partition(topic: str, record: PartitionCreated | PartitionChanged) -> Partition:
    return Partition(
        topic=topic,
        topic_id=record.topic_id,
        index=record.partition,
        replicas=record.replicas,
        isr=record.isr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        elr=record.elr,
        last_known_elr=record.last_known_elr,
        adding=record.adding,
        removing=record.removing,
        directories=record.directories,
        recovery_state=record.recovery_state,
    )


def _folded(name: str) -> str:
    return name.replace(".", "_")


__all__ = ["NO_LEADER", "Broker", "Image", "Partition", "Topic", "changed", "created"]
