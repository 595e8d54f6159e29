"""EndTxn: what may be committed or aborted, by whom, and how a repeated request is answered.

Any process that names the right producer id and epoch may end a transaction.
"""

from ottla.coordination.transactions.producers import Identity, Step
from ottla.coordination.transactions.settings import ProducerIds
from ottla.coordination.transactions.transaction import (
    BUMPING_VERSION,
    EPOCH_LAST_USABLE,
    EPOCH_MAX,
    NO_PRODUCER_ID,
    State,
    Transaction,
    prepared,
)
from ottla.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)

BUMPING_REQUEST = 5
"""EndTxn from this version on bumps the epoch, whatever the cluster's `transaction.version` is."""


def end(transaction: Transaction, holder: Identity, *, commit: bool, now_ms: int) -> Transaction | None:
    """EndTxn v0-v4. None: it is already done as asked."""
    producer_id, epoch = holder
    if producer_id != transaction.producer_id:
        raise InvalidProducerIdMapping
    if epoch != transaction.producer_epoch:
        raise ProducerFenced
    if transaction.is_prepared:
        raise ConcurrentTransactions
    if transaction.state is State.ONGOING:
        return prepared(transaction, commit=commit, epoch=epoch, client_version=0, now_ms=now_ms)
    if transaction.state is State.EMPTY or transaction.committed != commit:
        raise InvalidTxnState
    return None


def end_and_bump(
    transaction: Transaction, holder: Identity, *, commit: bool, now_ms: int, ids: ProducerIds
) -> Step | None:
    """EndTxn v5. A repeated request names the epoch before the bump, so it cannot be mistaken for a new one.

    While markers are being written everybody waits: the next request of the same producer already carries
    the bumped epoch (or the new producer id), which this decision has not brought into force yet.
    """
    if transaction.is_prepared:
        raise ConcurrentTransactions
    repeated = _is_repeated(transaction, holder)
    if not repeated:
        if holder[0] != transaction.producer_id:
            raise InvalidProducerIdMapping
        if holder[1] != transaction.producer_epoch:
            raise ProducerFenced
    if transaction.state is State.ONGOING:
        return _bumped(transaction, commit, now_ms, ids)
    if repeated:
        if transaction.committed != commit:
            raise InvalidTxnState
        return None
    if commit:
        raise InvalidTxnState
    # An abort of nothing still takes an epoch: what the producer sent and believes lost may yet arrive.
    return _bumped(transaction, commit, now_ms, ids)


def _is_repeated(transaction: Transaction, holder: Identity) -> bool:
    """Only an end that took an epoch can be repeated with the one before.

    Apache Kafka looks at the epochs alone, and so hands the epoch of a version 1 producer, which ends its
    transactions without a bump, to a version 2 zombie that it has just fenced.
    """
    if transaction.state not in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        return False
    if transaction.client_version < BUMPING_VERSION:
        return False
    producer_id, epoch = holder
    if producer_id == transaction.producer_id:
        return epoch + 1 == transaction.producer_epoch
    return (
        producer_id == transaction.previous_producer_id
        and epoch == EPOCH_LAST_USABLE
        and transaction.producer_epoch == 0
    )


def _bumped(transaction: Transaction, commit: bool, now_ms: int, ids: ProducerIds) -> Step:
    record = prepared(
        transaction,
        commit=commit,
        epoch=min(transaction.producer_epoch + 1, EPOCH_MAX),
        client_version=BUMPING_VERSION,
        now_ms=now_ms,
        next_producer_id=ids.next_producer_id() if transaction.is_exhausted else NO_PRODUCER_ID,
    )
    return Step(record, transaction.producer_epoch)
