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
        topics=[_creatable(each) for each in topics],
        timeout_ms=cluster.settings.request_timeout_ms,
        validate_only=validate_only,
    )
    pending = {each.name for each in request.topics}
    created: list[CreatedTopic] = []

    async def attempt() -> None:
        request.topics = [each for each in request.topics if each.name in pending]
        answer = await cluster.ask_controller(request)
        failure: OttlaError | None = None
        for each in answer.topics:
            if each.error_code:
                failure = error_for(
                    each.error_code, f"{each.name}: {each.error_message or errors.NAMES.get(each.error_code)}"
                )
            else:
                pending.discard(each.name)
                created.append(
                    CreatedTopic(each.name, each.topic_id, each.num_partitions, each.replication_factor)
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
    for each in by_id:
        state = DeleteTopicState(topic_id=each)
        state.name = None
        request.topics.append(state)

    async def attempt() -> None:
        answer = await cluster.ask_controller(request, at_least=6 if by_id else 0)
        for each in answer.responses:
            if each.error_code == errors.UnknownTopicOrPartition.code and each.name is not None:
                raise missing_topic(each.name)
            if each.error_code:
                label = each.name if each.name is not None else each.topic_id.hex()
                raise error_for(
                    each.error_code, f"{label}: {each.error_message or errors.NAMES.get(each.error_code)}"
                )

    await _until_told(cluster, attempt, "topics could not be deleted")


async def list_topics(cluster: Cluster, *, internal: bool = True) -> dict[str, Topic]:
    await cluster.retrying(lambda: cluster.refresh(None), "topics could not be listed")
    found = cluster.image.topics
    return {name: found[name] for name in sorted(found) if internal or not found[name].internal}


async def describe(cluster: Cluster, names: Iterable[str]) -> dict[str, Topic]:
    """Topics with their partitions; a missing one is an error that names it."""
    names = list(names)

    async def attempt() -> dict[str, Topic]:
        request = MetadataRequest(allow_auto_topic_creation=False)
        request.topics = [MetadataRequestTopic(name=name) for name in names]
        answer = await cluster.ask(request, at_least=4)
        cluster.image.update(answer)
        for told in answer.topics:
            if told.error_code:
                raise topic_error(told.name, told.error_code)
        return {name: cluster.image.topics[name] for name in names}

    return await _until_told(cluster, attempt, "topics could not be described")


@frozen
class EligibleLeaders:
    """Replicas outside of the ISR that have every committed record; who led last when nobody else is left."""

    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()


async def eligible_leaders(cluster: Cluster, names: Iterable[str]) -> dict[TopicPartition, EligibleLeaders]:
    """Of all partitions of these topics; empty from a broker that does not serve the question."""
    wanted = [TopicRequest(name=name) for name in names]
    found: dict[TopicPartition, EligibleLeaders] = {}

    async def attempt() -> None:
        request = DescribeTopicPartitionsRequest(topics=wanted)
        while True:
            answer = await cluster.ask(request)
            for topic in answer.topics:
                for each in topic.partitions:
                    found[TopicPartition(topic.name or "", each.partition_index)] = EligibleLeaders(
                        tuple(each.eligible_leader_replicas or ()), tuple(each.last_known_elr or ())
                    )
            if answer.next_cursor is None:
                return
            cursor = answer.next_cursor
            request.cursor = Cursor(topic_name=cursor.topic_name, partition_index=cursor.partition_index)

    with suppress(NotSupported):
        await cluster.retrying(attempt, "topics could not be described")
    return found


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
        for each in (await cluster.ask_controller(request)).results:
            if each.error_code:
                raise error_for(
                    each.error_code, f"{each.name}: {each.error_message or errors.NAMES.get(each.error_code)}"
                )

    await _until_told(cluster, attempt, "partitions could not be added")


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
        for told in answer.responses:
            for p in told.partitions:
                if p.error_code:
                    raise error_for(p.error_code, f"{told.name}-{p.partition_index}: {p.error_message}")

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


async def _until_told(cluster: Cluster, attempt: Callable[[], Awaitable[T]], what: str) -> T:
    """As `retrying`, but "unknown topic" is an answer here and not a sign of stale metadata."""

    async def once() -> T | OttlaError:
        try:
            return await attempt()
        except (errors.UnknownTopicOrPartition, errors.UnknownTopicId) as error:
            return error

    result = await cluster.retrying(once, what)
    if isinstance(result, OttlaError):
        raise result
    return result
