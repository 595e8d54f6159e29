"""Producers of the world: idempotent, and transactional of both versions. They retry until they know."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla import errors
from ottla.testing.world.client import GROUP, TRANSACTION, Script, Send, Sleep, find_coordinator, send
from ottla.testing.world.ledger import TopicPartition
from ottla.testing.world.network import LOST
from ottla.wire import batch as batches
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.records import Record

if TYPE_CHECKING:
    from ottla.testing.world.world import World

Step = Generator[Send | Sleep, Any, Any]

ACKS_ALL = -1
PLAIN, IMPLICIT = 11, 12  # versions of Produce: the client tells the coordinator, or the leader does
TRANSACTION_TIMEOUT_MS = 20_000


class GiveUp(Exception):
    """The producer cannot go on under its id: a new one begins."""


def idempotent_producer(world: World, name: str, count: int) -> Script:
    """`count` batches, each retried until it is acknowledged or can never be."""
    sent = 0
    while sent < count:
        try:
            producer = yield from init(world, None)
            sequences: dict[TopicPartition, int] = {}
            while sent < count:
                target = world.some_partition("plain")
                values = [f"{name}/{sent}.{i}".encode() for i in range(world.random.randint(1, 3))]
                sent += 1
                yield from produce(world, target, values, producer, sequences)
                yield Sleep(world.random.uniform(0, 300))
        except GiveUp:
            continue


def transactional_producer(world: World, name: str, transactional_id: str, count: int) -> Script:
    """Transactions over some partitions, some with offsets, some aborted; some clients die in the middle."""
    implicit = world.random.random() < 0.5
    number = 0
    while number < count:
        try:
            producer = yield from init(world, transactional_id)
            sequences: dict[TopicPartition, int] = {}
            while number < count:
                number += 1
                transaction = f"{name}/{number}"
                producer = yield from _transaction(
                    world, transactional_id, transaction, producer, sequences, implicit
                )
                yield Sleep(world.random.uniform(0, 400))
        except GiveUp:
            yield Sleep(world.random.uniform(10, 1_000))


def _transaction(
    world: World,
    transactional_id: str,
    name: str,
    producer: tuple[int, int],
    sequences: dict[TopicPartition, int],
    implicit: bool,
) -> Step:
    targets = {world.some_partition("money") for _ in range(world.random.randint(1, 3))}
    values: list[bytes] = []
    world.ledger.on_begun(producer, name)
    if not implicit:
        yield from _add_partitions(transactional_id, producer, sorted(targets))
    for number, target in enumerate(sorted(targets)):
        written = [f"{name}/{number}".encode()]
        yield from produce(world, target, written, producer, sequences, transactional_id, implicit)
        values += written
        yield Sleep(world.random.uniform(0, 100))
    if world.random.random() < 0.4:
        yield from _commit_offsets(world, transactional_id, producer, implicit)
    committed = world.random.random() < 0.7

    def on_late() -> None:
        world.ledger.on_late_end(producer, name)

    # From EndTxn 5 on every transaction has an epoch of its own, and one that comes late is refused.
    producer_after = yield from _end(
        transactional_id, producer, committed, implicit, None if implicit else on_late
    )
    world.ledger.on_ended(producer, name, committed, values)
    if producer_after != producer:
        sequences.clear()  # a new epoch counts from the start
    return producer_after


def init(world: World, transactional_id: str | None) -> Step:
    if transactional_id is not None:
        yield from find_coordinator(transactional_id, TRANSACTION)
    while True:
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        answer = yield send(request, 5)
        if answer is not LOST and not answer.error_code:
            return answer.producer_id, answer.producer_epoch
        yield Sleep(world.random.uniform(5, 200))


def produce(
    world: World,
    target: TopicPartition,
    values: list[bytes],
    producer: tuple[int, int],
    sequences: dict[TopicPartition, int],
    transactional_id: str | None = None,
    implicit: bool = False,
) -> Step:
    """Once, however often it takes."""
    topic, index = target
    sequence = sequences.get(target, 0)
    data = batches.build(
        [Record(i, world.time.now_ms(), None, value) for i, value in enumerate(values)],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=transactional_id is not None,
    )
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=ACKS_ALL,
        timeout_ms=2_000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=data)])
        ],
    )
    while True:
        answer = yield send(request, IMPLICIT if implicit else PLAIN)
        if answer is not LOST:
            result = answer.responses[0].partition_responses[0]
            if result.error_code == errors.DuplicateSequenceNumber.code:
                break  # it is there; where, nobody tells
            if result.error_code == errors.NONE:
                world.ledger.on_acknowledged(target, result.base_offset, values)
                break
            if not errors.error_for(result.error_code).retriable:
                raise GiveUp
        yield Sleep(world.random.uniform(5, 200))
    sequences[target] = sequence + len(values)
    return None


def _add_partitions(transactional_id: str, producer: tuple[int, int], targets: list[TopicPartition]) -> Step:
    topics: dict[str, list[int]] = {}
    for topic, index in targets:
        topics.setdefault(topic, []).append(index)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=n, partitions=p) for n, p in topics.items()],
    )

    def code(answer: Any) -> int:
        topics = answer.results_by_topic_v3_and_below
        codes = [result.partition_error_code for topic in topics for result in topic.results_by_partition]
        return max(codes, key=abs, default=0)

    yield from _until_done(send(request, 3), code)


def _commit_offsets(world: World, transactional_id: str, producer: tuple[int, int], implicit: bool) -> Step:
    group = f"of-{transactional_id}"
    if not implicit:
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            group_id=group,
        )
        yield from _until_done(send(request, 3), lambda answer: int(answer.error_code))
    yield from find_coordinator(group, GROUP)
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=world.next_number())
    commit = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequestTopic(name="plain", partitions=[partition])],
    )
    yield from _until_done(
        send(commit, 5 if implicit else 3),
        lambda answer: int(answer.topics[0].partitions[0].error_code),
    )


def _end(
    transactional_id: str,
    producer: tuple[int, int],
    committed: bool,
    implicit: bool,
    on_late: Callable[[], None] | None,
) -> Step:
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=committed,
    )
    wanted = replace(send(request, 5 if implicit else 3), on_late=on_late)
    answer = yield from _until_done(wanted, lambda answer: int(answer.error_code))
    if implicit:
        return answer.producer_id, answer.producer_epoch
    return producer


def _until_done(wanted: Send, code: Any) -> Step:
    while True:
        answer = yield wanted
        if answer is not LOST:
            error_code = code(answer)
            if error_code == errors.NONE:
                return answer
            if not errors.error_for(error_code).retriable:
                raise GiveUp
        yield Sleep(50)
