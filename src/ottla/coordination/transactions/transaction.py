"""What the coordinator knows of one transactional id, and the steps from one state to the next.

A step is a function of the old value that returns the new one; whether it is allowed is decided elsewhere.
"""

from dataclasses import replace
from enum import IntEnum

from ottla.frozen import frozen

TopicPartition = tuple[str, int]

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
EPOCH_MAX = 32767
EPOCH_LAST_USABLE = EPOCH_MAX - 1
"""A client never gets the very last epoch, so that the holder of any epoch can still be fenced."""

BUMPING_VERSION = 2
"""From this `transaction.version` on every end of a transaction takes the next epoch."""


class State(IntEnum):
    """With the numbers that stand in the log.

    DEAD and PREPARE_EPOCH_FENCE are names that clients may ask for. Apache Kafka passes through them in
    memory while an append is under way; here a decision is applied at once, so nothing is ever in them.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """As clients see it: PrepareCommit."""
        return self.name.title().replace("_", "")


PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
IDLE = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
BY_TITLE = {state.title: state for state in State}


@frozen
class Transaction:
    """One transactional id. `producer_epoch` is -1 only before the first InitProducerId is logged."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    timeout_ms: int = 0
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    last_update_ms: int = -1
    client_version: int = 0
    """The transaction version of the client's last step."""

    @property
    def is_prepared(self) -> bool:
        """Decided, but not every partition knows it yet."""
        return self.state in PREPARED

    @property
    def is_idle(self) -> bool:
        return self.state in IDLE

    @property
    def committed(self) -> bool:
        return self.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)

    @property
    def is_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    @property
    def deadline_ms(self) -> int:
        return self.start_ms + self.timeout_ms

    @property
    def handed_out(self) -> tuple[int, int]:
        """The producer id and epoch to go on with once this decision is complete."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch


@frozen
class Forgotten:
    """The transactional id has expired: a tombstone in the log."""

    transactional_id: str


def is_exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_LAST_USABLE


def initialized(
    old: Transaction, producer_id: int, epoch: int, *, timeout_ms: int, now_ms: int
) -> Transaction:
    return replace(
        old,
        producer_id=producer_id,
        previous_producer_id=old.producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        state=State.EMPTY,
        partitions=frozenset(),
        start_ms=-1,
        last_update_ms=now_ms,
    )


def with_partitions(
    old: Transaction, added: frozenset[TopicPartition], *, client_version: int, now_ms: int
) -> Transaction:
    return replace(
        old,
        previous_producer_id=old.producer_id,
        state=State.ONGOING,
        partitions=old.partitions | added,
        start_ms=now_ms if old.is_idle else old.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def prepared(
    old: Transaction,
    *,
    commit: bool,
    epoch: int,
    client_version: int,
    now_ms: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """Decided. From here on the outcome stands, whatever happens to this broker."""
    return replace(
        old,
        previous_producer_id=old.producer_id,
        next_producer_id=next_producer_id,
        producer_epoch=epoch,
        state=State.PREPARE_COMMIT if commit else State.PREPARE_ABORT,
        # An abort of nothing has no start of its own, but every ended transaction needs one.
        start_ms=now_ms if old.is_idle else old.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def completed(old: Transaction, now_ms: int) -> Transaction:
    """Every partition has its marker. Only now a new producer id may take over from an exhausted one."""
    producer_id, epoch = old.handed_out
    return replace(
        old,
        producer_id=producer_id,
        previous_producer_id=old.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=epoch,
        state=State.COMPLETE_COMMIT if old.committed else State.COMPLETE_ABORT,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )
