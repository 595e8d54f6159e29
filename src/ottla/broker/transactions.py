"""Where the transaction coordinator meets the partitions: admission of writes, and markers.

Transaction version 1: the client has told the coordinator which partitions it writes to; before the first
record of a transaction the leader asks whether that is so. Version 2 (Produce v12, TxnOffsetCommit v5): the
leader tells the coordinator itself. Either way no record is taken for a transaction that nobody would end.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ottla import errors
from ottla.broker.coordinators import Coordinator, LocalShard
from ottla.broker.refusals import protocol_error
from ottla.coordination.transactions.gate import (
    OFFSET_COMMIT_ABORTABLE,
    OFFSET_COMMIT_ADDS,
    PRODUCE_ABORTABLE,
    PRODUCE_ADDS,
    Gate,
    Guard,
    client_error,
)
from ottla.errors import ProtocolError, error_for
from ottla.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.replication.partition import Partition
from ottla.wire.batch import HEADER_BYTES, BatchHeader, read_header

if TYPE_CHECKING:
    # Imported with the first transaction: most brokers never see one, and every start would pay.
    from ottla.broker.broker import Broker
    from ottla.broker.context import Context
    from ottla.broker.markers import Elsewhere
    from ottla.coordination.transactions.machine import TransactionMachine
    from ottla.coordination.transactions.markers import Markers
    from ottla.coordination.transactions.records import TransactionRecords
    from ottla.wire.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
    )
    from ottla.wire.messages.produce import ProduceRequest
    from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

TopicPartition = tuple[str, int]
Refused = dict[TopicPartition, ProtocolError]
Settle = Callable[[TopicPartition, int], None]

BATCHED_VERSION = 5
TRIES, TRY_AFTER_MS = 6, 20  # a version 2 write waits this often for the markers of the last transaction
_ATTRIBUTES_AT, _TRANSACTIONAL = 22, 0x10


class Admission:
    """What the coordinator said on the transactional batches of one request. Close it when all is appended."""

    def __init__(self, transactions: "Transactions") -> None:
        self._transactions = transactions
        self.refused: Refused = {}
        self._asked: dict[TopicPartition, _Asked] = {}

    def hold(self, key: TopicPartition, header: BatchHeader, gate: Gate, guard: Guard | None) -> None:
        self._release(key)
        self._asked[key] = _Asked(header, gate, guard)

    def check(self, key: TopicPartition) -> None:
        """Right before the append, with no await in between."""
        if key in self.refused:
            raise self.refused[key]
        if key in self._asked:
            header, _, guard = self._asked[key]
            gate, open_epoch = self._transactions.gate(key, header.producer_id)
            gate.check(header.producer_id, header.producer_epoch, open_epoch, guard)

    def check_batch(self, key: TopicPartition, header: BatchHeader) -> None:
        """As `check`, of the very batch that is about to be appended."""
        self.check(key)
        if header.is_transactional:
            asked = self._asked.get(key)
            if asked is None or producer_of(asked.header) != producer_of(header):
                raise errors.InvalidTxnState("the coordinator was not asked about the batch")

    def on_appended(self, key: TopicPartition) -> None:
        if key in self._asked:
            header = self._asked[key].header
            self._transactions.gate(key, header.producer_id)[0].on_appended(header.producer_id)

    def close(self) -> None:
        """Guards of what was refused go: there is no end to the producer ids that a client may make up."""
        for key in tuple(self._asked):
            self._release(key)

    def _release(self, key: TopicPartition) -> None:
        asked = self._asked.pop(key, None)
        if asked is not None and asked.guard is not None:
            asked.gate.release(asked.guard)


class _Asked(NamedTuple):
    header: BatchHeader
    gate: Gate
    guard: Guard | None


def producer_of(header: BatchHeader) -> tuple[int, int]:
    return header.producer_id, header.producer_epoch


class Transactions:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._gates: dict[TopicPartition, tuple[int, Gate]] = {}  # with the leader epoch they are good for
        self.coordinator = Coordinator(
            TRANSACTION_STATE,
            broker.image,
            broker.clock,
            self._machine_of,
            self.send,
        )

    @cached_property
    def _elsewhere(self) -> "Elsewhere":
        from ottla.broker.markers import Elsewhere

        return Elsewhere(self._broker)

    def _machine_of(self, partition: Partition) -> "tuple[TransactionMachine, TransactionRecords]":
        """The leader epoch is the coordinator's: markers of an earlier one are void."""
        from ottla.coordination.transactions.machine import TransactionMachine
        from ottla.coordination.transactions.records import TransactionRecords
        from ottla.coordination.transactions.settings import Settings

        settings = Settings.of(self._broker.config)
        machine = TransactionMachine(settings, self._broker.producer_ids, partition.state.leader_epoch)
        return machine, TransactionRecords()

    # -- writes that belong to a transaction -----------------------------------------------------

    async def admit(
        self, request: "ProduceRequest", context: "Context", leave_out: Collection[TopicPartition] = ()
    ) -> Admission | None:
        """None when nothing in the request is transactional: most requests."""
        wanted = self._transactional(request)
        for key in leave_out:
            wanted.pop(key, None)
        if not wanted:
            return None
        admission = Admission(self)
        try:
            await self._admit(wanted, admission, request, context)
        except BaseException:  # also when the connection is gone
            admission.close()
            raise
        return admission

    async def _admit(
        self,
        wanted: Mapping[TopicPartition, BatchHeader],
        admission: Admission,
        request: "ProduceRequest",
        context: "Context",
    ) -> None:
        producers = {producer_of(header) for header in wanted.values()}
        if request.transactional_id is None:
            self._refuse_all(admission, request, errors.TransactionalIdAuthorizationFailed())
            return
        if len(producers) > 1:
            error = errors.InvalidProducerIdMapping(
                "Transactional records contained more than one producer ID"
            )
            self._refuse_all(admission, request, error)
            return
        adds = context.api_version >= PRODUCE_ADDS
        knows_abortable = context.api_version >= PRODUCE_ABORTABLE
        codes = await self._ask(request.transactional_id, *producers.pop(), wanted, admission, adds=adds)
        for key, code in codes.items():
            told = client_error(code, knows_abortable=knows_abortable, adds=adds)
            admission.refused[key] = error_for(told)

    def _refuse_all(self, admission: Admission, request: "ProduceRequest", error: ProtocolError) -> None:
        admission.refused = {
            (topic.name or self._broker.name_of(topic.topic_id), data.index): error
            for topic in request.topic_data
            for data in topic.partition_data
        }

    def _transactional(self, request: "ProduceRequest") -> dict[TopicPartition, BatchHeader]:
        """Headers of transactional batches; what else is wrong with one the append will say."""
        found: dict[TopicPartition, BatchHeader] = {}
        for topic in request.topic_data:
            for data in topic.partition_data:
                records = data.records
                if records and len(records) > HEADER_BYTES and records[_ATTRIBUTES_AT] & _TRANSACTIONAL:
                    with suppress(ProtocolError):
                        name = topic.name or self._broker.topic_name(topic.topic_id)
                        found[name, data.index] = read_header(records)
        return found

    def gate(self, each: TopicPartition, producer_id: int) -> tuple[Gate, int | None]:
        """The partition's gate, and the epoch of the producer's open transaction there, if there is one."""
        partition = self._broker.partition(*each)
        epoch, gate = self._gates.get(each, (-1, None))
        if gate is None or epoch != partition.state.leader_epoch:
            gate = Gate()
            self._gates[each] = partition.state.leader_epoch, gate
        producers = partition.leader_log().producers
        if producer_id not in producers.open_transactions:
            return gate, None
        return gate, producers.entries[producer_id].epoch

    async def _ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        named: Mapping[TopicPartition, BatchHeader],
        admission: Admission,
        *,
        adds: bool,
    ) -> dict[TopicPartition, int]:
        """Has the coordinator verify, or add, the partitions that are not in the transaction yet."""
        refused: dict[TopicPartition, int] = {}
        for attempt in range(TRIES):
            unknown = []
            for each, header in named.items():
                try:
                    gate, open_epoch = self.gate(each, producer_id)
                    guard = gate.ask(producer_id, producer_epoch, open_epoch)
                except ProtocolError as error:
                    refused[each] = error.code
                    continue
                admission.hold(each, header, gate, guard)
                if guard is not None:
                    unknown.append(each)
            if not unknown:
                break
            codes = await self._asked(transactional_id, producer_id, producer_epoch, unknown, adds=adds)
            waits = adds and errors.ConcurrentTransactions.code in codes.values()
            if not waits or attempt + 1 == TRIES:
                return refused | codes
            await self._broker.sleep(TRY_AFTER_MS)
        return refused

    async def _asked(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        adds: bool,
    ) -> dict[TopicPartition, int]:
        """Error codes of those that are refused."""
        from ottla.wire.messages.add_partitions_to_txn import (
            AddPartitionsToTxnRequest,
            AddPartitionsToTxnTopic,
            AddPartitionsToTxnTransaction,
        )

        topics: dict[str, list[int]] = defaultdict(list)
        for topic, index in partitions:
            topics[topic].append(index)
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    verify_only=not adds,
                    topics=[AddPartitionsToTxnTopic(name=n, partitions=p) for n, p in topics.items()],
                )
            ]
        )
        try:
            response = await self._add_partitions(transactional_id, request)
        except ProtocolError as error:
            return {(topic, index): error.code for topic, indexes in topics.items() for index in indexes}
        return {
            (topic.name, each.partition_index): each.partition_error_code
            for result in response.results_by_transaction
            for topic in result.topic_results
            for each in topic.results_by_partition
            if each.partition_error_code
        }

    async def _add_partitions(
        self, transactional_id: str, request: "AddPartitionsToTxnRequest"
    ) -> "AddPartitionsToTxnResponse":
        index = self.coordinator.index_of(transactional_id)
        state = self._broker.image.partition(self.coordinator.topic, index)
        if state is not None and state.leader != self._broker.node_id:
            return await self._elsewhere.add_partitions(state.leader, request)
        response: AddPartitionsToTxnResponse = await self.coordinator.call(
            transactional_id,
            lambda machine, token, now_ms: machine.on_add_partitions_to_txn(
                request, BATCHED_VERSION, token, now_ms
            ),
        )
        return response

    async def admit_offsets(
        self, request: "TxnOffsetCommitRequest", each: TopicPartition, version: int
    ) -> Admission:
        """TxnOffsetCommit: the same question for the partition of the group's offsets."""
        admission = Admission(self)
        adds = version >= OFFSET_COMMIT_ADDS
        header = _header_of(request.producer_id, request.producer_epoch)
        try:
            codes = await self._ask(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                {each: header},
                admission,
                adds=adds,
            )
        except BaseException:  # also when the connection is gone
            admission.close()
            raise
        for each, code in codes.items():
            told = client_error(code, knows_abortable=version >= OFFSET_COMMIT_ABORTABLE, adds=adds)
            if told == errors.NotEnoughReplicas.code:
                told = errors.CoordinatorLoadInProgress.code
            admission.refused[each] = error_for(told)
        return admission

    # -- markers ---------------------------------------------------------------------------------

    def send(self, shard: LocalShard, markers: "Markers") -> None:
        """Writes the decision to every partition and reports once all of them have committed it."""
        results: dict[TopicPartition, int] = {}
        open_ones = set(markers.partitions)

        def settle(each: TopicPartition, code: int) -> None:
            results[each] = code
            open_ones.discard(each)
            if not open_ones:
                # Not from within the shard's own step: it may still be carrying out what sent us.
                self._broker.clock.call_soon(lambda: self._report(shard, markers, results))

        for leader, partitions in self._elsewhere.by_leader(markers.partitions).items():
            if leader != self._broker.node_id:
                self._elsewhere.write_markers(leader, markers, partitions, settle)
                continue
            for each in partitions:
                self.write_marker(each, markers, settle)

    def _report(self, shard: LocalShard, markers: "Markers", results: Mapping[TopicPartition, int]) -> None:
        if self.coordinator.shards.get(shard.partition.state.index) is not shard:
            return  # somebody else is the coordinator now, and sends anew
        now_ms = self._broker.clock.now_ms()
        shard.carry_out(shard.machine.on_markers_written(markers, results, now_ms))

    def write_marker(
        self, each: TopicPartition, markers: "Markers", settle: Callable[[TopicPartition, int], None]
    ) -> None:
        """`settle(partition, error code)` once it is committed; a partition that is gone needs no marker."""
        broker = self._broker
        if broker.image.partition(*each) is None:
            settle(each, errors.NONE)
            return
        try:
            partition = broker.partition(*each)
            self.gate(each, markers.producer_id)[0].on_marker(markers.producer_id)
            offset = partition.append_marker(
                markers.producer_id,
                markers.producer_epoch,
                markers.committed,
                markers.coordinator_epoch,
                now_ms=broker.clock.now_ms(),
                transaction_version=markers.transaction_version,
            )
        except Exception as failure:
            settle(
                each, protocol_error(failure, f"writing a marker to partition {each[1]} of {each[0]}").code
            )
            return
        topic, index = each
        if topic == CONSUMER_OFFSETS and index in broker.groups.shards:
            broker.groups.shards[index].on_marker(
                markers.producer_id, markers.producer_epoch, markers.committed, offset
            )
        _when_committed(partition, offset + 1, partition.tenure, lambda code: settle(each, code))


def _header_of(producer_id: int, producer_epoch: int) -> BatchHeader:
    """Enough of a header for the gate: offsets have no batch yet."""
    return BatchHeader(0, 0, -1, 2, 0, _TRANSACTIONAL, 0, 0, 0, producer_id, producer_epoch, -1, 0)


def _when_committed(
    partition: Partition, next_offset: int, tenure: int, settle: Callable[[int], None]
) -> None:
    """`settle(error code)` once it is committed, or leadership went."""

    def look() -> None:
        try:
            if not partition.is_committed(next_offset, tenure):
                partition.committed.add(next_offset, look)
                return
        except ProtocolError as error:
            settle(error.code)
        else:
            settle(errors.NONE)

    look()
