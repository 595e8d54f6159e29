"""A world for the transaction coordinator: the real machine and shard, made-up partitions and clients.

Everything happens in the order that a seed rolls: messages are late, lost or delivered although the sender
has given up on them, the coordinator is killed and loads its log again (what was not committed may be
gone), clients die and others take over their transactional id while the old one still runs.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ottla.coordination.shard import Shard
from ottla.coordination.transactions.gate import Gate, Guard
from ottla.coordination.transactions.machine import TransactionMachine
from ottla.coordination.transactions.markers import Markers
from ottla.coordination.transactions.records import TransactionRecords
from ottla.coordination.transactions.settings import Settings
from ottla.coordination.transactions.transaction import TopicPartition, Transaction
from ottla.errors import (
    CoordinatorLoadInProgress,
    InvalidProducerEpoch,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    ProtocolError,
    RequestTimedOut,
    TransactionCoordinatorFenced,
    error_for,
)
from ottla.testing.world.simulation import Simulation
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.records import Record
from tests.unit.coordination.shard_log import MemoryShardLog

TIMEOUT_MS = 2000
"""How long clients wait for an answer."""

Answer = Callable[[Any], Any]


class TransactionLog(MemoryShardLog):
    """One partition of `__transaction_state`: what is appended is committed a little later."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.high_watermark = 0
        self.calm = False
        self._random = random

    def append(self, records: list[Record], producer: tuple[int, int] | None) -> int:
        if not self.calm and self._random.random() < 0.03:
            raise NotEnoughReplicas
        return super().append(records, producer)

    def committed(self) -> int:
        return self.high_watermark

    def commit(self) -> None:
        self.high_watermark = self.end
        waiting, self.waiting = self.waiting, []
        for wake in waiting:
            wake()

    def lose_uncommitted(self) -> None:
        """Some of it, from the end."""
        kept = self._random.randint(self.high_watermark, self.end)
        self.batches = [batch for batch in self.batches if batch[0][-1].offset < kept]
        self.end = self.records[-1].offset + 1 if self.batches else 0


@dataclass(slots=True)
class Entry:
    value: str | None
    producer_id: int
    fate: str = "open"  # committed, aborted


@dataclass(slots=True)
class ProducerState:
    epoch: int = -1
    offsets: list[int] = field(default_factory=list)  # by sequence number
    open: list[Entry] = field(default_factory=list)

    @property
    def open_epoch(self) -> int | None:
        return self.epoch if self.open else None


