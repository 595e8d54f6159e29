"""The timers of a transaction coordinator."""

import enum
from typing import NamedTuple


class TimerKind(enum.Enum):
    SWEEP = "sweep"  # retries what the log refused
    EXPIRY = "expiry"  # arms TOMBSTONES, now and then
    TOMBSTONES = "tombstones"  # forgets transactional ids that have been idle for long
    MARKERS = "markers"  # of one transaction: sends those that are missing
    TIMEOUT = "timeout"  # of one transaction: aborts it


class TransactionTimer(NamedTuple):
    """The name of a timer. The shard runs at most one of each name."""

    kind: TimerKind
    transactional_id: str = ""


SWEEP = TransactionTimer(TimerKind.SWEEP)
EXPIRY = TransactionTimer(TimerKind.EXPIRY)
TOMBSTONES = TransactionTimer(TimerKind.TOMBSTONES)


def retry(transactional_id: str) -> TransactionTimer:
    return TransactionTimer(TimerKind.MARKERS, transactional_id)


def timeout(transactional_id: str) -> TransactionTimer:
    return TransactionTimer(TimerKind.TIMEOUT, transactional_id)
