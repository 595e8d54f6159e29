"""States of share-partitions for other brokers: Initialize, Read, Write, Delete, ReadSummary of share groups' state."""

from collections.abc import Callable
from typing import Any

from ottla import errors
from ottla.broker.requests.context import Context
from ottla.broker.sharing.persister import batches_of, coordinator_key
from ottla.coordination.share.records import ShareKey, ShareState
from ottla.wire.messages import delete_share_group_state as delete
from ottla.wire.messages import initialize_share_group_state as initialize
from ottla.wire.messages import read_share_group_state as read
from ottla.wire.messages import read_share_group_state_summary as summary
from ottla.wire.messages import write_share_group_state as write


async def initialize_state(
    request: initialize.InitializeShareGroupStateRequest, context: Context
) -> initialize.InitializeShareGroupStateResponse:
    async def one(key: ShareKey, part: Any) -> Any:
        await context.share_states.call(
            coordinator_key(key),
            lambda machine, token, now_ms: machine.on_initialize(
                key, part.state_epoch, part.start_offset, token, now_ms
            ),
        )
        return initialize.PartitionResult(partition=part.partition)

    results = await _each(request, one, initialize.PartitionResult, initialize.InitializeStateResult)
    return initialize.InitializeShareGroupStateResponse(results=results)


async def read_state(
    request: read.ReadShareGroupStateRequest, context: Context
) -> read.ReadShareGroupStateResponse:
    async def one(key: ShareKey, part: Any) -> Any:
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
        results=await _each(request, one, read.PartitionResult, read.ReadStateResult)
    )


async def write_state(
    request: write.WriteShareGroupStateRequest, context: Context
) -> write.WriteShareGroupStateResponse:
    async def one(key: ShareKey, part: Any) -> Any:
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
        results=await _each(request, one, write.PartitionResult, write.WriteStateResult)
    )


async def delete_state(
    request: delete.DeleteShareGroupStateRequest, context: Context
) -> delete.DeleteShareGroupStateResponse:
    async def one(key: ShareKey, part: Any) -> Any:
        await context.share_states.call(
            coordinator_key(key), lambda machine, token, now_ms: machine.on_delete(key, token)
        )
        return delete.PartitionResult(partition=part.partition)

    return delete.DeleteShareGroupStateResponse(
        results=await _each(request, one, delete.PartitionResult, delete.DeleteStateResult)
    )


async def read_summary(
    request: summary.ReadShareGroupStateSummaryRequest, context: Context
) -> summary.ReadShareGroupStateSummaryResponse:
    async def one(key: ShareKey, part: Any) -> Any:
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
        results=await _each(request, one, summary.PartitionResult, summary.ReadStateSummaryResult)
    )


async def _each(
    request: Any,
    one: Callable[[ShareKey, Any], Any],
    failed: Callable[..., Any],
    topic_result: Callable[..., Any],
) -> list[Any]:
    """Every partition for itself: one that fails does not take the others with it."""
    results = []
    for topic in request.topics:
        rows = []
        for part in topic.partitions:
            try:
                rows.append(await one(ShareKey(request.group_id, topic.topic_id, part.partition), part))
            except errors.ProtocolError as error:
                rows.append(
                    failed(partition=part.partition, error_code=error.code, error_message=error.message)
                )
        results.append(topic_result(topic_id=topic.topic_id, partitions=rows))
    return results
