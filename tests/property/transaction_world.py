"""A world for the transaction coordinator: the real machine and shard, made-up partitions and clients.

Everything happens in the order that a seed rolls: messages are late, lost or delivered although the sender
has given up on them, the coordinator is killed and loads its log again (what was not committed may be
gone), clients die and others take over their transactional id while the old one still runs.
"""

import heapq
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
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
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.records import Record

TIMEOUT_MS = 2000
"""How long clients wait for an answer."""

Answer = Callable[[Any], None]


class Clock:
    def __init__(self) -> None:
        self.at_ms = 1_000_000.0
        self._heap: list[tuple[float, int, Callable[[], None], list[bool]]] = []
        self._count = 0

    def now_ms(self) -> int:
        return int(self.at_ms)

    monotonic_ms = now_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> "Cancel":
        self._count += 1
        alive = [True]
        heapq.heappush(self._heap, (self.at_ms + delay_ms, self._count, callback, alive))
        return Cancel(alive)

    def run(self, until_ms: float) -> None:
        while self._heap and self._heap[0][0] <= until_ms:
            self.at_ms, _, callback, alive = heapq.heappop(self._heap)
            if alive[0]:
                callback()
        self.at_ms = until_ms


@dataclass(slots=True)
class Cancel:
    alive: list[bool]

    def cancel(self) -> None:
        self.alive[0] = False


class TransactionLog:
    """One partition of `__transaction_state`: what is appended is committed a little later."""

    def __init__(self, dice: random.Random) -> None:
        self.records: list[Record] = []
        self.high_watermark = 0
        self.calm = False
        self._dice = dice

    def append(self, records: list[Record], producer: tuple[int, int] | None) -> int:
        if not self.calm and self._dice.random() < 0.03:
            raise NotEnoughReplicas
        end = len(self.records)
        self.records += [record._replace(offset=end + i) for i, record in enumerate(records)]
        return len(self.records)

    def committed(self) -> int:
        return self.high_watermark


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
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.next = 100
        self.calm = False

    def next_producer_id(self) -> int:
        if not self.calm and self._dice.random() < 0.2:
            raise CoordinatorLoadInProgress
        self.next += 1
        return self.next


