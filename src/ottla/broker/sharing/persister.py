"""The states of share-partitions, wherever their coordinator is: at this broker, or at another one."""

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from ottla import errors
from ottla.broker.cluster.metadata import Metadata
from ottla.broker.cluster.peers import Lane, Peers
from ottla.broker.settings import Settings
from ottla.broker.sharing.states import ShareStateShards
from ottla.broker.waits import Wait
from ottla.coordination.share.records import Batch, ShareKey, ShareState
from ottla.coordination.share.state import ShareEffects, ShareStates
from ottla.effects import Token
from ottla.metadata.names import SHARE_GROUP_STATE
from ottla.wire.messages import delete_share_group_state as delete_state
from ottla.wire.messages import initialize_share_group_state as initialize_state
from ottla.wire.messages import read_share_group_state as read_state
from ottla.wire.messages import read_share_group_state_summary as summary_state
from ottla.wire.messages import write_share_group_state as write_state
from ottla.wire.schema import Request

STATE_UNITS = 30_000  # of work, what it takes to ask for or write the state of a partition

R = TypeVar("R")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class _Refusable(Protocol):
    """What an answer says of one partition, whichever request it answers."""

    error_code: int
    error_message: str | None


class _TopicResult(Protocol[Result_co]):
    @property
    def partitions(self) -> Sequence[Result_co]: ...


class _Response(Protocol[Result_co]):
    @property
    def results(self) -> Sequence[_TopicResult[Result_co]]: ...


def coordinator_key(key: ShareKey) -> str:
    """What FindCoordinator is asked with, and what the hash is taken of."""
    topic_id = base64.urlsafe_b64encode(key.topic_id).rstrip(b"=").decode()
    return f"{key.group_id}:{topic_id}:{key.partition}"


class Persister:
    """Reads and writes states. Answers come when they are committed."""

    def __init__(
        self,
        node_id: int,
        metadata: Metadata,
        shards: ShareStateShards,
        peers: Peers,
        settings: Settings,
    ) -> None:
        self._node_id, self._metadata, self._shards = node_id, metadata, shards
        self._peers, self._settings = peers, settings

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState | None:
        def here(machine: ShareStates, token: Token[ShareState | None], now_ms: int) -> ShareEffects:
            return machine.on_read(key, leader_epoch, token, now_ms)

        return await self._ask(key, here, lambda: _read_request(key, leader_epoch), 0, _read_answer)

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        def here(machine: ShareStates, token: Token[None], now_ms: int) -> ShareEffects:
            return machine.on_initialize(key, state_epoch, start_offset, token, now_ms)

        await self._ask(key, here, lambda: _initialize_request(key, state_epoch, start_offset), 0, _checked)

    async def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[Batch, ...],
    ) -> None:
        def here(machine: ShareStates, token: Token[None], now_ms: int) -> ShareEffects:
            return machine.on_write(
                key, state_epoch, leader_epoch, start_offset, delivery_complete_count, batches, token, now_ms
            )

        def request() -> write_state.WriteShareGroupStateRequest:
            return _write_request(
                key, state_epoch, leader_epoch, start_offset, delivery_complete_count, batches
            )

        await self._ask(key, here, request, 1, _checked)

    async def delete(self, key: ShareKey) -> None:
        def here(machine: ShareStates, token: Token[None], now_ms: int) -> ShareEffects:
            return machine.on_delete([key], token)

        await self._ask(key, here, lambda: _delete_request(key), 0, _checked)

    async def summary(self, key: ShareKey) -> ShareState | None:
        def here(machine: ShareStates, token: Token[ShareState | None], now_ms: int) -> ShareEffects:
            return machine.on_summary(key, token)

        return await self._ask(key, here, lambda: _summary_request(key), 1, _summary_answer)

    async def _ask(
        self,
        key: ShareKey,
        here: Callable[[ShareStates, Token[R], int], ShareEffects],
        request: Callable[[], Request[_Response[Result]]],
        version: int,
        answer: Callable[[Result], R],
    ) -> R:
        await self._metadata.ensure_topic(SHARE_GROUP_STATE)
        name = coordinator_key(key)
        state = self._metadata.image.partition(SHARE_GROUP_STATE, self._shards.index_of(name))
        leader = -1 if state is None else state.leader
        if leader == self._node_id:
            return await self._shards.call(name, here)
        if leader < 0:
            raise errors.CoordinatorNotAvailable()
        wait: Wait[_Response[Result]] = Wait()
        timeout_ms = self._settings.now.request_timeout_ms
        self._peers.ask(leader, Lane.SHARES, request(), version, wait.set, timeout_ms=timeout_ms)
        return answer((await wait).results[0].partitions[0])


