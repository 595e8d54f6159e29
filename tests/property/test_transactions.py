"""The transaction coordinator among lossy clients and kills: all of a transaction is there, or nothing.

The clients keep a history; the checker judges it together with what the partitions hold in the end.
"""

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from ottla.coordination.shard import Shard
from ottla.coordination.transactions import ending, partitions, producers, transaction
from ottla.coordination.transactions.gate import Gate
from ottla.coordination.transactions.machine import TransactionMachine
from ottla.coordination.transactions.markers import MarkerQueue
from ottla.coordination.transactions.records import TransactionRecords
from ottla.effects import NOTHING, Effects
from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    NotCoordinator,
    ProducerFenced,
    ProtocolError,
)
from ottla.testing.histories import Op, Outcome, Record, Report, check
from ottla.testing.histories.ops import What
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tests.property.transaction_world import Client, World, run_client

AGAIN = {ConcurrentTransactions.code, CoordinatorLoadInProgress.code, NotCoordinator.code}
TRANSACTION_TIMEOUT_MS = 20_000


class Dead(Exception):
    """The client meets an error that it cannot go on from."""


class Producer:
    """One process with a transactional id; `version` is its transaction version."""

    def __init__(self, story: "Story", name: str, transactional_id: str, version: int, work: int) -> None:
        self.story, self.name, self.transactional_id = story, name, transactional_id
        self.version, self.work = version, work
        self.identity = -1, -1
        self.sequences: dict[tuple[str, int], int] = {}
        self.uncertain = False

    def run(self) -> Client:
        try:
            yield from self.init()
            for number in range(self.work):
                if self.story.world.calm:
                    return
                yield from self.transaction(f"{self.name}-{number}")
        except Dead:
            self.story.start(self.transactional_id, after_ms=self.story.world.dice.uniform(0, 5000))

    def transaction(self, name: str) -> Client:
        dice, sound = self.story.world.dice, True
        if self.uncertain and self.version < 2:
            # What is still under way must not count as part of this one.
            yield from self.init(dice.choice([self.identity, (-1, -1)]))
        for i in range(dice.randint(1, 4)):
            if dice.random() < 0.02:
                raise Dead  # killed
            if dice.random() < 0.02:
                yield from self.sleep()
            partition = "t", dice.randrange(3)
            acked = yield from self.send(partition, f"{name}.{i}", name)
            sound = sound and acked
        if dice.random() < 0.05:
            yield from self.sleep()
        yield from self.end(name, commit=sound and dice.random() < 0.8)

    def init(self, holder: tuple[int, int] = (-1, -1)) -> Client:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            producer_id=holder[0],
            producer_epoch=holder[1],
        )
        while True:
            answer = yield self.ask("init_producer_id", request, 4)
            if answer is not None and answer.error_code == 0:
                self.take(answer.producer_id, answer.producer_epoch)
                self.uncertain = False
                return
            if answer is not None and answer.error_code not in AGAIN:
                raise Dead

    def send(self, partition: tuple[str, int], value: str, transaction: str) -> Client:
        """Whether it is acknowledged."""
        story = self.story
        begun = story.begin()
        if self.version < 2:
            yield from self.register(partition)
        sequence = self.sequences.get(partition, 0)
        for _ in range(2):
            answer = yield partial(
                story.world.produce,
                self.transactional_id,
                self.version,
                self.identity,
                sequence,
                partition,
                value,
            )
            if isinstance(answer, int):
                self.sequences[partition] = sequence + 1
                story.sent(self.name, begun, Outcome.OK, partition, answer, value, transaction)
                return True
            if answer is not None and answer.code not in AGAIN:
                break
        self.uncertain = True
        story.sent(self.name, begun, Outcome.UNKNOWN, partition, None, value, transaction)
        return False

    def register(self, partition: tuple[str, int]) -> Client:
        producer_id, epoch = self.identity
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=partition[0], partitions=[partition[1]])],
        )
        while True:
            answer = yield self.ask("add_partitions_to_txn", request, 3)
            if answer is None:
                self.uncertain = True
                continue
            (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
            if result.partition_error_code == 0:
                return
            if result.partition_error_code not in AGAIN:
                raise Dead

    def end(self, transaction: str, *, commit: bool) -> Client:
        producer_id, epoch = self.identity
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=commit,
        )
        story, begun, tries = self.story, self.story.begin(), 0
        what = What.COMMIT if commit else What.ABORT
        while True:
            answer = yield self.ask("end_txn", request, 5 if self.version >= 2 else 4)
            tries += answer is None
            if answer is not None and answer.error_code == 0:
                story.ended(self.name, begun, what, Outcome.OK, transaction)
                self.uncertain = self.uncertain or tries > 0
                if self.version >= 2:
                    self.take(answer.producer_id, answer.producer_epoch)
                return
            if answer is not None and answer.error_code not in AGAIN:
                # If an earlier try was lost on its way back, this answer may be about what came after it.
                story.ended(self.name, begun, what, Outcome.UNKNOWN if tries else Outcome.FAIL, transaction)
                raise Dead
            if story.world.dice.random() < 0.05:
                story.ended(self.name, begun, what, Outcome.UNKNOWN, transaction)
                raise Dead

    def sleep(self) -> Client:
        """Long enough for the transaction to time out. Afterwards the process goes on as if nothing was."""
        clock, delay_ms = self.story.world.clock, self.story.world.dice.uniform(0, 2 * TRANSACTION_TIMEOUT_MS)
        waited = [False]

        def wake() -> None:
            waited[0] = True

        clock.call_later(delay_ms, wake)
        while not waited[0] and not self.story.world.calm:
            yield lambda reply: None

    def ask(self, name: str, request: object, version: int):  # type: ignore[no-untyped-def]
        def handle(reply) -> None:  # type: ignore[no-untyped-def]
            def answer(value: object) -> None:
                self.story.codes[getattr(value, "error_code", 0)] += 1
                reply(_as_response(value))

            self.story.world.ask_coordinator(name, request, version, answer)

        return handle

    def take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != self.identity:
            self.identity, self.sequences = (producer_id, epoch), {}


