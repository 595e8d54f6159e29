"""Admission of writes to transactions: no record is taken for a transaction that nobody would end.

Transaction version 1: the client has told the coordinator which partitions it writes to; before the first
record of a transaction the leader asks whether that is so. Version 2 (Produce v12, TxnOffsetCommit v5): the
leader tells the coordinator itself.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ottla import errors
from ottla.broker.cluster.metadata import Metadata
from ottla.broker.transactions.gates import Gates, TopicPartition
from ottla.broker.waits import pause
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
from ottla.ports import Clock
from ottla.wire.batch import HEADER_BYTES, BatchHeader, read_header

if TYPE_CHECKING:
    # Imported with the first transaction: most brokers never see one, and every start would pay.
    from ottla.wire.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
    )
    from ottla.wire.messages.produce import ProduceRequest
    from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

Refused = dict[TopicPartition, ProtocolError]
AskCoordinator = Callable[[str, "AddPartitionsToTxnRequest"], Awaitable["AddPartitionsToTxnResponse"]]
"""Of the transactional id, wherever it is."""

# How long a version 2 write waits for the markers of the last transaction: as long as Apache Kafka in all, but they are
# mostly there within milliseconds, and the next transaction of a busy producer follows at once.
PAUSES_MS = (2, 4, 10, 24, 60)
_ATTRIBUTES_AT, _TRANSACTIONAL = 22, 0x10


class Admission:
    """What the coordinator said on the transactional batches of one request. Close it when all is appended."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates
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
            gate, open_epoch = self._gates.of(key, header.producer_id)
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
            self._gates.of(key, header.producer_id)[0].on_appended(header.producer_id)

    def close(self) -> None:
        """Releases all guards. Those of refused batches must go: clients may invent any number of producer ids."""
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


class Admissions:
    """Asks the coordinator before the first write of a transaction to a partition."""

    def __init__(
        self, gates: Gates, metadata: Metadata, clock: Clock, ask_coordinator: AskCoordinator
    ) -> None:
        self._gates, self._metadata, self._clock = gates, metadata, clock
        self._ask_coordinator = ask_coordinator

    async def admit(
        self, request: "ProduceRequest", version: int, leave_out: Collection[TopicPartition] = ()
    ) -> Admission | None:
        """None when nothing in the request is transactional: most requests."""
        wanted = self._transactional(request)
        for key in leave_out:
            wanted.pop(key, None)
        if not wanted:
            return None
        admission = Admission(self._gates)
        try:
            await self._admit(wanted, admission, request, version)
        except BaseException:  # also when the connection is gone
            admission.close()
            raise
        return admission

    async def _admit(
        self,
        wanted: Mapping[TopicPartition, BatchHeader],
        admission: Admission,
        request: "ProduceRequest",
        version: int,
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
        adds = version >= PRODUCE_ADDS
        knows_abortable = version >= PRODUCE_ABORTABLE
        codes = await self._ask(request.transactional_id, *producers.pop(), wanted, admission, adds=adds)
        for key, code in codes.items():
            client_code = client_error(code, knows_abortable=knows_abortable, adds=adds)
            admission.refused[key] = error_for(client_code)

    def _refuse_all(self, admission: Admission, request: "ProduceRequest", error: ProtocolError) -> None:
        admission.refused = {
            (topic.name or self._metadata.name_of(topic.topic_id), data.index): error
            for topic in request.topic_data
            for data in topic.partition_data
        }

    def _transactional(self, request: "ProduceRequest") -> dict[TopicPartition, BatchHeader]:
        """Headers of transactional batches; what else is wrong with one the append will say."""
        headers: dict[TopicPartition, BatchHeader] = {}
        for topic in request.topic_data:
            for data in topic.partition_data:
                records = data.records
                if records and len(records) > HEADER_BYTES and records[_ATTRIBUTES_AT] & _TRANSACTIONAL:
                    with suppress(ProtocolError):
                        name = topic.name or self._metadata.topic_name(topic.topic_id)
                        headers[name, data.index] = read_header(records)
        return headers

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
        for pause_ms in (*PAUSES_MS, None):
            unknown = []
            for partition, header in named.items():
                try:
                    gate, open_epoch = self._gates.of(partition, producer_id)
                    guard = gate.ask(producer_id, producer_epoch, open_epoch)
                except ProtocolError as error:
                    refused[partition] = error.code
                    continue
                admission.hold(partition, header, gate, guard)
                if guard is not None:
                    unknown.append(partition)
            if not unknown:
                break
            codes = await self._asked(transactional_id, producer_id, producer_epoch, unknown, adds=adds)
            waits = adds and errors.ConcurrentTransactions.code in codes.values()
            if not waits or pause_ms is None:
                return refused | codes
            await pause(self._clock, pause_ms)
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
            response = await self._ask_coordinator(transactional_id, request)
        except ProtocolError as error:
            return {(topic, index): error.code for topic, indexes in topics.items() for index in indexes}
        return {
            (topic.name, partition.partition_index): partition.partition_error_code
            for result in response.results_by_transaction
            for topic in result.topic_results
            for partition in topic.results_by_partition
            if partition.partition_error_code
        }

    async def admit_offsets(
        self, request: "TxnOffsetCommitRequest", partition: TopicPartition, version: int
    ) -> Admission:
        """TxnOffsetCommit: the same question for the partition of the group's offsets."""
        admission = Admission(self._gates)
        adds = version >= OFFSET_COMMIT_ADDS
        header = _header_of(request.producer_id, request.producer_epoch)
        try:
            codes = await self._ask(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                {partition: header},
                admission,
                adds=adds,
            )
        except BaseException:  # also when the connection is gone
            admission.close()
            raise
        for partition, code in codes.items():
            client_code = client_error(code, knows_abortable=version >= OFFSET_COMMIT_ABORTABLE, adds=adds)
            if client_code == errors.NotEnoughReplicas.code:
                client_code = errors.CoordinatorLoadInProgress.code
            admission.refused[partition] = error_for(client_code)
        return admission


def _header_of(producer_id: int, producer_epoch: int) -> BatchHeader:
    """Enough of a header for the gate: offsets have no batch yet."""
    return BatchHeader(0, 0, -1, 2, 0, _TRANSACTIONAL, 0, 0, 0, producer_id, producer_epoch, -1, 0)
