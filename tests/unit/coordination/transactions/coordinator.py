"""A transaction coordinator in a test: the real machine and shard, a log in memory, a clock that the test moves."""

from collections.abc import Callable, Mapping
from typing import Any

from ottla.coordination.shard import Shard
from ottla.coordination.transactions.machine import TransactionMachine
from ottla.coordination.transactions.markers import Markers
from ottla.coordination.transactions.records import TransactionRecords
from ottla.coordination.transactions.settings import Settings
from ottla.coordination.transactions.transaction import TopicPartition, Transaction
from ottla.effects import Effects, Token
from ottla.errors import CoordinatorLoadInProgress, ProtocolError
from ottla.testing.world.time import BEGIN_MS, Time
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.unit.coordination.shard_log import MemoryShardLog

START_MS = BEGIN_MS


class CountingIds:
    def __init__(self, first: int = 4) -> None:
        self.next = first
        self.refuses = False

    def next_producer_id(self) -> int:
        if self.refuses:
            raise CoordinatorLoadInProgress
        self.next += 1
        return self.next - 1


class Coordinator:
    def __init__(
        self, settings: Settings | None = None, machine: type[TransactionMachine] = TransactionMachine
    ) -> None:
        self.settings = settings or Settings()
        self.ids = CountingIds()
        self.log = MemoryShardLog()
        self.clock = Time()
        self.sends: list[Markers] = []
        self._machine_class = machine
        self._epoch = 0
        self._load()

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def restart(self) -> None:
        """All but the log is gone."""
        self.shard.close()
        self.sends.clear()
        self._epoch += 1
        self._load()

    def advance(self, by_ms: int) -> None:
        self.clock.advance(by_ms)

    def write_markers(self, codes: Mapping[TopicPartition, int] | None = None) -> list[Markers]:
        """Reports what was sent as written, or with these codes."""
        sent, self.sends = self.sends, []
        for markers in sent:
            results = dict.fromkeys(markers.partitions, 0) if codes is None else codes
            self.shard.carry_out(self.machine.on_markers_written(markers, results, self.now_ms))
        return sent

    def _load(self) -> None:
        codec = TransactionRecords(self.settings.transaction_version)
        self.machine = self._machine_class(self.settings, self.ids, self._epoch)
        self.shard = Shard(
            self.machine, codec, self.log, self.clock, lambda markers: self.sends.append(markers)
        )
        self.shard.replay(self.log.records, None)
        self.shard.loaded()

    # What clients and brokers ask. Answers are codes, or (code, producer id, epoch).

    def init(
        self,
        transactional_id: str,
        version: int = 4,
        holder: tuple[int, int] = (-1, -1),
        timeout_ms: int = 60_000,
    ) -> tuple[int, int, int]:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=holder[0],
            producer_epoch=holder[1],
        )
        answer = self._ask("init_producer_id", request, version)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    def add(
        self, transactional_id: str, holder: tuple[int, int], partitions: list[int], version: int = 3
    ) -> list[int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=holder[0],
            v3_and_below_producer_epoch=holder[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=partitions)],
        )
        topics = self._ask("add_partitions_to_txn", request, version).results_by_topic_v3_and_below
        return [each.partition_error_code for topic in topics for each in topic.results_by_partition]

    def add_batched(
        self, transactional_id: str, holder: tuple[int, int], partitions: list[int], *, verify: bool = False
    ) -> list[int]:
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id,
                    producer_id=holder[0],
                    producer_epoch=holder[1],
                    verify_only=verify,
                    topics=[AddPartitionsToTxnTopic(name="t", partitions=partitions)],
                )
            ]
        )
        (result,) = self._ask("add_partitions_to_txn", request, 5).results_by_transaction
        return [
            each.partition_error_code for topic in result.topic_results for each in topic.results_by_partition
        ]

    def verify(self, transactional_id: str, holder: tuple[int, int], partitions: list[int]) -> list[int]:
        return self.add_batched(transactional_id, holder, partitions, verify=True)

    def add_offsets(self, transactional_id: str, holder: tuple[int, int], version: int = 4) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=holder[0], producer_epoch=holder[1], group_id="g"
        )
        return int(self._ask("add_offsets_to_txn", request, version, 42).error_code)

    def end(self, transactional_id: str, holder: tuple[int, int], commit: bool, version: int = 4) -> int:
        return self.end_bumping(transactional_id, holder, commit, version)[0]

    def end_bumping(
        self, transactional_id: str, holder: tuple[int, int], commit: bool, version: int = 5
    ) -> tuple[int, int, int]:
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=holder[0],
            producer_epoch=holder[1],
            committed=commit,
        )
        answer = self._ask("end_txn", request, version)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    def describe(self, transactional_id: str) -> TransactionState:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = self.ask(lambda token, now_ms: self.machine.on_describe_transactions(request, token, now_ms))
        (state,) = answer.transaction_states
        assert isinstance(state, TransactionState)
        return state

    def list(self, **filters: Any) -> ListTransactionsResponse:
        request = ListTransactionsRequest(**filters)
        answer = self.ask(lambda token, now_ms: self.machine.on_list_transactions(request, token, now_ms))
        assert isinstance(answer, ListTransactionsResponse)
        return answer

    # Short cuts.

    def ready(self, transactional_id: str = "id", timeout_ms: int = 60_000) -> tuple[int, int]:
        """A fresh producer: its id and epoch."""
        code, producer_id, epoch = self.init(transactional_id, timeout_ms=timeout_ms)
        assert code == 0
        return producer_id, epoch

    def worn(self, transactional_id: str = "id", epoch: int = 32766) -> tuple[int, int]:
        """A producer that has used up its epochs, as if it had come back that often."""
        producer_id, _ = self.ready(transactional_id)
        record = self.transaction(transactional_id)
        fields = {name: getattr(record, name) for name in Transaction.__slots__} | {"producer_epoch": epoch}  # type: ignore[attr-defined]
        self.shard.carry_out(Effects(records=(Transaction(**fields),)))
        return producer_id, epoch

    def transaction(self, transactional_id: str = "id") -> Transaction:
        return self.machine.transactions[transactional_id]

    def state(self, transactional_id: str = "id") -> str:
        return self.transaction(transactional_id).state.title

    def ask(self, decide: Callable[[Token[Any], int], Effects]) -> Any:
        """The answer, which comes at once: what is appended here is committed."""
        answers: list[Any] = []
        self.shard.handle(decide, answers.append)
        (answer,) = answers
        if isinstance(answer, ProtocolError):
            raise answer
        return answer

    def _ask(self, name: str, request: Any, version: int, *more: Any) -> Any:
        handler = getattr(self.machine, f"on_{name}")
        return self.ask(lambda token, now_ms: handler(request, version, *more, token, now_ms))
