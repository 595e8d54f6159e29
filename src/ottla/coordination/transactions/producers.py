"""InitProducerId: who holds a transactional id, and how the one before loses it."""

from ottla.coordination.transactions.settings import ProducerIds
from ottla.coordination.transactions.transaction import (
    BUMPING_VERSION,
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    initialized,
    is_exhausted,
    prepared,
)
from ottla.errors import ConcurrentTransactions, InvalidRequest, ProducerFenced
from ottla.frozen import frozen

Identity = tuple[int, int]  # producer id, epoch


@frozen
class Step:
    """The next value, and the epoch whose holder may still repeat its request (-1: nobody's)."""

    record: Transaction
    last_epoch: int


def identity_of(producer_id: int, epoch: int) -> Identity | None:
    """The id and epoch that a producer wants to go on with (KIP-360), if it names any; both or none."""
    if (producer_id == NO_PRODUCER_ID) != (epoch == NO_PRODUCER_EPOCH):
        raise InvalidRequest("producer id and epoch come together")
    return None if producer_id == NO_PRODUCER_ID else (producer_id, epoch)


def check_holder(transaction: Transaction, holder: Identity | None) -> None:
    if transaction.is_prepared:
        raise ConcurrentTransactions
    if holder is not None and not _may_go_on(transaction, holder):
        raise ProducerFenced


def initialize(
    transaction: Transaction,
    holder: Identity | None,
    last_epoch: int,
    *,
    timeout_ms: int,
    now_ms: int,
    ids: ProducerIds,
) -> Step:
    """Takes the id over with the next epoch, or goes on with it. `transaction` is idle."""
    current = transaction.producer_epoch
    if holder is not None and holder[1] != current and current != NO_PRODUCER_EPOCH:
        if holder[1] != last_epoch:
            raise ProducerFenced
        # The answer to the first try was lost: give the same one again.
        producer_id, epoch, last = transaction.producer_id, current, last_epoch
    else:
        last = NO_PRODUCER_EPOCH if holder is None else current
        if transaction.is_exhausted:
            producer_id, epoch = ids.next_producer_id(), 0
        else:
            producer_id, epoch = transaction.producer_id, current + 1
    record = initialized(transaction, producer_id, epoch, timeout_ms=timeout_ms, now_ms=now_ms)
    return Step(record, last)


def fence(transaction: Transaction, *, transaction_version: int, now_ms: int, ids: ProducerIds) -> Step:
    """Aborts what is open with an epoch that nobody was given: its producer is out from here on."""
    epoch = min(transaction.producer_epoch + 1, EPOCH_MAX)
    if transaction_version < BUMPING_VERSION:
        record = prepared(transaction, commit=False, epoch=epoch, client_version=0, now_ms=now_ms)
        return Step(record, NO_PRODUCER_EPOCH)
    record = prepared(
        transaction,
        commit=False,
        epoch=epoch,
        client_version=transaction_version,
        now_ms=now_ms,
        next_producer_id=ids.next_producer_id() if transaction.is_exhausted else NO_PRODUCER_ID,
    )
    return Step(record, transaction.producer_epoch)


def _may_go_on(transaction: Transaction, holder: Identity) -> bool:
    """Its epoch is looked at later. The previous id may ask once more if it ended with its last epoch."""
    producer_id, epoch = holder
    return (
        transaction.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == transaction.producer_id
        or (producer_id == transaction.previous_producer_id and is_exhausted(epoch))
    )
