"""Decisions on topics: create, delete, add partitions. The rules and words are Apache Kafka's."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ottla import errors
from ottla.config.definitions import check_sizes
from ottla.config.settings import Config
from ottla.config.topic import check_topic
from ottla.errors import ProtocolError
from ottla.frozen import frozen
from ottla.metadata.decision import Decision
from ottla.metadata.image import TOPIC_RESOURCE, Image, Topic
from ottla.metadata.names import CLUSTER_METADATA, check_name
from ottla.metadata.placement import place
from ottla.metadata.records import (
    NO_LEADER,
    ConfigSet,
    Ints,
    PartitionCreated,
    Record,
    TopicCreated,
    TopicDeleted,
)

if TYPE_CHECKING:
    from ottla.metadata.internal import NewTopic
    from ottla.wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic
    from ottla.wire.messages.create_topics import CreatableTopic
    from ottla.wire.messages.delete_topics import DeleteTopicState

PARTITIONS_PER_REQUEST_MAX = 10_000
NO_ID = bytes(16)
Charge = Callable[[int], None]  # takes so many changes of partitions from a quota; raises if it is used up


def free_of_charge(partitions: int) -> None:
    pass


@frozen
class TopicResult:
    """What became of one topic of a request; `partitions` and below are of a topic that was created."""

    name: str | None
    topic_id: bytes = NO_ID
    error: ProtocolError | None = None
    partitions: int = -1
    replication_factor: int = -1


def create_topics(
    topics: "Iterable[CreatableTopic | NewTopic]",
    image: Image,
    config: Config,
    new_id: Callable[[], bytes],
    charge: Charge = free_of_charge,
) -> Decision[list[TopicResult]]:
    """For validate_only, leave the records unwritten."""
    requested = list(topics)
    wanted = {topic.name: topic for topic in requested}
    names = Counter(topic.name for topic in requested)
    records: list[Record] = []
    results: list[TopicResult] = []
    remaining = PARTITIONS_PER_REQUEST_MAX
    for name, topic in wanted.items():
        try:
            if names[name] > 1:
                raise errors.InvalidRequest("Duplicate topic name.")
            replicas = _replicas_of_new(topic, image, config)
            remaining -= len(replicas)
            if remaining < 0:
                raise errors.PolicyViolation("Excessively large number of partitions per request.")
            _check_limits(image, config, len(results), PARTITIONS_PER_REQUEST_MAX - remaining)
            charge(len(replicas))
            topic_records = _records_of_new(topic, replicas, image, new_id())
        except ProtocolError as error:
            results.append(TopicResult(name, error=error))
        else:
            records += topic_records
            topic_id = topic_records[0].topic_id  # type: ignore[union-attr]
            results.append(TopicResult(name, topic_id, None, len(replicas), len(replicas[0])))
    return Decision(tuple(records), results)


def delete_topics(
    topics: "Iterable[DeleteTopicState]", image: Image, config: Config, charge: Charge = free_of_charge
) -> Decision[list[TopicResult]]:
    """Each by its name or by its topic id."""
    wanted = list(topics)
    names = Counter(topic.name for topic in wanted)
    ids = Counter(topic.topic_id for topic in wanted if topic.topic_id != NO_ID)
    records: dict[bytes, TopicDeleted] = {}
    results: dict[tuple[str | None, bytes], TopicResult] = {}
    for topic in wanted:
        try:
            if topic.name is not None and names[topic.name] > 1:
                raise errors.InvalidRequest("Duplicate topic name.")
            if ids[topic.topic_id] > 1:
                raise errors.InvalidRequest("Duplicate topic id.")
            doomed = _to_delete(topic.name, topic.topic_id, image, config)
            if doomed.topic_id in records:
                kind = "id" if topic.name is None else "name"
                raise errors.InvalidRequest(f"Duplicate topic {kind}.")
            charge(len(doomed.partitions))
        except ProtocolError as error:
            results[topic.name, topic.topic_id] = TopicResult(topic.name, topic.topic_id, error)
        else:
            records[doomed.topic_id] = TopicDeleted(doomed.topic_id)
            results[topic.name, topic.topic_id] = TopicResult(doomed.name, doomed.topic_id)
    return Decision(tuple(records.values()), list(results.values()))


def create_partitions(
    topics: "Iterable[CreatePartitionsTopic]", image: Image, config: Config, charge: Charge = free_of_charge
) -> Decision[list[TopicResult]]:
    requested = list(topics)
    wanted = {topic.name: topic for topic in requested}
    names = Counter(topic.name for topic in requested)
    records: list[Record] = []
    results: list[TopicResult] = []
    for name, topic in wanted.items():
        try:
            if names[name] > 1:
                raise errors.InvalidRequest("Duplicate topic name.")
            partition_records = _more_partitions(topic, image, config, len(records))
            charge(len(partition_records))
        except ProtocolError as error:
            results.append(TopicResult(name, error=error))
        else:
            records += partition_records
            results.append(TopicResult(name))
    return Decision(tuple(records), results)


def new_partition(topic_id: bytes, index: int, replicas: Ints, image: Image) -> PartitionCreated:
    """In sync are those that live; the first of them leads."""
    isr = tuple(broker for broker in replicas if image.may_lead(broker))
    leader = isr[0] if isr else NO_LEADER
    return PartitionCreated(topic_id, index, replicas, isr, leader)


def check_assignment(replicas: Sequence[int], image: Image) -> None:
    """What holds for every list of replicas that somebody wrote by hand."""
    if not replicas:
        raise errors.InvalidReplicaAssignment(
            "The manual partition assignment includes an empty replica list."
        )
    for broker in sorted(replicas):
        if broker not in image.brokers:
            raise errors.InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
    twice = [broker for broker, count in Counter(replicas).items() if count > 1]
    if twice:
        raise errors.InvalidReplicaAssignment(
            f"The manual partition assignment includes the broker {twice[0]} more than once."
        )


def _replicas_of_new(topic: "CreatableTopic | NewTopic", image: Image, config: Config) -> list[Ints]:
    if topic.name == CLUSTER_METADATA:
        raise errors.InvalidRequest(f"Creation of internal topic {topic.name} is prohibited.")
    check_name(topic.name)
    if topic.name in image.topics:
        raise errors.TopicAlreadyExists(f"Topic '{topic.name}' already exists.")
    alike = image.topics_alike(topic.name)
    if alike:
        raise errors.InvalidTopicException(
            f"Topic '{topic.name}' collides with existing topic: {sorted(alike)[0]}"
        )
    _check_settings(topic)
    if topic.assignments:
        return _by_hand(topic, image)
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise errors.InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise errors.InvalidReplicationFactor(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    partitions = config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    if partitions > PARTITIONS_PER_REQUEST_MAX:
        raise errors.PolicyViolation("Excessively large number of partitions per request.")
    factor = topic.replication_factor
    replicas = config.default_replication_factor if factor == -1 else factor
    return place(image.brokers.values(), partitions, replicas, start=image.partition_count)


def _check_settings(topic: "CreatableTopic | NewTopic") -> None:
    missing = [setting.name for setting in topic.configs if setting.value is None]
    if missing:
        raise errors.InvalidConfig(f"Null value not supported for topic configs: {','.join(missing)}")
    settings = {setting.name: setting.value for setting in topic.configs if setting.value is not None}
    check_sizes({}, settings)
    check_topic(settings)


def _by_hand(topic: "CreatableTopic | NewTopic", image: Image) -> list[Ints]:
    if topic.num_partitions != -1:
        raise errors.InvalidRequest(
            "A manual partition assignment was specified, but numPartitions was not set to -1."
        )
    if topic.replication_factor != -1:
        raise errors.InvalidRequest(
            "A manual partition assignment was specified, but replication factor was not set to -1."
        )
    assigned: dict[int, Ints] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in assigned:
            raise errors.InvalidReplicaAssignment(
                f"Found multiple manual partition assignments for partition {assignment.partition_index}"
            )
        check_assignment(assignment.broker_ids, image)
        assigned[assignment.partition_index] = tuple(assignment.broker_ids)
    if sorted(assigned) != list(range(len(assigned))):
        raise errors.InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    if len({len(replicas) for replicas in assigned.values()}) > 1:
        raise errors.InvalidReplicaAssignment("All partitions of a topic need the same number of replicas.")
    replicas = [assigned[index] for index in range(len(assigned))]
    _check_somebody_lives(replicas, image)
    return replicas


def _check_somebody_lives(assignments: Iterable[Ints], image: Image) -> None:
    for replicas in assignments:
        if not any(image.may_lead(broker) for broker in replicas):
            raise errors.InvalidReplicaAssignment(
                "All brokers specified in the manual partition assignment are fenced or "
                "in controlled shutdown."
            )


def _check_limits(image: Image, config: Config, topics: int, partitions: int) -> None:
    if len(image.topics) + topics >= config.ottla_topics_max:
        raise errors.PolicyViolation(f"There may be no more than {config.ottla_topics_max} topics.")
    if image.partition_count + partitions > config.ottla_partitions_max:
        raise errors.PolicyViolation(f"There may be no more than {config.ottla_partitions_max} partitions.")


def _records_of_new(
    topic: "CreatableTopic | NewTopic", replicas: list[Ints], image: Image, topic_id: bytes
) -> list[Record]:
    settings = {setting.name: setting.value for setting in topic.configs}
    return [
        TopicCreated(topic.name, topic_id),
        *(ConfigSet(TOPIC_RESOURCE, topic.name, name, value) for name, value in settings.items()),
        *(new_partition(topic_id, index, brokers, image) for index, brokers in enumerate(replicas)),
    ]


def _to_delete(name: str | None, topic_id: bytes, image: Image, config: Config) -> Topic:
    if not config.delete_topic_enable:
        raise errors.TopicDeletionDisabled
    if name is None and topic_id == NO_ID:
        raise errors.InvalidRequest("Neither topic name nor id were specified.")
    if name is not None and topic_id != NO_ID:
        raise errors.InvalidRequest("You may not specify both topic name and topic id.")
    if name is not None:
        topic = image.topics.get(name)
        if topic is None:
            raise errors.UnknownTopicOrPartition("This server does not host this topic-partition.")
        return topic
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        raise errors.UnknownTopicId("This server does not host this topic ID.")
    return topic


def _more_partitions(
    topic: "CreatePartitionsTopic", image: Image, config: Config, already: int
) -> list[Record]:
    existing = image.topics.get(topic.name)
    if existing is None:
        raise errors.UnknownTopicOrPartition
    have = len(existing.partitions)
    if topic.count == have:
        raise errors.InvalidPartitions(f"Topic already has {have} partition(s).")
    if topic.count < have:
        raise errors.InvalidPartitions(
            f"The topic {topic.name} currently has {have} partition(s); "
            f"{topic.count} would not be an increase."
        )
    more = topic.count - have
    if already + more > PARTITIONS_PER_REQUEST_MAX:
        raise errors.PolicyViolation("Excessively large number of partitions per request.")
    _check_limits(image, config, 0, already + more)
    factor = len(existing.partitions[0].replicas)
    if topic.assignments is None:
        replicas = place(image.brokers.values(), more, factor, start=image.partition_count)
    else:
        replicas = _more_by_hand(topic.assignments, more, factor, image)
    return [
        new_partition(existing.topic_id, have + index, brokers, image)
        for index, brokers in enumerate(replicas)
    ]


def _more_by_hand(
    assignments: "Sequence[CreatePartitionsAssignment]", more: int, factor: int, image: Image
) -> list[Ints]:
    if len(assignments) != more:
        raise errors.InvalidReplicaAssignment(
            f"Attempted to add {more} additional partition(s), "
            f"but only {len(assignments)} assignment(s) were specified."
        )
    for assignment in assignments:
        check_assignment(assignment.broker_ids, image)
        if len(assignment.broker_ids) != factor:
            raise errors.InvalidReplicaAssignment(
                "The manual partition assignment includes a partition with "
                f"{len(assignment.broker_ids)} replica(s), but this is not consistent "
                f"with previous partitions, which have {factor} replica(s)."
            )
    replicas = [tuple(assignment.broker_ids) for assignment in assignments]
    _check_somebody_lives(replicas, image)
    return replicas