def batches_of(sent: Iterable[read_state.StateBatch | write_state.StateBatch]) -> tuple[Batch, ...]:
    return tuple(
        Batch(
            batch.first_offset,
            batch.last_offset,
            batch.delivery_state,
            batch.delivery_count,
            batch.due_ms,
            batch.verdict,
        )
        for batch in sent
    )


def _read_request(key: ShareKey, leader_epoch: int) -> read_state.ReadShareGroupStateRequest:
    partition = read_state.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
    topic = read_state.ReadStateData(topic_id=key.topic_id, partitions=[partition])
    return read_state.ReadShareGroupStateRequest(group_id=key.group_id, topics=[topic])


def _initialize_request(
    key: ShareKey, state_epoch: int, start_offset: int
) -> initialize_state.InitializeShareGroupStateRequest:
    partition = initialize_state.PartitionData(
        partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
    )
    topic = initialize_state.InitializeStateData(topic_id=key.topic_id, partitions=[partition])
    return initialize_state.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[topic])


def _write_request(
    key: ShareKey,
    state_epoch: int,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: tuple[Batch, ...],
) -> write_state.WriteShareGroupStateRequest:
    partition = write_state.PartitionData(
        partition=key.partition,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=delivery_complete_count,
        state_batches=[
            write_state.StateBatch(
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                delivery_state=batch.state,
                delivery_count=batch.delivery_count,
                due_ms=batch.due_ms,
                verdict=batch.verdict,
            )
            for batch in batches
        ],
    )
    topic = write_state.WriteStateData(topic_id=key.topic_id, partitions=[partition])
    return write_state.WriteShareGroupStateRequest(group_id=key.group_id, topics=[topic])


def _delete_request(key: ShareKey) -> delete_state.DeleteShareGroupStateRequest:
    topic = delete_state.DeleteStateData(
        topic_id=key.topic_id, partitions=[delete_state.PartitionData(partition=key.partition)]
    )
    return delete_state.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[topic])


def _summary_request(key: ShareKey) -> summary_state.ReadShareGroupStateSummaryRequest:
    partition = summary_state.PartitionData(partition=key.partition, leader_epoch=-1)
    topic = summary_state.ReadStateSummaryData(topic_id=key.topic_id, partitions=[partition])
    return summary_state.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=[topic])


def _checked(result: _Refusable) -> None:
    if result.error_code:
        raise errors.error_for(result.error_code, result.error_message)


def _read_answer(result: read_state.PartitionResult) -> ShareState | None:
    if result.error_code == errors.UnknownTopicOrPartition.code:
        return None
    _checked(result)
    return ShareState(
        state_epoch=result.state_epoch,
        start_offset=result.start_offset,
        batches=batches_of(result.state_batches),
    )


def _summary_answer(result: summary_state.PartitionResult) -> ShareState | None:
    if result.error_code == errors.UnknownTopicOrPartition.code:
        return None
    _checked(result)
    return ShareState(
        state_epoch=result.state_epoch,
        leader_epoch=result.leader_epoch,
        start_offset=result.start_offset,
        delivery_complete_count=result.delivery_complete_count,
    )
