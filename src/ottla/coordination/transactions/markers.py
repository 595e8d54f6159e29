"""Markers on their way: which partitions of a decided transaction still need one.

The machine's `Effects.sends` are `Markers`. Their sender must, for each one,

- write a marker to every partition in it (`request_for` groups them for one leader),
- report exactly once, by `TransactionMachine.on_markers_written(markers, results, now_ms)`, and only when
  none of its attempts can arrive any more: with transaction version 1 the next transaction has the same epoch,
  and a late marker would end it;
- report NONE for a partition that is gone (its topic was deleted), and an error code for whatever else went
  wrong (no leader, not the leader, a time-out). The machine sends those again, with a growing delay.

Partitions that the report leaves out count as not written.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.coordination.transactions import timers
from ottla.coordination.transactions.records import by_topic
from ottla.coordination.transactions.timers import TransactionTimer
from ottla.coordination.transactions.transaction import Forgotten, TopicPartition, Transaction
from ottla.effects import NOTHING, Effects, Timer
from ottla.errors import NONE
from ottla.frozen import frozen
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


@frozen
class Markers:
    """The decision for partitions of one transaction. `ticket` tells one sending from another."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]
    ticket: int


TransactionEffects = Effects[Transaction | Forgotten, TransactionTimer, Markers]


@dataclass(slots=True)
class _Writing:
    ticket: int
    missing: frozenset[TopicPartition]
    attempts: int = 0


class MarkerQueue:
    """Soft state: after a restart the markers of every prepared transaction go to all of its partitions again."""

    def __init__(self, coordinator_epoch: int, retry_ms: int, retry_max_ms: int) -> None:
        self._coordinator_epoch = coordinator_epoch
        self._retry_ms = retry_ms
        self._retry_max_ms = retry_max_ms
        self._tickets = 0
        self._writing: dict[str, _Writing] = {}

    def missing(self, transaction: Transaction) -> frozenset[TopicPartition]:
        writing = self._writing.get(transaction.transactional_id)
        return writing.missing if writing and transaction.is_prepared else transaction.partitions

    def begin(self, transaction: Transaction) -> TransactionEffects:
        """The decision goes out to every partition of the transaction."""
        self._writing[transaction.transactional_id] = _Writing(0, transaction.partitions)
        if not transaction.partitions:
            return Effects(timers=(Timer(timers.retry(transaction.transactional_id), 0),))
        return self._send(transaction)

    def again(self, transaction: Transaction) -> TransactionEffects | None:
        """The delay is over. None as for `on_written`."""
        writing = self._writing.get(transaction.transactional_id)
        if writing is None or writing.ticket:
            return NOTHING
        return self._send(transaction) if writing.missing else None

    def on_written(
        self, markers: Markers, results: Mapping[TopicPartition, int]
    ) -> TransactionEffects | None:
        """None when the last partition has its marker; else what to do about the others."""
        writing = self._writing.get(markers.transactional_id)
        if writing is None or (markers.coordinator_epoch, markers.ticket) != (
            self._coordinator_epoch,
            writing.ticket,
        ):
            return NOTHING  # about an earlier sending; this one has a report of its own to come
        writing.ticket = 0
        writing.missing -= {partition for partition, code in results.items() if code == NONE}
        if not writing.missing:
            return None
        delay_ms = min(self._retry_ms << min(writing.attempts, 20), self._retry_max_ms)
        writing.attempts += 1
        return Effects(timers=(Timer(timers.retry(markers.transactional_id), delay_ms),))

    def is_waiting(self, transactional_id: str) -> bool:
        """Nothing is under way for it: there is more to send, or nothing but to complete it."""
        writing = self._writing.get(transactional_id)
        return writing is not None and not writing.ticket

    def forget(self, transactional_id: str) -> None:
        """The transaction is complete."""
        self._writing.pop(transactional_id, None)

    def _send(self, transaction: Transaction) -> TransactionEffects:
        writing = self._writing[transaction.transactional_id]
        self._tickets += 1
        writing.ticket = self._tickets
        markers = Markers(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            self._coordinator_epoch,
            transaction.committed,
            transaction.client_version,
            writing.missing,
            writing.ticket,
        )
        return Effects(sends=(markers,))


def request_for(leads: Iterable[tuple[Markers, Iterable[TopicPartition]]]) -> WriteTxnMarkersRequest:
    """One request for one leader: of each decision the partitions that it leads."""
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=markers.producer_id,
                producer_epoch=markers.producer_epoch,
                transaction_result=markers.committed,
                topics=[
                    WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(partitions).items()
                ],
                coordinator_epoch=markers.coordinator_epoch,
                transaction_version=markers.transaction_version,
            )
            for markers, partitions in leads
        ]
    )


def results_in(response: WriteTxnMarkersResponse) -> dict[int, dict[TopicPartition, int]]:
    """Error codes by producer id and partition."""
    results: dict[int, dict[TopicPartition, int]] = {}
    for marker in response.markers:
        of_producer = results.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for partition in topic.partitions:
                of_producer[topic.name, partition.partition_index] = partition.error_code
    return results