def _as_response(value: object) -> object:
    """Without a coordinator there is no answer to speak of."""
    return None if isinstance(value, ProtocolError) else value


class Story:
    """A run of the world with clients, and what they saw."""

    def __init__(self, seed: int, version: int, **world: object) -> None:
        self.world = World(seed, transaction_version=version, **world)  # type: ignore[arg-type]
        self.version = version
        self.ops: list[Op] = []
        self.codes: Counter[int] = Counter()
        self._started = 0

    def run(self) -> Report:
        world, dice = self.world, self.world.dice
        for number in range(8):
            # Several processes for each transactional id: the later one fences the earlier.
            self.start(f"id-{number % 4}", after_ms=dice.uniform(0, 40_000) if number >= 4 else 0)
        for _ in range(4):
            world.clock.call_later(dice.uniform(100, 70_000), world.kill_coordinator)
        world.clock.run(world.clock.at_ms + 90_000)
        world.calm = world.ids.calm = world.log.calm = True
        world.clock.run(world.clock.at_ms + 4 * TRANSACTION_TIMEOUT_MS + 60_000)
        world.check_settled()
        world.check_replay()
        world.check_epochs()
        self._agree()
        self._drain()
        self.ops.sort(key=lambda op: op.start_ns)
        return check(self.ops, drained=True)

    def start(self, transactional_id: str, after_ms: float) -> None:
        """A new process; when one dies another takes its place, as long as there is trouble."""
        if self.world.calm or self._started == 60:
            return
        name, version = f"p{self._started}", self.world.dice.choice([1, self.version])
        producer = Producer(self, name, transactional_id, version, work=25)
        self._started += 1
        self.world.clock.call_later(after_ms, lambda: run_client(self.world, producer.run()))

    def begin(self) -> int:
        return int(self.world.clock.at_ms * 1000)

    def sent(self, process, begun, outcome, partition, offset, value, transaction) -> None:
        record = Record(*partition, offset, value)
        self.ops.append(Op(What.SEND, process, begun, self.begin(), outcome, (record,), transaction))

    def ended(self, process, begun, what, outcome, transaction) -> None:
        self.ops.append(Op(what, process, begun, self.begin(), outcome, (), transaction))

    def _agree(self) -> None:
        """All records of a transaction have the same fate, acknowledged or not."""
        fates: dict[str, set[str]] = {}
        for partition in self.world.partitions.values():
            for entry in partition.log:
                if entry.value is not None:
                    fates.setdefault(entry.value.rsplit(".", 1)[0], set()).add(entry.fate)
        torn = {name: each for name, each in fates.items() if len(each) > 1}
        assert not torn, f"torn: {torn}"

    def _drain(self) -> None:
        """A read_committed consumer from the start of each partition."""
        for (topic, number), partition in self.world.partitions.items():
            now = self.begin() + 1
            place = Record(topic, number, 0, None)
            self.ops.append(Op(What.ASSIGN, f"c{number}", now, now, records=(place,)))
            read = tuple(
                Record(topic, number, offset, entry.value)
                for offset, entry in enumerate(partition.log)
                if entry.fate == "committed"
            )
            self.ops.append(Op(What.POLL, f"c{number}", now + 1, now + 1, records=read))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_committed_is_there_and_nothing_else(seed, version):
    story = Story(seed, version)
    story.run().raise_if_any()
    assert story.world.kills > 1


