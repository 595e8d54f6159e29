"""Topics and partitions: create, describe, grow, truncate, move, delete."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import TypeVar

from ottla import errors
from ottla.client.core.cluster import Cluster, Topic
from ottla.client.core.dialogue import check
from ottla.client.core.leaders import ask_leaders
from ottla.client.core.names import missing_topic, topic_error
from ottla.client.core.offsets import by_topic
from ottla.client.errors import NotSupported
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError, error_for
from ottla.frozen import frozen
from ottla.security.acls import Operation
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

T = TypeVar("T")


@frozen
class NewTopic:
    """A topic to create. -1 leaves a number to the broker; `assignments` places replicas by hand."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] = ()


@frozen
class CreatedTopic:
    name: str
    id: bytes
    partitions: int
    replication_factor: int


async def create(
    cluster: Cluster, topics: Iterable[NewTopic], *, validate_only: bool = False
) -> list[CreatedTopic]:
    """All or the first refusal; those that could be created stay."""
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics],
        timeout_ms=cluster.settings.request_timeout_ms,
        validate_only=validate_only,
    )
    pending = {topic.name for topic in request.topics}
    created: list[CreatedTopic] = []

    async def attempt() -> None:
        request.topics = [topic for topic in request.topics if topic.name in pending]
        answer = await cluster.ask_controller(request)
        failure: OttlaError | None = None
        for result in answer.topics:
            if result.error_code:
                failure = error_for(
                    result.error_code,
                    f"{result.name}: {result.error_message or errors.NAMES.get(result.error_code)}",
                )
            else:
                pending.discard(result.name)
                created.append(
                    CreatedTopic(
                        result.name, result.topic_id, result.num_partitions, result.replication_factor
                    )
                )
        if failure is not None:
            raise failure

    await cluster.retrying(attempt, "topics could not be created")
    return created


async def create_one(cluster: Cluster, new: NewTopic) -> CreatedTopic:
    return (await create(cluster, [new]))[0]


async def delete(cluster: Cluster, names: Iterable[str] = (), *, ids: Iterable[bytes] = ()) -> None:
    """By name or by id. Ids need a broker that knows them."""
    by_id = list(ids)
    names = list(names)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=names,
        timeout_ms=cluster.settings.request_timeout_ms,
    )
    for topic_id in by_id:
        state = DeleteTopicState(topic_id=topic_id)
        state.name = None
        request.topics.append(state)

    async def attempt() -> None:
        answer = await cluster.ask_controller(request, at_least=6 if by_id else 0)
        for result in answer.responses:
            if result.error_code == errors.UnknownTopicOrPartition.code and result.name is not None:
                raise missing_topic(result.name)
            if result.error_code:
                label = result.name if result.name is not None else result.topic_id.hex()
                raise error_for(
                    result.error_code,
                    f"{label}: {result.error_message or errors.NAMES.get(result.error_code)}",
                )

    await _retrying_unless_unknown(cluster, attempt, "topics could not be deleted")


async def list_topics(cluster: Cluster, *, internal: bool = True) -> dict[str, Topic]:
    await cluster.retrying(lambda: cluster.refresh(None), "topics could not be listed")
    topics = cluster.image.topics
    return {name: topics[name] for name in sorted(topics) if internal or not topics[name].internal}


async def describe(cluster: Cluster, names: Iterable[str]) -> dict[str, Topic]:
    """Topics with their partitions; a missing one is an error that names it."""
    names = list(names)

    async def attempt() -> dict[str, Topic]:
        request = MetadataRequest(allow_auto_topic_creation=False)
        request.topics = [MetadataRequestTopic(name=name) for name in names]
        answer = await cluster.ask(request, at_least=4)
        cluster.image.update(answer)
        for topic in answer.topics:
            if topic.error_code:
                raise topic_error(topic.name or "", topic.error_code)
        return {name: cluster.image.topics[name] for name in names}

    return await _retrying_unless_unknown(cluster, attempt, "topics could not be described")


async def authorized_operations(cluster: Cluster, names: Iterable[str]) -> dict[str, frozenset[Operation]]:
    """By the rules of the cluster for the user that asks (KIP-430)."""
    request = MetadataRequest(allow_auto_topic_creation=False, include_topic_authorized_operations=True)
    request.topics = [MetadataRequestTopic(name=name) for name in names]
    answer = await cluster.retrying(
        lambda: cluster.ask(request, at_least=8), "the rights to topics could not be asked for"
    )
    return {topic.name or "": _operations(topic.topic_authorized_operations) for topic in answer.topics}


def _operations(bits: int) -> frozenset[Operation]:
    """The lowest number there is stands for: not told."""
    known = 0 if bits < 0 else bits
    return frozenset(operation for operation in Operation if known >> operation & 1)


@frozen
class EligibleLeaders:
    """Replicas outside of the ISR that have every committed record; who led last when nobody else is left."""

    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()


async def eligible_leaders(cluster: Cluster, names: Iterable[str]) -> dict[TopicPartition, EligibleLeaders]:
    """Of all partitions of these topics; empty from a broker that does not serve the question."""
    wanted = [TopicRequest(name=name) for name in names]
    leaders: dict[TopicPartition, EligibleLeaders] = {}

    async def attempt() -> None:
        request = DescribeTopicPartitionsRequest(topics=wanted)
        while True:
            answer = await cluster.ask(request)
            for topic in answer.topics:
                for partition in topic.partitions:
                    leaders[TopicPartition(topic.name or "", partition.partition_index)] = EligibleLeaders(
                        tuple(partition.eligible_leader_replicas or ()), tuple(partition.last_known_elr or ())
                    )
            if answer.next_cursor is None:
                return
            cursor = answer.next_cursor
            request.cursor = Cursor(topic_name=cursor.topic_name, partition_index=cursor.partition_index)

    with suppress(NotSupported):
        await cluster.retrying(attempt, "topics could not be described")
    return leaders


