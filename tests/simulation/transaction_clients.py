"""Transactional producers in the transaction coordinator's world: all of a transaction is there, or nothing.

The clients keep a history; the checker judges it together with what the partitions hold in the end.
"""

from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    NotCoordinator,
    ProtocolError,
)
from ottla.testing.histories import Op, Outcome, Record, check
from ottla.testing.histories.ops import What
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tests.simulation.transaction_world import Answer, Client, TransactionWorld, run_client

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
                if self.story.calm:
                    return
                yield from self.transaction(f"{self.name}-{number}")
        except Dead:
            self.story.start(self.transactional_id, after_ms=self.story.random.uniform(0, 5000))

    def transaction(self, name: str) -> Client:
        dice, sound = self.story.random, True
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

    def send(
        self, partition: tuple[str, int], value: str, transaction: str
    ) -> Generator[Callable[[Answer], None], Any, bool]:
        """Whether it is acknowledged."""
        story = self.story
        begun = story.begin()
        if self.version < 2:
            yield from self.register(partition)
        sequence = self.sequences.get(partition, 0)
        for _ in range(2):
            answer = yield partial(
                story.produce,
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
            if story.random.random() < 0.05:
                story.ended(self.name, begun, what, Outcome.UNKNOWN, transaction)
                raise Dead

    def sleep(self) -> Client:
        """Long enough for the transaction to time out. Afterwards the process goes on as if nothing was."""
        time, delay_ms = self.story.time, self.story.random.uniform(0, 2 * TRANSACTION_TIMEOUT_MS)
        waited = [False]

        def wake() -> None:
            waited[0] = True

        time.call_later(delay_ms, wake)
        while not waited[0] and not self.story.calm:
            yield lambda reply: None

    def ask(self, name: str, request: object, version: int):
        def handle(reply) -> None:
            def answer(value: object) -> None:
                self.story.codes[getattr(value, "error_code", 0)] += 1
                reply(_as_response(value))

            self.story.ask_coordinator(name, request, version, answer)

        return handle

    def take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != self.identity:
            self.identity, self.sequences = (producer_id, epoch), {}


def _as_response(value: object) -> object:
    """Without a coordinator there is no answer to speak of."""
    return None if isinstance(value, ProtocolError) else value


class Story(TransactionWorld):
    """The world with clients, and what they saw."""

    def __init__(self, seed: int, version: int) -> None:
        super().__init__(seed, version)
        self.version = version
        self.ops: list[Op] = []
        self.codes: Counter[int] = Counter()
        self._started = 0

    def _run(self) -> None:
        for number in range(8):
            # Several processes for each transactional id: the later one fences the earlier.
            self.start(f"id-{number % 4}", after_ms=self.random.uniform(0, 40_000) if number >= 4 else 0)
        for _ in range(4):
            self.time.call_later(self.random.uniform(100, 70_000), self.kill_coordinator)
        self.go_on(90_000)
        self.calm = self.ids.calm = self.log.calm = True
        self.go_on(4 * TRANSACTION_TIMEOUT_MS + 60_000)
        self.check_settled()
        self.check_replay()
        self.check_epochs()
        self._agree()
        self._drain()
        self.ops.sort(key=lambda op: op.start_ns)
        check(self.ops, drained=True).raise_if_any()

    def start(self, transactional_id: str, after_ms: float) -> None:
        """A new process; when one dies another takes its place, as long as there is trouble."""
        if self.calm or self._started == 60:
            return
        name, version = f"p{self._started}", self.random.choice([1, self.version])
        producer = Producer(self, name, transactional_id, version, work=25)
        self._started += 1
        self.time.call_later(after_ms, lambda: run_client(self, producer.run()))

    def begin(self) -> int:
        return int(self.time.exact_ms * 1000)

    def sent(self, process, begun, outcome, partition, offset, value, transaction) -> None:
        topic, index = partition
        record = Record(topic, index, offset, value)
        self.ops.append(Op(What.SEND, process, begun, self.begin(), outcome, (record,), transaction))

    def ended(self, process, begun, what, outcome, transaction) -> None:
        self.ops.append(Op(what, process, begun, self.begin(), outcome, (), transaction))

    def _agree(self) -> None:
        """All records of a transaction have the same fate, acknowledged or not."""
        fates: dict[str, set[str]] = {}
        for partition in self.partitions.values():
            for entry in partition.log:
                if entry.value is not None:
                    fates.setdefault(entry.value.rsplit(".", 1)[0], set()).add(entry.fate)
        torn = {name: each for name, each in fates.items() if len(each) > 1}
        assert not torn, f"torn: {torn}"

    def _drain(self) -> None:
        """A read_committed consumer from the start of each partition."""
        for (topic, number), partition in self.partitions.items():
            now = self.begin() + 1
            place = Record(topic, number, 0, None)
            self.ops.append(Op(What.ASSIGN, f"c{number}", now, now, records=(place,)))
            read = tuple(
                Record(topic, number, offset, entry.value)
                for offset, entry in enumerate(partition.log)
                if entry.fate == "committed"
            )
            self.ops.append(Op(What.POLL, f"c{number}", now + 1, now + 1, records=read))
