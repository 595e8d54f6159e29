"""The transaction coordinator of one shard of `__transaction_state`: requests in, decisions out.

A decision (commit or abort) is a record. Once that is committed the client has its answer and the markers
leave; when every partition has its marker, a second record completes the transaction. A coordinator that
dies in between is replaced by one that reads the decision in the log and sends the markers again.

Version notes: errors for a lost epoch are INVALID_PRODUCER_EPOCH to old clients and PRODUCER_FENCED from
InitProducerId v4 and AddPartitionsToTxn, AddOffsetsToTxn and EndTxn v2 on. Left to the handlers, who know
the cluster: InitProducerId without a transactional id, topics that do not exist.
Not offered: two-phase commit (KIP-939).
"""

from collections.abc import Mapping
from itertools import islice

from ottla.coordination.transactions import ending, listing, partitions, producers, timers
from ottla.coordination.transactions.markers import MarkerQueue, Markers, TransactionEffects
from ottla.coordination.transactions.producers import Identity, Step
from ottla.coordination.transactions.settings import ProducerIds, Settings
from ottla.coordination.transactions.timers import TimerKind, TransactionTimer
from ottla.coordination.transactions.transaction import (
    BUMPING_VERSION,
    NO_PRODUCER_EPOCH,
    Forgotten,
    State,
    TopicPartition,
    Transaction,
    completed,
)
from ottla.effects import NOTHING, Effects, Timer, Token, answer_to, reply_to
from ottla.errors import (
    NONE,
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    PolicyViolation,
    ProducerFenced,
    ProtocolError,
)
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

OFFSETS_TOPIC = "__consumer_offsets"
FENCED_SINCE_INIT = 4
FENCED_SINCE = 2