@pytest.mark.parametrize("seed", range(8))
def test_producer_ids_change_in_the_middle_when_epochs_run_out(seed, short_epochs):
    story = Story(seed, 2)
    story.run().raise_if_any()
    assert story.world.ids.next > 105


@pytest.fixture
def short_epochs(monkeypatch):
    for module in (transaction, ending):
        monkeypatch.setattr(module, "EPOCH_LAST_USABLE", 4)
    for module in (producers, ending):
        monkeypatch.setattr(module, "EPOCH_MAX", 5)


def test_the_seeds_see_commits_aborts_fencing_and_unknown_outcomes():
    """What the runs above go through: a world without trouble would prove nothing."""
    seen: Counter[tuple[What, Outcome]] = Counter()
    codes: Counter[int] = Counter()
    for seed in range(6):
        story = Story(seed, 2)
        story.run()
        seen += Counter((op.what, op.outcome) for op in story.ops)
        codes += story.codes
    assert seen[What.COMMIT, Outcome.OK] > 200
    assert seen[What.ABORT, Outcome.OK] > 20
    assert seen[What.COMMIT, Outcome.FAIL] + seen[What.COMMIT, Outcome.UNKNOWN] > 5
    assert seen[What.SEND, Outcome.UNKNOWN] > 20
    assert codes[ConcurrentTransactions.code] > 50
    assert codes[ProducerFenced.code] > 5


# Bugs to plant. Each one has to be found.


def _failed_markers_count(monkeypatch):
    real = MarkerQueue.on_written
    monkeypatch.setattr(
        MarkerQueue, "on_written", lambda self, sent, results: real(self, sent, dict.fromkeys(results, 0))
    )


def _any_report_counts(monkeypatch):
    def on_written(self, sent, results):
        writing = self._writing.get(sent.transactional_id)
        return None if writing and writing.missing <= set(results) else NOTHING

    monkeypatch.setattr(MarkerQueue, "on_written", on_written)


def _decisions_are_forgotten_at_a_restart(monkeypatch):
    monkeypatch.setattr(TransactionMachine, "on_loaded", lambda self, now_ms: NOTHING)


def _clocks_stand_still_after_a_restart(monkeypatch):
    real = TransactionMachine.on_loaded

    def on_loaded(self, now_ms):
        effects = real(self, now_ms)
        return Effects(effects.records, sends=effects.sends)

    monkeypatch.setattr(TransactionMachine, "on_loaded", on_loaded)


def _what_the_log_refused_is_forgotten(monkeypatch):
    monkeypatch.setattr(TransactionMachine, "_sweep", lambda self, now_ms: NOTHING)


