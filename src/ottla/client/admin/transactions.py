"""Transactions as an operator sees them: which are open, who holds them, and how to end one that hangs."""

from collections.abc import Iterable

from ottla import errors
from ottla.client.admin.topics import list_topics
from ottla.client.core.cluster import TRANSACTION, Cluster
from ottla.client.core.dialogue import check
from ottla.client.core.leaders import all_of, ask_leaders
from ottla.client.core.names import missing_topic
from ottla.client.core.offsets import by_topic
from ottla.client.errors import ClientError
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError, error_for
from ottla.frozen import frozen
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

MAX_TRANSACTION_TIMEOUT_MS = 15 * 60 * 1000  # Kafka's default for transaction.max.timeout.ms


@frozen
class ListedTransaction:
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@frozen
class Transaction:
    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]


@frozen
class ActiveProducer:
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


@frozen
class Hanging:
    """An open transaction on a partition that its coordinator knows nothing of (any more)."""

    partition: TopicPartition
    producer: ActiveProducer
    transactional_id: str | None


async def list_transactions(
    cluster: Cluster,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    longer_than_ms: int = -1,
) -> list[ListedTransaction]:
    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(producer_ids), duration_filter=longer_than_ms
    )
    request.transactional_id_pattern = None

    async def ask(node: int) -> list[ListedTransaction]:
        answer = await cluster.ask(request, node, at_least=1 if longer_than_ms >= 0 else 0)
        check(answer)
        return [
            ListedTransaction(t.transactional_id, node, t.producer_id, t.transaction_state)
            for t in answer.transaction_states
        ]

    async def attempt() -> list[ListedTransaction]:
        await cluster.refresh([])
        by_broker = await all_of(cluster, [ask(node) for node in cluster.image.brokers])
        return sorted(
            (t for transactions in by_broker for t in transactions), key=lambda t: t.transactional_id
        )

    return await cluster.retrying(attempt, "transactions could not be listed")


async def describe(cluster: Cluster, transactional_id: str) -> Transaction:
    async def attempt() -> Transaction:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        node = await cluster.coordinator(TRANSACTION, transactional_id)
        described = (await cluster.ask(request, node)).transaction_states[0]
        if described.error_code:
            raise error_for(
                described.error_code, f"{transactional_id}: {errors.NAMES.get(described.error_code)}"
            )
        return Transaction(
            transactional_id,
            node,
            described.producer_id,
            described.producer_epoch,
            described.transaction_state,
            described.transaction_timeout_ms,
            described.transaction_start_time_ms,
            tuple(TopicPartition(t.topic, p) for t in described.topics for p in t.partitions),
        )

    return await cluster.retrying(attempt, f"transaction {transactional_id} could not be described")


async def producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[ActiveProducer]]:
    """The producers that each partition's leader remembers."""

    async def ask(
        node: int, wanted: list[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | OttlaError]:
        topics = [TopicRequest(name=t, partition_indexes=i) for t, i in by_topic(wanted).items()]
        answer = await cluster.ask(DescribeProducersRequest(topics=topics), node)
        by_partition: dict[TopicPartition, list[ActiveProducer] | OttlaError] = {}
        for topic in answer.topics:
            for p in topic.partitions:
                by_partition[TopicPartition(topic.name, p.partition_index)] = (
                    error_for(p.error_code, p.error_message)
                    if p.error_code
                    else [
                        ActiveProducer(
                            a.producer_id,
                            a.producer_epoch,
                            a.last_sequence,
                            a.last_timestamp,
                            a.coordinator_epoch,
                            a.current_txn_start_offset,
                        )
                        for a in p.active_producers
                    ]
                )
        return by_partition

    return await ask_leaders(cluster, partitions, ask, "producers could not be described")


async def find_hanging(
    cluster: Cluster,
    *,
    topics: Iterable[str] | None = None,
    older_than_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    now_ms: int | None = None,
) -> list[Hanging]:
    """Open transactions, old enough to have timed out, that no coordinator would end."""
    now_ms = int(cluster.runtime.date() * 1000) if now_ms is None else now_ms
    known = await list_topics(cluster)
    names = list(known) if topics is None else list(topics)
    missing = [name for name in names if name not in known]
    if missing:
        raise missing_topic(missing[0])
    partitions = [TopicPartition(name, p) for name in names for p in known[name].partitions]
    if not partitions:
        return []
    by_partition = await producers(cluster, partitions)
    open_ones = [
        (partition, producer)
        for partition, active in sorted(by_partition.items())
        for producer in active
        if producer.transaction_start_offset >= 0 and now_ms - producer.last_timestamp_ms >= older_than_ms
    ]
    if not open_ones:
        return []
    listed = await list_transactions(cluster, producer_ids={p.producer_id for _, p in open_ones})
    ids = {transaction.producer_id: transaction.transactional_id for transaction in listed}
    hanging = []
    for partition, producer in open_ones:
        transactional_id = ids.get(producer.producer_id)
        if transactional_id is None or not await _is_known(cluster, transactional_id, partition):
            hanging.append(Hanging(partition, producer, transactional_id))
    return hanging


async def abort(cluster: Cluster, partition: TopicPartition, start_offset: int) -> None:
    """Ends the open transaction that starts at this offset of the partition, whichever producer it belongs to."""
    active = (await producers(cluster, [partition]))[partition]
    producer = next((p for p in active if p.transaction_start_offset == start_offset), None)
    if producer is None:
        raise ClientError(f"{partition} has no open transaction that starts at offset {start_offset}")
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )

    async def ask(node: int, wanted: list[TopicPartition]) -> dict[TopicPartition, OttlaError | None]:
        answer = await cluster.ask(WriteTxnMarkersRequest(markers=[marker]), node)
        code = answer.markers[0].topics[0].partitions[0].error_code
        return {partition: error_for(code) if code else None}

    await ask_leaders(cluster, [partition], ask, "the transaction could not be aborted")


async def end(
    cluster: Cluster, transactional_id: str, producer_id: int, producer_epoch: int, *, committed: bool
) -> None:
    """Ends a transaction that another process began: its producer id and epoch are all it takes."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        committed=committed,
    )

    async def attempt() -> None:
        connection = await cluster.connection(await cluster.coordinator(TRANSACTION, transactional_id))
        at_most = 5 if connection.dialogue.features.get("transaction.version", 0) >= 2 else 4
        check(await connection.ask(request, at_most=at_most))

    await cluster.retrying(attempt, f"transaction {transactional_id} could not be ended")


async def _is_known(cluster: Cluster, transactional_id: str, partition: TopicPartition) -> bool:
    try:
        return partition in (await describe(cluster, transactional_id)).partitions
    except errors.TransactionalIdNotFound:
        return False