class TransactionMachine:
    """`coordinator_epoch` is the leader epoch of the shard's partition: an older one's markers are void."""

    def __init__(self, settings: Settings, ids: ProducerIds, coordinator_epoch: int) -> None:
        self._settings = settings
        self._ids = ids
        self.transactions: dict[str, Transaction] = {}
        # Soft: an epoch whose holder may repeat its InitProducerId. Apache Kafka forgets it at a restart too.
        self._last_epochs: dict[str, int] = {}
        self._busy: set[str] = set()  # open or prepared: derived, so that nobody has to look through all
        self._markers = MarkerQueue(coordinator_epoch, settings.retry_ms, settings.retry_max_ms)

    # The log.

    def apply(self, record: Transaction | Forgotten, offset: int, producer: tuple[int, int] | None) -> None:
        if isinstance(record, Forgotten):
            self.transactions.pop(record.transactional_id, None)
            self._last_epochs.pop(record.transactional_id, None)
            self._busy.discard(record.transactional_id)
            return
        self.transactions[record.transactional_id] = record
        if record.is_idle:
            self._busy.discard(record.transactional_id)
            self._markers.forget(record.transactional_id)
        else:
            self._busy.add(record.transactional_id)

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool, offset: int) -> None:
        """Nobody writes to `__transaction_state` in a transaction."""

    def on_loaded(self, now_ms: int) -> TransactionEffects:
        """Clocks run again for what is open, and what was decided is carried out. Nothing is logged yet."""
        parts = [
            self._sweep(now_ms),
            Effects(timers=(Timer(timers.EXPIRY, self._settings.expiry_interval_ms),)),
        ]
        for transaction in self.busy_ones():
            if transaction.is_prepared:
                parts.append(self._markers.begin(transaction))
            else:
                parts.append(_run_clock(transaction, now_ms))
        return _together(parts)

    # Requests of clients. Each one is answered, with an error code if need be.

    def on_init_producer_id(
        self, request: InitProducerIdRequest, version: int, token: Token[InitProducerIdResponse], now_ms: int
    ) -> TransactionEffects:
        try:
            return self._init_producer_id(request, token, now_ms)
        except ProtocolError as error:
            code = _code(error, version, FENCED_SINCE_INIT)
            return answer_to(
                token, InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
            )

    def on_add_partitions_to_txn(
        self,
        request: AddPartitionsToTxnRequest,
        version: int,
        token: Token[AddPartitionsToTxnResponse],
        now_ms: int,
    ) -> TransactionEffects:
        if version >= partitions.BATCHED_REQUEST:
            return self._add_batched(request, token, now_ms)
        added = partitions.named_in(request.v3_and_below_topics)
        holder = request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
        effects: TransactionEffects = NOTHING
        code = NONE
        try:
            effects = self._add(request.v3_and_below_transactional_id, holder, added, 0, now_ms)
        except ProtocolError as error:
            code = _code(error, version, FENCED_SINCE)
        results = partitions.topic_results(dict.fromkeys(added, code))
        return effects + answer_to(token, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))

    def on_add_offsets_to_txn(
        self,
        request: AddOffsetsToTxnRequest,
        version: int,
        offsets_partition: int,
        token: Token[AddOffsetsToTxnResponse],
        now_ms: int,
    ) -> TransactionEffects:
        """`offsets_partition` is where the offsets of the request's group are kept."""
        added = frozenset({(OFFSETS_TOPIC, offsets_partition)})
        holder = request.producer_id, request.producer_epoch
        effects: TransactionEffects = NOTHING
        code = NONE
        try:
            effects = self._add(request.transactional_id, holder, added, 0, now_ms)
        except ProtocolError as error:
            code = _code(error, version, FENCED_SINCE)
        return effects + answer_to(token, AddOffsetsToTxnResponse(error_code=code))

    def on_end_txn(
        self, request: EndTxnRequest, version: int, token: Token[EndTxnResponse], now_ms: int
    ) -> TransactionEffects:
        decide = self._end_and_bump if version >= ending.BUMPING_REQUEST else self._end
        try:
            return decide(request, token, now_ms)
        except ProtocolError as error:
            return answer_to(token, EndTxnResponse(error_code=_code(error, version, FENCED_SINCE)))

    def on_describe_transactions(
        self, request: DescribeTransactionsRequest, token: Token[DescribeTransactionsResponse], now_ms: int
    ) -> TransactionEffects:
        """For ids of this shard; the handler puts the shards' answers together."""
        states = [
            listing.describe(
                transactional_id,
                transaction,
                () if transaction is None else self._markers.missing(transaction),
            )
            for transactional_id in request.transactional_ids
            for transaction in (self.transactions.get(transactional_id),)
        ]
        return answer_to(token, DescribeTransactionsResponse(transaction_states=states))

    def on_list_transactions(
        self, request: ListTransactionsRequest, token: Token[ListTransactionsResponse], now_ms: int
    ) -> TransactionEffects:
        """This shard's part; `listing.merged` makes one answer of all."""
        return answer_to(token, listing.list_matching(self.transactions.values(), request, now_ms))

    # Markers and time.

    def on_markers_written(
        self, markers: Markers, results: Mapping[TopicPartition, int], now_ms: int
    ) -> TransactionEffects:
        """The report about one of our sends: an error code for each of its partitions (see `markers`)."""
        effects = self._markers.on_written(markers, results)
        if effects is not None:
            return effects
        return _complete(self.transactions[markers.transactional_id], now_ms)

    def on_timer(self, name: TransactionTimer, now_ms: int) -> TransactionEffects:
        match name.kind:
            case TimerKind.SWEEP:
                return self._sweep(now_ms)
            case TimerKind.EXPIRY:
                # The tombstones may be refused by the log: their timer is not the one that comes again.
                again = Timer(timers.EXPIRY, self._settings.expiry_interval_ms)
                return Effects(timers=(again, Timer(timers.TOMBSTONES, 0)))
            case TimerKind.TOMBSTONES:
                return self._expire(now_ms)
            case TimerKind.MARKERS:
                return self._on_retry(name.transactional_id, now_ms)
            case TimerKind.TIMEOUT:
                return self._on_timeout(name.transactional_id, now_ms)

    def _on_retry(self, transactional_id: str, now_ms: int) -> TransactionEffects:
        transaction = self.transactions.get(transactional_id)
        if transaction is None or not transaction.is_prepared:
            return NOTHING
        effects = self._markers.again(transaction)
        return _complete(transaction, now_ms) if effects is None else effects

    def _on_timeout(self, transactional_id: str, now_ms: int) -> TransactionEffects:
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.state is not State.ONGOING:
            return NOTHING
        return self._time_out(transaction, now_ms)

    # Decisions.

    def _init_producer_id(
        self, request: InitProducerIdRequest, token: Token[InitProducerIdResponse], now_ms: int
    ) -> TransactionEffects:
        transactional_id = request.transactional_id
        if not transactional_id:
            raise InvalidRequest("an empty transactional id")
        holder = producers.identity_of(request.producer_id, request.producer_epoch)
        if not 0 < request.transaction_timeout_ms <= self._settings.max_timeout_ms:
            raise InvalidTransactionTimeout
        transaction = self.transactions.get(transactional_id) or self._new(transactional_id)
        producers.check_holder(transaction, holder)
        if transaction.state is State.ONGOING:
            # Who comes next waits for the abort, and comes again: then the epoch is bumped once more.
            return self._fence(transaction, now_ms) + answer_to(
                token,
                InitProducerIdResponse(
                    error_code=ConcurrentTransactions.code, producer_id=-1, producer_epoch=-1
                ),
            )
        step = producers.initialize(
            transaction,
            holder,
            self._last_epochs.get(transactional_id, NO_PRODUCER_EPOCH),
            timeout_ms=request.transaction_timeout_ms,
            now_ms=now_ms,
            ids=self._ids,
        )
        self._last_epochs[transactional_id] = step.last_epoch
        answer = InitProducerIdResponse(
            producer_id=step.record.producer_id, producer_epoch=step.record.producer_epoch
        )
        return Effects(records=(step.record,), replies=(reply_to(token, answer),))

    def _new(self, transactional_id: str) -> Transaction:
        if len(self.transactions) >= self._settings.ids_max:
            raise PolicyViolation(f"this coordinator holds {self._settings.ids_max} transactional ids")
        return Transaction(transactional_id, self._ids.next_producer_id())

    def _add_batched(
        self, request: AddPartitionsToTxnRequest, token: Token[AddPartitionsToTxnResponse], now_ms: int
    ) -> TransactionEffects:
        parts: list[TransactionEffects] = []
        results = []
        seen: set[str] = set()
        for transaction in request.transactions:
            # Nothing is applied before all is decided, so a second entry for an id would not see the first.
            if transaction.transactional_id in seen:
                codes = dict.fromkeys(partitions.named_in(transaction.topics), ConcurrentTransactions.code)
            else:
                effects, codes = self._add_one(transaction, now_ms)
                parts.append(effects)
            seen.add(transaction.transactional_id)
            results.append(
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=partitions.topic_results(codes),
                )
            )
        parts.append(answer_to(token, AddPartitionsToTxnResponse(results_by_transaction=results)))
        return _together(parts)

    def _add_one(
        self, transaction: AddPartitionsToTxnTransaction, now_ms: int
    ) -> tuple[TransactionEffects, dict[TopicPartition, int]]:
        holder = transaction.producer_id, transaction.producer_epoch
        named = partitions.named_in(transaction.topics)
        try:
            if transaction.verify_only:
                return NOTHING, partitions.verify(self._known(transaction.transactional_id), holder, named)
            effects = self._add(transaction.transactional_id, holder, named, BUMPING_VERSION, now_ms)
            return effects, dict.fromkeys(named, NONE)
        except ProtocolError as error:
            return NOTHING, dict.fromkeys(named, error.code)

    def _add(
        self,
        transactional_id: str,
        holder: Identity,
        added: frozenset[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> TransactionEffects:
        transaction = self._known(transactional_id)
        record = partitions.add(transaction, holder, added, version=client_version, now_ms=now_ms)
        if record is None:
            return NOTHING
        effects: TransactionEffects = Effects(records=(record,))
        if transaction.state is State.ONGOING:
            return effects
        return effects + _run_clock(record, now_ms)

    def _end(self, request: EndTxnRequest, token: Token[EndTxnResponse], now_ms: int) -> TransactionEffects:
        transaction = self._known(request.transactional_id)
        holder = request.producer_id, request.producer_epoch
        record = ending.end(transaction, holder, commit=request.committed, now_ms=now_ms)
        effects = NOTHING if record is None else self._decided(record, now_ms)
        return effects + answer_to(token, EndTxnResponse())

    def _end_and_bump(
        self, request: EndTxnRequest, token: Token[EndTxnResponse], now_ms: int
    ) -> TransactionEffects:
        transaction = self._known(request.transactional_id)
        holder = request.producer_id, request.producer_epoch
        step = ending.end_and_bump(
            transaction, holder, commit=request.committed, now_ms=now_ms, ids=self._ids
        )
        effects: TransactionEffects = NOTHING if step is None else self._take(step, now_ms)
        producer_id, epoch = (transaction if step is None else step.record).handed_out
        return effects + answer_to(token, EndTxnResponse(producer_id=producer_id, producer_epoch=epoch))

    def _fence(self, transaction: Transaction, now_ms: int) -> TransactionEffects:
        version = self._settings.transaction_version
        step = producers.fence(transaction, transaction_version=version, now_ms=now_ms, ids=self._ids)
        return self._take(step, now_ms)

    def _take(self, step: Step, now_ms: int) -> TransactionEffects:
        self._last_epochs[step.record.transactional_id] = step.last_epoch
        return self._decided(step.record, now_ms)

    def _decided(self, record: Transaction, now_ms: int) -> TransactionEffects:
        stop_clock = Timer(timers.timeout(record.transactional_id), None)
        return Effects(records=(record,), timers=(stop_clock,)) + self._carry_out(record, now_ms)

    def _carry_out(self, transaction: Transaction, now_ms: int) -> TransactionEffects:
        if not transaction.partitions:
            return _complete(transaction, now_ms)
        # A retry that still waits belongs to an earlier decision.
        stop_retry = Timer(timers.retry(transaction.transactional_id), None)
        return Effects(timers=(stop_retry,)) + self._markers.begin(transaction)

    def _time_out(self, transaction: Transaction, now_ms: int) -> TransactionEffects:
        """The transaction took too long: abort it, and fence its producer."""
        if now_ms < transaction.deadline_ms:
            return _run_clock(transaction, now_ms)  # wall clocks may be set back
        try:
            return self._fence(transaction, now_ms)
        except ProtocolError:  # no producer id to be had yet
            timer = Timer(timers.timeout(transaction.transactional_id), self._settings.retry_max_ms)
            return Effects(timers=(timer,))

    def _expire(self, now_ms: int) -> TransactionEffects:
        before_ms = now_ms - self._settings.id_expiration_ms
        doomed = (
            Forgotten(transaction.transactional_id)
            for transaction in self.transactions.values()
            if transaction.is_idle and transaction.last_update_ms <= before_ms
        )
        some = tuple(islice(doomed, self._settings.tombstones_max))
        if len(some) < self._settings.tombstones_max:
            return Effects(records=some)
        return Effects(records=some, timers=(Timer(timers.TOMBSTONES, 1),))

    def _sweep(self, now_ms: int) -> TransactionEffects:
        """Retries what got stuck when the log refused it (too few replicas, say). Logs nothing itself."""
        due = [Timer(timers.SWEEP, self._settings.sweep_interval_ms)]
        for transaction in self.busy_ones():
            if transaction.is_prepared:
                if self._markers.is_waiting(transaction.transactional_id):
                    due.append(Timer(timers.retry(transaction.transactional_id), 0))
            elif now_ms >= transaction.deadline_ms:
                due.append(Timer(timers.timeout(transaction.transactional_id), 0))
        return Effects(timers=tuple(due))

    def busy_ones(self) -> list[Transaction]:
        return [self.transactions[transactional_id] for transactional_id in sorted(self._busy)]

    def _known(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise InvalidRequest("an empty transactional id")
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise InvalidProducerIdMapping
        return transaction


def _complete(transaction: Transaction, now_ms: int) -> TransactionEffects:
    return Effects(records=(completed(transaction, now_ms),))


def _together(parts: list[TransactionEffects]) -> TransactionEffects:
    """As adding them up, but in one go: there may be very many."""
    return Effects(
        tuple(record for part in parts for record in part.records),
        tuple(reply for part in parts for reply in part.replies),
        tuple(timer for part in parts for timer in part.timers),
        tuple(send for part in parts for send in part.sends),
    )


def _run_clock(transaction: Transaction, now_ms: int) -> TransactionEffects:
    delay_ms = min(max(transaction.deadline_ms - now_ms, 0), transaction.timeout_ms)
    return Effects(timers=(Timer(timers.timeout(transaction.transactional_id), delay_ms),))


def _code(error: ProtocolError, version: int, fenced_since: int) -> int:
    """Old clients know only INVALID_PRODUCER_EPOCH for a lost epoch."""
    if isinstance(error, ProducerFenced) and version < fenced_since:
        return InvalidProducerEpoch.code
    return error.code
