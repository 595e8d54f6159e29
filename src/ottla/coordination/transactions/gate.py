"""The gate in front of a partition: no record of a transaction passes that the coordinator does not know of.

Before a partition takes the first record of a transaction its leader asks the coordinator (AddPartitionsToTxn
v4 and later): with version 1 whether the client has added the partition, with version 2 to add it. The answer
takes a while, and the transaction may end meanwhile. So a guard is set up before asking, a marker removes
it, and only who still holds it may append. `docs/transactions.md` shows the steps.
"""

from dataclasses import dataclass

from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
)

PRODUCE_ABORTABLE, PRODUCE_ADDS = 11, 12
OFFSET_COMMIT_ABORTABLE, OFFSET_COMMIT_ADDS = 4, 5
"""From these versions of Produce and TxnOffsetCommit on a client knows TRANSACTION_ABORTABLE, and leaves it
to the broker to add partitions."""

_COORDINATOR_AWAY = frozenset(
    error.code
    for error in (
        CoordinatorLoadInProgress,
        CoordinatorNotAvailable,
        NetworkException,
        NotCoordinator,
        RequestTimedOut,
    )
)


@dataclass(slots=True, eq=False)
class Guard:
    """Held while a request waits for the coordinator. A marker that arrives meanwhile makes it invalid."""

    producer_id: int
    producer_epoch: int
    holders: int = 0  # requests that ask with it or are about to append


class Gate:
    """One for each partition that this broker leads. Soft state: a new leader asks again."""

    def __init__(self) -> None:
        self._guards: dict[int, Guard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def ask(self, producer_id: int, producer_epoch: int, open_epoch: int | None) -> Guard | None:
        """None: the partition is in the transaction already; else ask the coordinator, then append with this,
        and release it in any case.

        `open_epoch` is the epoch of the producer's open transaction in this partition, if there is one. A
        record of a later epoch does not belong to it, even though its marker is still to come.
        """
        if open_epoch == producer_epoch:
            return None
        guard = self._guards.get(producer_id)
        if guard is None or guard.producer_epoch < producer_epoch:
            guard = self._guards[producer_id] = Guard(producer_id, producer_epoch)
        elif guard.producer_epoch > producer_epoch:
            raise InvalidProducerEpoch
        guard.holders += 1
        return guard

    def release(self, guard: Guard) -> None:
        """The request is done with the guard. A guard without holders is removed; the next writer asks again."""
        guard.holders -= 1
        if not guard.holders and self._guards.get(guard.producer_id) is guard:
            del self._guards[guard.producer_id]

    def check(
        self, producer_id: int, producer_epoch: int, open_epoch: int | None, guard: Guard | None
    ) -> None:
        """Right before the append of a transactional batch, with no await in between."""
        if open_epoch == producer_epoch:
            return
        if open_epoch is not None or guard is None or self._guards.get(producer_id) is not guard:
            raise InvalidTxnState("the record is not part of an ongoing transaction")

    def on_appended(self, producer_id: int) -> None:
        """The transaction is open here: nobody needs to ask."""
        self._guards.pop(producer_id, None)

    def on_marker(self, producer_id: int) -> None:
        """Invalidates the producer's guard: the coordinator's answer was about a transaction that has ended."""
        self._guards.pop(producer_id, None)


def client_error(code: int, *, knows_abortable: bool, adds: bool) -> int:
    """The coordinator's answer as an error that a producer of this age understands.

    Old clients take CONCURRENT_TRANSACTIONS and a missing coordinator for fatal in an answer to Produce, but
    come again after NOT_ENOUGH_REPLICAS.
    """
    if code == ProducerFenced.code:
        return InvalidProducerEpoch.code
    if code == TransactionAbortable.code and not knows_abortable:
        return InvalidTxnState.code
    if code in _COORDINATOR_AWAY or (code == ConcurrentTransactions.code and not adds):
        return NotEnoughReplicas.code
    return code
