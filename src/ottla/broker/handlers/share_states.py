"""States of share-partitions for other brokers: Initialize, Read, Write, Delete, ReadSummary of share groups' state."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from ottla import errors
from ottla.broker.requests.context import Context
from ottla.broker.sharing.persister import STATE_UNITS, batches_of, coordinator_key
from ottla.coordination.share.records import ShareKey, ShareState
from ottla.wire.messages import delete_share_group_state as delete
from ottla.wire.messages import initialize_share_group_state as initialize
from ottla.wire.messages import read_share_group_state as read
from ottla.wire.messages import read_share_group_state_summary as summary
from ottla.wire.messages import write_share_group_state as write

BATCH_UNITS = 5_000  # of work, what a batch of offsets takes
STATES_MAX = 200_000  # of one broker's shards, some hundred megabytes


async def initialize_state(
    request: initialize.InitializeShareGroupStateRequest, context: Context
) -> initialize.InitializeShareGroupStateResponse:
    async def one(key: ShareKey, part: initialize.PartitionData) -> initialize.PartitionResult:
        _check_room(key, context)
        await context.share_states.call(
            coordinator_key(key),
            lambda machine, token, now_ms: machine.on_initialize(
                key, part.state_epoch, part.start_offset, token, now_ms
            ),
        )
        return initialize.PartitionResult(partition=part.partition)

    results = await _for_each_partition(
        request, context, one, initialize.PartitionResult, initialize.InitializeStateResult
    )
    return initialize.InitializeShareGroupStateResponse(results=results)


def _check_room(key: ShareKey, context: Context) -> None:
    """States cost memory as long as they live: a new one is of a partition that exists, and has to find room."""
    name = context.metadata.topic_name(key.topic_id)
    if context.metadata.image.partition(name, key.partition) is None:
        raise errors.UnknownTopicOrPartition()
    if context.share_states.count() >= STATES_MAX:
        raise errors.PolicyViolation(f"There may be no more than {STATES_MAX} states of share-partitions.")


async def read_state(
    request: read.ReadShareGroupStateRequest, context: Context
) -> read.ReadShareGroupStateResponse:
    async def one(key: ShareKey, part: read.PartitionData) -> read.PartitionResult:
        state: ShareState | None = await context.share_states.call(
            coordinator_key(key),
            lambda machine, token, now_ms: machine.on_read(key, part.leader_epoch, token, now_ms),
        )
        if state is None:
            raise errors.UnknownTopicOrPartition()
        return read.PartitionResult(
            partition=part.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[
                read.StateBatch(
                    first_offset=batch.first_offset,
                    last_offset=batch.last_offset,
                    delivery_state=batch.state,
                    delivery_count=batch.delivery_count,
                    due_ms=batch.due_ms,
                    verdict=batch.verdict,
                )
                for batch in state.batches
            ],
        )

    return read.ReadShareGroupStateResponse(
        results=await _for_each_partition(request, context, one, read.PartitionResult, read.ReadStateResult)
    )


async def write_state(
    request: write.WriteShareGroupStateRequest, context: Context
) -> write.WriteShareGroupStateResponse:
    async def one(key: ShareKey, part: write.PartitionData) -> write.PartitionResult:
        await context.pace(BATCH_UNITS * len(part.state_batches))
        batches = batches_of(part.state_batches)
        await context.share_states.call(
            coordinator_key(key),
            lambda machine, token, now_ms: machine.on_write(
                key,
                part.state_epoch,
                part.leader_epoch,
                part.start_offset,
                part.delivery_complete_count,
                batches,
                token,
                now_ms,
            ),
        )
        return write.PartitionResult(partition=part.partition)

    return write.WriteShareGroupStateResponse(
        results=await _for_each_partition(
            request, context, one, write.PartitionResult, write.WriteStateResult
        )
    )


async def delete_state(
    request: delete.DeleteShareGroupStateRequest, context: Context
) -> delete.DeleteShareGroupStateResponse:
    async def one(key: ShareKey, part: delete.PartitionData) -> delete.PartitionResult:
        await context.share_states.call(
            coordinator_key(key), lambda machine, token, now_ms: machine.on_delete([key], token)
        )
        return delete.PartitionResult(partition=part.partition)

    return delete.DeleteShareGroupStateResponse(
        results=await _for_each_partition(
            request, context, one, delete.PartitionResult, delete.DeleteStateResult
        )
    )


async def read_summary(
    request: summary.ReadShareGroupStateSummaryRequest, context: Context
) -> summary.ReadShareGroupStateSummaryResponse:
    async def one(key: ShareKey, part: summary.PartitionData) -> summary.PartitionResult:
        state: ShareState | None = await context.share_states.call(
            coordinator_key(key), lambda machine, token, now_ms: machine.on_summary(key, token)
        )
        if state is None:
            raise errors.UnknownTopicOrPartition()
        return summary.PartitionResult(
            partition=part.partition,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )

    return summary.ReadShareGroupStateSummaryResponse(
        results=await _for_each_partition(
            request, context, one, summary.PartitionResult, summary.ReadStateSummaryResult
        )
    )


class _Partition(Protocol):
    partition: int


Part = TypeVar("Part", bound=_Partition)
Part_co = TypeVar("Part_co", bound=_Partition, covariant=True)
PartResult = TypeVar("PartResult")
TopicResult = TypeVar("TopicResult")


class _Topic(Protocol[Part_co]):
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[Part_co]: ...


class _Request(Protocol[Part_co]):
    group_id: str

    @property
    def topics(self) -> Sequence[_Topic[Part_co]]: ...


async def _for_each_partition(
    request: _Request[Part],
    context: Context,
    one: Callable[[ShareKey, Part], Awaitable[PartResult]],
    failed: Callable[..., PartResult],
    topic_result: Callable[..., TopicResult],
) -> list[TopicResult]:
    """Every partition for itself: one that fails does not take the others with it."""
    results = []
    for topic in request.topics:
        rows = []
        for part in topic.partitions:
            await context.pace(STATE_UNITS)
            try:
                rows.append(await one(ShareKey(request.group_id, topic.topic_id, part.partition), part))
            except errors.ProtocolError as error:
                rows.append(
                    failed(partition=part.partition, error_code=error.code, error_message=error.message)
                )
        results.append(topic_result(topic_id=topic.topic_id, partitions=rows))
    return results