class DataPartition:
    """A topic partition as far as transactions matter: epochs, sequences, the gate, markers."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.producers: dict[int, ProducerState] = {}
        self.coordinator_epoch = -1
        self.gate = Gate()

    def state(self, producer_id: int) -> ProducerState:
        return self.producers.setdefault(producer_id, ProducerState())

    def append(self, producer_id: int, epoch: int, sequence: int, value: str, guard: Guard | None) -> int:
        state = self.state(producer_id)
        if epoch < state.epoch:
            raise InvalidProducerEpoch
        sequences = len(state.offsets) if epoch == state.epoch else 0
        if sequence < sequences:
            return state.offsets[sequence]
        if sequence > sequences:
            raise OutOfOrderSequenceNumber
        self.gate.check(producer_id, epoch, state.open_epoch, guard)
        self.gate.on_appended(producer_id)
        if epoch > state.epoch:
            state.epoch, state.offsets = epoch, []
        entry = Entry(value, producer_id)
        self.log.append(entry)
        state.offsets.append(len(self.log) - 1)
        state.open.append(entry)
        return len(self.log) - 1

    def mark(self, markers: Markers) -> None:
        state = self.state(markers.producer_id)
        if markers.coordinator_epoch < self.coordinator_epoch:
            raise TransactionCoordinatorFenced
        if markers.producer_epoch < state.epoch:
            raise InvalidProducerEpoch
        bumped = markers.transaction_version >= 2
        if bumped and state.open and markers.producer_epoch == state.epoch:
            raise InvalidProducerEpoch  # with version 2 a marker always has an epoch of its own
        self.coordinator_epoch = markers.coordinator_epoch
        for entry in state.open:
            entry.fate = "committed" if markers.committed else "aborted"
        state.open = []
        self.gate.on_marker(markers.producer_id)
        if markers.producer_epoch > state.epoch:
            state.epoch, state.offsets = markers.producer_epoch, []
        self.log.append(Entry(None, markers.producer_id, "marker"))


class Ids:
    def __init__(self, random: Random) -> None:
        self._random = random
        self.next = 100
        self.calm = False

    def next_producer_id(self) -> int:
        if not self.calm and self._random.random() < 0.2:
            raise CoordinatorLoadInProgress
        self.next += 1
        return self.next


class TransactionWorld(Simulation):
    def __init__(self, seed: int, transaction_version: int = 2) -> None:
        super().__init__(seed)
        self.settings = Settings(transaction_version=transaction_version, id_expiration_ms=10**9)
        self.codec = TransactionRecords(transaction_version)
        self.log = TransactionLog(self.random)
        self.ids = Ids(self.random)
        self.partitions: dict[TopicPartition, DataPartition] = {("t", i): DataPartition() for i in range(3)}
        self.calm = False
        self.coordinator_epoch = -1
        self.kills = 0
        self.machine = TransactionMachine(self.settings, self.ids, 0)
        self.shard: Shard | None = None
        self.load()

    # The coordinator.

    def load(self) -> None:
        self.coordinator_epoch += 1
        self.machine = TransactionMachine(self.settings, self.ids, self.coordinator_epoch)
        self.shard = Shard(self.machine, self.codec, self.log, self.time, self._write_markers)
        self.shard.replay(self.log.records, None)
        self.log.commit()
        self.shard.loaded()
        self._commit_later()

    def kill_coordinator(self) -> None:
        if self.shard is None or self.calm:
            return
        self.check_replay()
        self.kills += 1
        self.shard.close()
        self.shard = None
        self.log.lose_uncommitted()
        self.time.call_later(self.random.uniform(1, 500), self.load)

    def _commit_later(self) -> None:
        shard = self.shard

        def commit() -> None:
            if self.shard is shard and shard is not None:
                self.log.commit()
                self._commit_later()

        self.time.call_later(self.random.uniform(0.1, 15), commit)

    def ask_coordinator(self, name: str, request: Any, version: int, answer: Answer) -> None:
        """As the broker would: on arrival, whoever is the coordinator by then."""
        if self.shard is None:
            answer(NotCoordinator())
            return
        if name == "end_txn" and self.random.random() < 0.04:  # the most delicate moment for a kill
            self.time.call_later(self.random.uniform(0, self.random.choice([5, 60])), self.kill_coordinator)
        handler = getattr(self.machine, f"on_{name}")
        self.shard.handle(lambda token, now_ms: handler(request, version, token, now_ms), answer)

    # The network.

    def post(self, deliver: Callable[[], None]) -> None:
        """One message, one way."""
        if not self.calm and self.random.random() < 0.04:
            return
        weather = 1.0 if self.calm else self.random.random()
        slowest_ms = 5 * TIMEOUT_MS if weather < 0.06 else TIMEOUT_MS if weather < 0.15 else 20
        self.time.call_later(self.random.uniform(0, slowest_ms), deliver)

    def call(self, handle: Callable[[Answer], None], answer: Answer) -> None:
        """A request and its answer; None when it takes too long, though it may still be carried out."""
        waiting = [True]

        def settle(value: Any) -> None:
            if waiting[0]:
                waiting[0] = False
                answer(value)

        self.time.call_later(TIMEOUT_MS, lambda: settle(None))
        self.post(lambda: handle(lambda value: self.post(lambda: settle(value))))

    # Partition leaders.

    def produce(
        self,
        transactional_id: str,
        version: int,
        producer: tuple[int, int],
        sequence: int,
        partition: TopicPartition,
        value: str,
        answer: Answer,
    ) -> None:
        leader = self.partitions[partition]

        def append(guard: Guard | None) -> None:
            length = len(leader.log)
            try:
                offset = leader.append(*producer, sequence, value, guard)
            except ProtocolError as error:
                answer(error)
                return
            if len(leader.log) > length:
                self.check_known(transactional_id, producer[0], partition)
            answer(offset)

        try:
            guard = leader.gate.ask(*producer, leader.state(producer[0]).open_epoch)
        except ProtocolError as error:
            answer(error)
            return
        if guard is None:
            append(None)
            return

        def checked(response: Any) -> None:
            if response is None or isinstance(response, ProtocolError):
                answer(response or RequestTimedOut())
                return
            (result,) = response.results_by_transaction[0].topic_results[0].results_by_partition
            if result.partition_error_code:
                answer(error_for(result.partition_error_code))
            else:
                append(guard)

        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id,
                    producer_id=producer[0],
                    producer_epoch=producer[1],
                    verify_only=version < 2,
                    topics=[AddPartitionsToTxnTopic(name=partition[0], partitions=[partition[1]])],
                )
            ]
        )
        self.call(lambda reply: self.ask_coordinator("add_partitions_to_txn", request, 5, reply), checked)

    def _write_markers(self, markers: Markers) -> None:
        """Each partition on its own; the report follows when nothing of it is under way any more."""
        results: dict[TopicPartition, int] = {}

        def settle(partition: TopicPartition, code: int) -> None:
            results[partition] = code
            if len(results) == len(markers.partitions):
                self._report(markers, results)

        def deliver(partition: TopicPartition) -> None:
            is_dead = self.shard is None or self.coordinator_epoch != markers.coordinator_epoch
            if is_dead and self.random.random() < 0.5:
                return None  # it went down with the one who was to send it
            if not self.calm and self.random.random() < 0.15:
                return settle(partition, self.random.choice([NotLeaderOrFollower.code, RequestTimedOut.code]))
            try:
                self.partitions[partition].mark(markers)
            except ProtocolError as error:
                return settle(partition, error.code)
            # Written; but perhaps nobody learns of it.
            lost = not self.calm and self.random.random() < 0.1
            return settle(partition, RequestTimedOut.code if lost else 0)

        for each in sorted(markers.partitions):
            self.time.call_later(self.random.uniform(0, 50), lambda partition=each: deliver(partition))  # type: ignore[misc]

    def _report(self, markers: Markers, results: dict[TopicPartition, int]) -> None:
        """To whoever is the coordinator now: after a kill that is not the one who sent them."""
        if self.shard is not None:
            now_ms = self.time.now_ms()
            self.shard.carry_out(self.machine.on_markers_written(markers, results, now_ms))

    # What has to hold.

    def check_replay(self) -> None:
        """A coordinator that reads the log knows what the one that wrote it knows."""
        assert self.shard is not None
        replayed = TransactionMachine(self.settings, self.ids, 0)
        for record in self.log.records:
            assert record.key is not None
            replayed.apply(self.codec.decode(record.key, record.value), record.offset, None)
        assert replayed.transactions == self.machine.transactions, "replay is not as live"

    def check_known(self, transactional_id: str, producer_id: int, partition: TopicPartition) -> None:
        """Whatever a partition takes belongs to a transaction that will send it a marker."""
        for record in reversed(self.log.records):
            assert record.key is not None
            known = self.codec.decode(record.key, record.value)
            if isinstance(known, Transaction) and known.transactional_id == transactional_id:
                assert known.producer_id == producer_id, "a record of a producer that is gone"
                assert partition in known.partitions, "a record outside of any transaction"
                return

    def check_epochs(self) -> None:
        """Of a transactional id the epoch never falls, and a producer id never comes back."""
        last: dict[str, tuple[int, int]] = {}
        for record in self.log.records:
            assert record.key is not None
            now = self.codec.decode(record.key, record.value)
            assert isinstance(now, Transaction)
            assert (now.producer_id, now.producer_epoch) >= last.get(now.transactional_id, (-1, -1)), (
                "epoch fell"
            )
            last[now.transactional_id] = now.producer_id, now.producer_epoch

    def check_settled(self) -> None:
        """With no more faults everything comes to an end."""
        assert self.shard is not None
        states = {each.state.title for each in self.machine.transactions.values()}
        assert states <= {"Empty", "CompleteCommit", "CompleteAbort"}, f"still waiting: {states}"
        for partition, each in self.partitions.items():
            hanging = [producer_id for producer_id, state in each.producers.items() if state.open]
            assert not hanging, f"{partition} has hanging transactions of {hanging}"


Client = Generator[Callable[[Answer], None], Any, None]


def run_client(world: TransactionWorld, client: Client) -> None:
    """Drives a client: what it yields is called, and it goes on with the answer (None: it took too long)."""

    def step(value: Any) -> None:
        try:
            call = client.send(value)
        except StopIteration:
            return
        world.call(
            call,
            lambda answer: world.time.call_later(world.random.uniform(0, 30), lambda: step(answer)),
        )

    step(None)
