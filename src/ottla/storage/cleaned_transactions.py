"""Transactions on compaction's way through a log: which batches are aborted, which markers are spent."""

from collections.abc import Iterable
from heapq import heapify, heappop

from ottla.storage.indexes import AbortedTransaction
from ottla.wire.batch import BatchHeader

ABORT = 0
COMMIT = 1


class CleanedTransactions:
    """Batches must come in the order of the log, each of them once."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._ahead = [
            (transaction.first_offset, number, transaction) for number, transaction in enumerate(aborted)
        ]
        heapify(self._ahead)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_seen: set[int] = set()
        self._committed_seen: set[int] = set()
        self.retained: list[AbortedTransaction] = []  # for the new segment's transaction index

    def on_data(self, header: BatchHeader) -> bool:
        """True when the batch is of an aborted transaction."""
        self._pass(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._aborted_seen.add(header.producer_id)
            return True
        self._committed_seen.add(header.producer_id)
        return False

    def on_marker(self, header: BatchHeader, kind: int | None) -> bool:
        """True when nothing of the marker's transaction was met, so that the marker may go some day.

        `kind` None is a marker that was emptied before.
        """
        self._pass(header.last_offset)
        if kind is None:
            return True
        if kind == COMMIT:
            seen = header.producer_id in self._committed_seen
            self._committed_seen.discard(header.producer_id)
            return not seen
        if kind == ABORT:
            return self._on_abort(header.producer_id)
        return False

    def _on_abort(self, producer_id: int) -> bool:
        transaction = self._aborted.pop(producer_id, None)
        if transaction is None or producer_id not in self._aborted_seen:
            return True
        self._aborted_seen.discard(producer_id)
        self.retained.append(transaction)
        return False

    def _pass(self, offset: int) -> None:
        """Transactions that begin at or before the offset are open from here on."""
        while self._ahead and self._ahead[0][0] <= offset:
            transaction = heappop(self._ahead)[2]
            self._aborted.setdefault(transaction.producer_id, transaction)