def _time_outs_do_not_fence(monkeypatch):
    def fence(old, *, transaction_version, now_ms, ids):
        record = transaction.prepared(
            old, commit=False, epoch=old.producer_epoch, client_version=0, now_ms=now_ms
        )
        return producers.Step(record, -1)

    monkeypatch.setattr(producers, "fence", fence)


def _the_end_keeps_the_epoch(monkeypatch):
    def bumped(old, commit, now_ms, ids):
        epoch = old.producer_epoch
        record = transaction.prepared(old, commit=commit, epoch=epoch, client_version=0, now_ms=now_ms)
        return producers.Step(record, -1)

    monkeypatch.setattr(ending, "_bumped", bumped)


def _verifying_always_succeeds(monkeypatch):
    monkeypatch.setattr(partitions, "verify", lambda known, holder, named: dict.fromkeys(named, 0))


def _partitions_join_while_markers_are_written(monkeypatch):
    def add(old, holder, added, *, version, now_ms):
        return transaction.with_partitions(old, added, client_version=version, now_ms=now_ms)

    monkeypatch.setattr(partitions, "add", add)


def _a_zombie_may_end_what_is_not_its_own(monkeypatch):
    real = ending.end
    monkeypatch.setattr(
        ending,
        "end",
        lambda old, holder, **how: real(old, (old.producer_id, old.producer_epoch), **how),
    )


def _markers_leave_the_gate_open(monkeypatch):
    monkeypatch.setattr(Gate, "on_marker", lambda self, producer_id: None)
    monkeypatch.setattr(Gate, "on_appended", lambda self, producer_id: None)


def _the_next_epoch_slips_into_an_open_transaction(monkeypatch):
    real = Gate.ask
    monkeypatch.setattr(
        Gate, "ask", lambda self, who, epoch, at: None if at is not None else real(self, who, epoch, at)
    )
    monkeypatch.setattr(Gate, "check", lambda self, who, epoch, at, guard: None)


def _an_open_transaction_is_taken_over(monkeypatch):
    def take_over(self, old, now_ms):
        return Effects(
            records=(
                transaction.initialized(
                    old, old.producer_id, old.producer_epoch + 1, timeout_ms=old.timeout_ms, now_ms=now_ms
                ),
            )
        )

    monkeypatch.setattr(TransactionMachine, "_fence", take_over)


def _partitions_are_not_logged(monkeypatch):
    real = TransactionRecords.decode

    def decode(self, key, value):
        record = real(self, key, value)
        return replace(record, partitions=frozenset())

    monkeypatch.setattr(TransactionRecords, "decode", decode)


def _answers_leave_before_they_are_committed(monkeypatch):
    monkeypatch.setattr(Shard, "_when_committed", lambda self, action: action())


def _every_init_gets_the_same_epoch(monkeypatch):
    def initialize(old, holder, last_epoch, *, timeout_ms, now_ms, ids):
        epoch = max(old.producer_epoch, 0)
        record = transaction.initialized(old, old.producer_id, epoch, timeout_ms=timeout_ms, now_ms=now_ms)
        return producers.Step(record, -1)

    monkeypatch.setattr(producers, "initialize", initialize)


MUTANTS = [
    _failed_markers_count,
    _any_report_counts,
    _decisions_are_forgotten_at_a_restart,
    _clocks_stand_still_after_a_restart,
    _what_the_log_refused_is_forgotten,
    _time_outs_do_not_fence,
    _the_end_keeps_the_epoch,
    _verifying_always_succeeds,
    _partitions_join_while_markers_are_written,
    _a_zombie_may_end_what_is_not_its_own,
    _markers_leave_the_gate_open,
    _the_next_epoch_slips_into_an_open_transaction,
    _an_open_transaction_is_taken_over,
    _partitions_are_not_logged,
    _answers_leave_before_they_are_committed,
    _every_init_gets_the_same_epoch,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__.strip("_"))
def test_planted_bugs_are_found(mutant, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(40):
            for version in (2, 1):
                Story(seed, version).run().raise_if_any()