class World:
    def __init__(
        self,
        seed: int,
        *,
        transaction_version: int = 2,
        machine: type[TransactionMachine] = TransactionMachine,
    ) -> None:
        self.dice = random.Random(seed)
        self.clock = Clock()
        self.settings = Settings(transaction_version=transaction_version, id_expiration_ms=10**9)
        self.codec = TransactionRecords(transaction_version)
        self.log = TransactionLog(self.dice)
        self.ids = Ids(self.dice)
        self.partitions: dict[TopicPartition, DataPartition] = {("t", i): DataPartition() for i in range(3)}
        self.calm = False
        self.coordinator_epoch = -1
        self.kills = 0
        self._machine_class = machine
        self.shard: Shard | None = None
        self.load()

    # The coordinator.

    def load(self) -> None:
        self.coordinator_epoch += 1
        machine = self._machine_class(self.settings, self.ids, self.coordinator_epoch)
        self.shard = Shard(machine, self.codec, self.log, self.clock, self._write_markers)
        self.shard.replay(self.log.records, None)
        self.log.high_watermark = len(self.log.records)
        self.shard.loaded()
        self._commit_later()

    def kill_coordinator(self) -> None:
        if self.shard is None or self.calm:
            return
        self.check_replay()
        self.kills += 1
        self.shard.close()
        self.shard = None
        end = self.dice.randint(self.log.high_watermark, len(self.log.records))
        del self.log.records[end:]
        self.clock.call_later(self.dice.uniform(1, 500), self.load)

    def _commit_later(self) -> None:
        shard = self.shard

        def commit() -> None:
            if self.shard is shard and shard is not None:
                self.log.high_watermark = len(self.log.records)
                shard.on_committed()
                self._commit_later()

        self.clock.call_later(self.dice.uniform(0.1, 15), commit)

    def ask_coordinator(self, name: str, request: Any, version: int, answer: Answer) -> None:
        """As the broker would: on arrival, whoever is the coordinator by then."""
        if self.shard is None:
            answer(NotCoordinator())
            return
        if name == "end_txn" and self.dice.random() < 0.04:  # the most delicate moment for a kill
            self.clock.call_later(self.dice.uniform(0, self.dice.choice([5, 60])), self.kill_coordinator)
        handler = getattr(self.shard.machine, f"on_{name}")
        self.shard.handle(lambda token, now_ms: handler(request, version, token, now_ms), answer)

    # The network.

    def post(self, deliver: Callable[[], None]) -> None:
        """One message, one way."""
        if not self.calm and self.dice.random() < 0.04:
            return
        weather = 1.0 if self.calm else self.dice.random()
        slowest_ms = 5 * TIMEOUT_MS if weather < 0.06 else TIMEOUT_MS if weather < 0.15 else 20
        self.clock.call_later(self.dice.uniform(0, slowest_ms), deliver)

    def call(self, handle: Callable[[Answer], None], answer: Answer) -> None:
        """A request and its answer; None when it takes too long, though it may still be carried out."""
        waiting = [True]

        def settle(value: Any) -> None:
            if waiting[0]:
                waiting[0] = False
                answer(value)

        self.clock.call_later(TIMEOUT_MS, lambda: settle(None))
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
        machine = None if self.shard is None else self.shard.machine

        def settle(partition: TopicPartition, code: int) -> None:
            results[partition] = code
            if len(results) == len(markers.partitions):
                self._report(machine, markers, results)

        def deliver(partition: TopicPartition) -> None:
            is_dead = self.shard is None or self.coordinator_epoch != markers.coordinator_epoch
            if is_dead and self.dice.random() < 0.5:
                return None  # it went down with the one who was to send it
            if not self.calm and self.dice.random() < 0.15:
                return settle(partition, self.dice.choice([NotLeaderOrFollower.code, RequestTimedOut.code]))
            try:
                self.partitions[partition].mark(markers)
            except ProtocolError as error:
                return settle(partition, error.code)
            # Written; but perhaps nobody learns of it.
            lost = not self.calm and self.dice.random() < 0.1
            return settle(partition, RequestTimedOut.code if lost else 0)

        for each in sorted(markers.partitions):
            self.clock.call_later(self.dice.uniform(0, 50), lambda partition=each: deliver(partition))  # type: ignore[misc]

    def _report(self, machine: object, markers: Markers, results: dict[TopicPartition, int]) -> None:
        """To whoever is the coordinator now: after a kill that is not the one who sent them."""
        if self.shard is not None:
            now_ms = self.clock.now_ms()
            self.shard.carry_out(self.shard.machine.on_markers_written(markers, results, now_ms))  # type: ignore[attr-defined]

    # What has to hold.

    def check_replay(self) -> None:
        """A coordinator that reads the log knows what the one that wrote it knows."""
        assert self.shard is not None
        replayed = self._machine_class(self.settings, self.ids, 0)
        for record in self.log.records:
            assert record.key is not None
            replayed.apply(self.codec.decode(record.key, record.value), record.offset, None)
        assert replayed.transactions == self.shard.machine.transactions, "replay is not as live"  # type: ignore[attr-defined]

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
        states = {each.state.title for each in self.shard.machine.transactions.values()}  # type: ignore[attr-defined]
        assert states <= {"Empty", "CompleteCommit", "CompleteAbort"}, f"still waiting: {states}"
        for partition, each in self.partitions.items():
            hanging = [producer_id for producer_id, state in each.producers.items() if state.open]
            assert not hanging, f"{partition} has hanging transactions of {hanging}"


Client = Generator[Callable[[Answer], None], Any, None]


def run_client(world: World, client: Client) -> None:
    """Drives a client: what it yields is called, and it goes on with the answer (None: it took too long)."""

    def step(value: Any) -> None:
        try:
            call = client.send(value)
        except StopIteration:
            return
        world.call(
            call, lambda answer: world.clock.call_later(world.dice.uniform(0, 30), lambda: step(answer))
        )

    step(None)
