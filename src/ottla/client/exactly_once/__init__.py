"""Exactly once: records, positions and markers in one transaction, of an id that has one owner at a time.

`owner.TransactionOwner` takes over a transactional id: it aborts the transaction that the previous owner left open and
fences that owner. Only then does it read positions and markers: no other process can change them any more. It commits
its transactions itself, or leaves each open for a `TransactionEnder` in another process. `Marker` tells a batch that is
done again from a new one.

The owner needs the extra `arrow`, so it is imported by its own name: a process that only ends transactions does
without Arrow.
"""

from ottla.client.exactly_once.ender import FENCED, OpenTransaction, TransactionEnder
from ottla.client.exactly_once.markers import (
    Marker,
    MarkerError,
    ensure_marker_topic,
    group_of,
    is_marker,
    is_written,
)

__all__ = [
    "FENCED",
    "Marker",
    "MarkerError",
    "OpenTransaction",
    "TransactionEnder",
    "ensure_marker_topic",
    "group_of",
    "is_marker",
    "is_written",
]
