"""Partitions that join a transaction, and the check whether they have.

AddPartitionsToTxn v0-v3 is the client's form; v4 and later come from brokers, for several transactions at
once: to add (transaction version 2: a produce registers its partition) or to verify only (version 1).
"""

from collections.abc import Iterable

from ottla.coordination.transactions.producers import Identity
from ottla.coordination.transactions.records import by_topic
from ottla.coordination.transactions.transaction import (
    State,
    TopicPartition,
    Transaction,
    with_partitions,
)
from ottla.errors import (
    NONE,
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    ProducerFenced,
    TransactionAbortable,
)
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

BATCHED_REQUEST = 4
"""Only brokers that serve a client of transaction version 2 use this form to add."""


def add(
    transaction: Transaction,
    holder: Identity,
    added: frozenset[TopicPartition],
    *,
    version: int,
    now_ms: int,
) -> Transaction | None:
    """The first partitions begin the transaction. None: nothing new.

    The wait for markers comes before the check of id and epoch: a producer that goes on with the id and
    epoch of its last EndTxn is early, not fenced.
    """
    if transaction.is_prepared:
        raise ConcurrentTransactions
    _check(transaction, holder)
    if transaction.state is State.ONGOING and added <= transaction.partitions:
        return None
    return with_partitions(transaction, added, client_version=version, now_ms=now_ms)


def verify(
    transaction: Transaction, holder: Identity, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """What a partition leader asks before it takes a transaction's first record."""
    _check(transaction, holder)
    if transaction.is_prepared:
        raise ConcurrentTransactions
    known = transaction.partitions
    return {partition: NONE if partition in known else TransactionAbortable.code for partition in partitions}


def named_in(topics: Iterable[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset((topic.name, partition) for topic in topics for partition in topic.partitions)


def topic_results(codes: dict[TopicPartition, int]) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=partition, partition_error_code=codes[topic, partition]
                )
                for partition in partitions
            ],
        )
        for topic, partitions in by_topic(codes).items()
    ]


def _check(transaction: Transaction, holder: Identity) -> None:
    producer_id, epoch = holder
    if producer_id != transaction.producer_id:
        raise InvalidProducerIdMapping
    if epoch != transaction.producer_epoch:
        raise ProducerFenced