async def add_partitions(
    cluster: Cluster,
    topic: str,
    count: int,
    *,
    assignments: Sequence[Sequence[int]] | None = None,
    validate_only: bool = False,
) -> None:
    """Grows a topic to `count` partitions. Keys hash to other partitions from then on."""
    grown = CreatePartitionsTopic(name=topic, count=count)
    grown.assignments = (
        None if assignments is None else [CreatePartitionsAssignment(broker_ids=list(a)) for a in assignments]
    )
    request = CreatePartitionsRequest(
        topics=[grown], timeout_ms=cluster.settings.request_timeout_ms, validate_only=validate_only
    )

    async def attempt() -> None:
        for result in (await cluster.ask_controller(request)).results:
            if result.error_code:
                raise error_for(
                    result.error_code,
                    f"{result.name}: {result.error_message or errors.NAMES.get(result.error_code)}",
                )

    await _retrying_unless_unknown(cluster, attempt, "partitions could not be added")


async def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Deletes what lies before these offsets (-1: everything so far); the new first offsets."""

    async def ask(node: int, partitions: list[TopicPartition]) -> dict[TopicPartition, int | OttlaError]:
        topics = [
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=p, offset=before[TopicPartition(topic, p)])
                    for p in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=cluster.settings.request_timeout_ms)
        answer = await cluster.ask(request, node)
        return {
            TopicPartition(t.name, p.partition_index): error_for(p.error_code)
            if p.error_code
            else p.low_watermark
            for t in answer.topics
            for p in t.partitions
        }

    return await ask_leaders(cluster, before, ask, "records could not be deleted")


async def elect_leaders(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None, *, unclean: bool = False
) -> dict[TopicPartition, OttlaError | None]:
    """Preferred (or unclean) election for some partitions or (None) all; what became of each."""
    request = ElectLeadersRequest(election_type=int(unclean), timeout_ms=cluster.settings.request_timeout_ms)
    request.topic_partitions = (
        None
        if partitions is None
        else [TopicPartitions(topic=t, partitions=i) for t, i in by_topic(partitions).items()]
    )

    async def attempt() -> dict[TopicPartition, OttlaError | None]:
        answer = await cluster.ask_controller(request, at_least=int(unclean))
        check(answer)
        return {
            TopicPartition(t.topic, p.partition_id): error_for(p.error_code, p.error_message)
            if p.error_code
            else None
            for t in answer.replica_election_results
            for p in t.partition_result
        }

    return await cluster.retrying(attempt, "leaders could not be elected")


async def reassign(cluster: Cluster, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Moves partitions to other replicas; None cancels a move under way."""
    topics = []
    for topic, indexes in by_topic(targets).items():
        moved = []
        for p in indexes:
            replicas = targets[TopicPartition(topic, p)]
            partition = ReassignablePartition(partition_index=p)
            partition.replicas = None if replicas is None else list(replicas)
            moved.append(partition)
        topics.append(ReassignableTopic(name=topic, partitions=moved))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=cluster.settings.request_timeout_ms, topics=topics
    )

    async def attempt() -> None:
        answer = await cluster.ask_controller(request)
        check(answer)
        for topic in answer.responses:
            for p in topic.partitions:
                if p.error_code:
                    raise error_for(p.error_code, f"{topic.name}-{p.partition_index}: {p.error_message}")

    await cluster.retrying(attempt, "partitions could not be moved")


@frozen
class Reassignment:
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def reassignments(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """The moves under way."""
    request = ListPartitionReassignmentsRequest(timeout_ms=cluster.settings.request_timeout_ms)
    request.topics = (
        None
        if partitions is None
        else [
            ListPartitionReassignmentsTopics(name=t, partition_indexes=i)
            for t, i in by_topic(partitions).items()
        ]
    )

    async def attempt() -> dict[TopicPartition, Reassignment]:
        answer = await cluster.ask_controller(request)
        check(answer)
        return {
            TopicPartition(t.name, p.partition_index): Reassignment(
                tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
            )
            for t in answer.topics
            for p in t.partitions
        }

    return await cluster.retrying(attempt, "reassignments could not be listed")


def _creatable(topic: NewTopic) -> CreatableTopic:
    # With replicas placed by hand the protocol wants both numbers left out.
    by_hand = bool(topic.assignments)
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if by_hand else topic.partitions,
        replication_factor=-1 if by_hand else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=i, broker_ids=list(brokers))
            for i, brokers in enumerate(topic.assignments)
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


async def _retrying_unless_unknown(cluster: Cluster, attempt: Callable[[], Awaitable[T]], failure: str) -> T:
    """As `retrying`, but "unknown topic" is an answer here and not a sign of stale metadata."""

    async def once() -> T | OttlaError:
        try:
            return await attempt()
        except (errors.UnknownTopicOrPartition, errors.UnknownTopicId) as error:
            return error

    result = await cluster.retrying(once, failure)
    if isinstance(result, OttlaError):
        raise result
    return result
