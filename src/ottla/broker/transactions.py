"""Where the transaction coordinator meets the partitions: admission of writes, and markers.

Transaction version 1: the client has told the coordinator which partitions it writes to; before the first
record of a transaction the leader asks whether that is so. Version 2 (Produce v12, TxnOffsetCommit v5): the
leader tells the coordinator itself. Either way no record is taken for a transaction that nobody would end.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ottla import errors
from ottla.broker.coordinators import Coordinator, LocalShard
from ottla.coordination.transactions.machine import TransactionMachine
from ottla.coordination.transactions.markers import Markers
from ottla.coordination.transactions.records import TransactionRecords
from ottla.coordination.transactions.settings import Settings
from ottla.errors import ProtocolError, error_for
from ottla.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.replication.partition import Partition
from ottla.wire.batch import BatchHeader, read_header
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import Context

TopicPartition = tuple[str, int]
Refused = dict[TopicPartition, ProtocolError]
Settle = Callable[[TopicPartition, int], None]

BATCHED_VERSION = 5
ABORTABLE_FROM, IMPLICIT_FROM = 11, 12  # Produce versions
# What the coordinator cannot answer now is worth another try; older clients know only this way to say so.
TRY_AGAIN = (
    errors.CoordinatorNotAvailable,
    errors.CoordinatorLoadInProgress,
    errors.NotCoordinator,
    errors.NetworkException,
)
WAITS_FOR_MARKERS = 100  # how often a version 2 write looks whether the last transaction is complete
WAIT_MS = 10


class Transactions:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.coordinator = Coordinator(
            TRANSACTION_STATE,
            broker.image,
            broker.clock,
            self._machine_of,
            TransactionRecords(),
            self.send,
        )

    def _machine_of(self, partition: Partition) -> TransactionMachine:
        """The leader epoch is the coordinator's: markers of an earlier one are void."""
        settings = Settings.of(self._broker.config)
        return TransactionMachine(settings, self._broker.producer_ids, partition.state.leader_epoch)

    # -- writes that belong to a transaction -----------------------------------------------------

    async def admit(self, request: ProduceRequest, context: "Context") -> Refused:
        """Which partitions may not be written to, because their batches belong to no open transaction."""
        if request.transactional_id is None:
            return {}
        unverified = self._unverified(request)
        if not unverified:
            return {}
        (producer_id, producer_epoch), partitions = unverified.popitem()
        refused: Refused = {}
        for others in unverified.values():  # one request, one producer
            refused |= {each: errors.InvalidProducerIdMapping() for each in others}
        guards = {each: self._broker.partition(*each).begin_verification(producer_id) for each in partitions}
        codes = await self.ask(
            request.transactional_id,
            producer_id,
            producer_epoch,
            partitions,
            add=context.api_version >= IMPLICIT_FROM,
        )
        for each, error in codes.items():
            refused[each] = self._told(error, context.api_version)
        for each, guard in guards.items():
            if each not in refused and not self._broker.partition(*each).is_verified(producer_id, guard):
                refused[each] = self._told(errors.TransactionAbortable(), context.api_version)
        return refused

    def _unverified(self, request: ProduceRequest) -> dict[tuple[int, int], list[TopicPartition]]:
        """Transactional batches for partitions whose log knows of no open transaction of their producer."""
        found: dict[tuple[int, int], list[TopicPartition]] = defaultdict(list)
        for topic in request.topic_data:
            for data in topic.partition_data:
                try:
                    name = topic.name or self._broker.topic_name(topic.topic_id)
                    header = read_header(data.records or b"")
                    log = self._broker.partition(name, data.index).leader_log()
                except ProtocolError:
                    continue  # the append says what is wrong
                if header.is_transactional and not _is_open(log.producers.open_transactions, header):
                    found[header.producer_id, header.producer_epoch].append((name, data.index))
        return found

    async def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        add: bool,
    ) -> Refused:
        """Has the coordinator verify, or add, partitions of an open transaction; those it refuses."""
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, index in partitions:
            topics[topic].append(index)
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    verify_only=not add,
                    topics=[AddPartitionsToTxnTopic(name=n, partitions=p) for n, p in topics.items()],
                )
            ]
        )
        for attempt in range(WAITS_FOR_MARKERS):
            refused = await self._asked(transactional_id, request, topics)
            waits = add and any(isinstance(each, errors.ConcurrentTransactions) for each in refused.values())
            if not waits or attempt + 1 == WAITS_FOR_MARKERS:
                break
            await self._broker.sleep(WAIT_MS)
        return refused

    async def _asked(
        self, transactional_id: str, request: AddPartitionsToTxnRequest, topics: Mapping[str, list[int]]
    ) -> Refused:
        try:
            response = await self.coordinator.call(
                transactional_id,
                lambda machine, token, now_ms: machine.on_add_partitions_to_txn(
                    request, BATCHED_VERSION, token, now_ms
                ),
            )
        except ProtocolError as error:
            return {(topic, index): error for topic, indexes in topics.items() for index in indexes}
        return {
            (topic.name, each.partition_index): error_for(each.partition_error_code)
            for result in response.results_by_transaction
            for topic in result.topic_results
            for each in topic.results_by_partition
            if each.partition_error_code
        }

    def _told(self, error: ProtocolError, version: int) -> ProtocolError:
        """In words that the client's version of Produce knows."""
        if isinstance(error, TRY_AGAIN) or (
            isinstance(error, errors.ConcurrentTransactions) and version < IMPLICIT_FROM
        ):
            return errors.NotEnoughReplicas(
                f"The transaction could not be verified with its coordinator: {error.name()}"
            )
        if isinstance(error, errors.TransactionAbortable) and version < ABORTABLE_FROM:
            return errors.InvalidTxnState(error.message)
        if isinstance(error, errors.ProducerFenced):
            return errors.InvalidProducerEpoch(error.message)
        return error

    async def admit_offsets(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        each: TopicPartition,
        *,
        add: bool,
    ) -> ProtocolError | None:
        """TxnOffsetCommit: the same question for the partition of the group's offsets."""
        partition = self._broker.partition(*each)
        if producer_id in partition.leader_log().producers.open_transactions:
            return None
        guard = partition.begin_verification(producer_id)
        refused = await self.ask(transactional_id, producer_id, producer_epoch, [each], add=add)
        error = refused.get(each)
        if error is None and not partition.is_verified(producer_id, guard):
            error = errors.TransactionAbortable()
        if isinstance(error, errors.ConcurrentTransactions | errors.NetworkException):
            return errors.CoordinatorLoadInProgress(error.message)
        if isinstance(error, errors.TransactionAbortable) and not add:
            return errors.InvalidTxnState(error.message)
        if isinstance(error, errors.ProducerFenced):
            return errors.InvalidProducerEpoch(error.message)
        return error

    # -- markers ---------------------------------------------------------------------------------

    def send(self, shard: LocalShard, markers: Markers) -> None:
        """Writes the decision to every partition and reports once all of them have committed it."""
        results: dict[TopicPartition, int] = {}
        open_ones = set(markers.partitions)

        def settle(each: TopicPartition, code: int) -> None:
            results[each] = code
            open_ones.discard(each)
            if not open_ones:
                # Not from within the shard's own step: it may still be carrying out what sent us.
                self._broker.clock.call_soon(lambda: self._report(shard, markers, results))

        for each in sorted(markers.partitions):
            self.write_marker(each, markers, settle)

    def _report(self, shard: LocalShard, markers: Markers, results: Mapping[TopicPartition, int]) -> None:
        now_ms = self._broker.clock.now_ms()
        shard.carry_out(shard.machine.on_markers_written(markers, results, now_ms))

    def write_marker(
        self, each: TopicPartition, markers: Markers, settle: Callable[[TopicPartition, int], None]
    ) -> None:
        """`settle(partition, error code)` once it is committed; a partition that is gone needs no marker."""
        broker = self._broker
        if broker.image.partition(*each) is None:
            settle(each, errors.NONE)
            return
        try:
            partition = broker.partition(*each)
            offset = partition.append_marker(
                markers.producer_id,
                markers.producer_epoch,
                markers.committed,
                markers.coordinator_epoch,
                now_ms=broker.clock.now_ms(),
            )
        except ProtocolError as error:
            settle(each, error.code)
            return
        topic, index = each
        if topic == CONSUMER_OFFSETS and index in broker.groups.shards:
            broker.groups.shards[index].on_marker(
                markers.producer_id, markers.producer_epoch, markers.committed, offset
            )
        _when_committed(partition, offset + 1, lambda: settle(each, _code_behind(partition, offset)))


def _is_open(open_transactions: Mapping[int, int], header: BatchHeader) -> bool:
    return header.producer_id in open_transactions


def _when_committed(partition: Partition, offset: int, then: Callable[[], None]) -> None:
    if partition.log is not None and partition.log.high_watermark >= offset:
        then()
    else:
        partition.committed.add(offset, then)


def _code_behind(partition: Partition, offset: int) -> int:
    """Woken because it is committed, or because leadership went."""
    if partition.is_leader and partition.log is not None and partition.log.high_watermark > offset:
        return errors.NONE
    return errors.NotLeaderOrFollower.code
