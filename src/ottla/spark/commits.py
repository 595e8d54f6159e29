"""The driver's half of exactly once: ends the transactions that tasks have left open, all at once."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.client.exactly_once import (
    FENCED,
    Marker,
    OpenTransaction,
    TransactionEnder,
    ensure_marker_topic,
    group_of,
)
from ottla.client.settings import ProducerSettings
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.spark.errors import TransactionTimedOut


class Open(NamedTuple):
    """A transaction that a task has left open."""

    transactional_id: str
    producer: tuple[int, int]
    began_ms: int

    @property
    def open_transaction(self) -> OpenTransaction:
        return OpenTransaction(self.transactional_id, self.producer)


class Committer:
    """One for each process and cluster; tasks of any number share its connections."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = ProducerSettings.parse(settings)
        self._ender = TransactionEnder(self._settings)
        self._marker_topics: set[str] = set()  # that exist and are empty

    def commit(self, transactions: Sequence[Open], marker: Marker | None, marker_topic: str) -> None:
        """All markers first, then the ends, task 0's before the others': see `markers.judge`."""
        self._refuse_late(transactions)
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        if marker is not None:
            self._ensure(marker_topic)
            offsets = marker.offsets(marker_topic)
        try:
            self._ender.commit(
                [transaction.open_transaction for transaction in transactions], offsets, group_of=group_of
            )
        except FENCED as error:
            self._refuse_late(transactions, error)
            raise

    def abort(self, transactions: Sequence[Open]) -> None:
        """As far as it works: whatever stays open is aborted by the next attempt, or times out."""
        self._ender.abort([transaction.open_transaction for transaction in transactions])

    def take_over(self, transactional_ids: Sequence[str]) -> None:
        """Of tasks that a micro-batch no longer has: what they left open would hold back readers."""
        self._ender.take_over(transactional_ids)

    def close(self) -> None:
        self._ender.close()

    def _ensure(self, marker_topic: str) -> None:
        if marker_topic not in self._marker_topics:
            self._ender.run(ensure_marker_topic(self._ender.cluster, marker_topic))
            self._marker_topics.add(marker_topic)

    def _refuse_late(self, transactions: Sequence[Open], cause: Exception | None = None) -> None:
        limit_ms = self._settings.transaction_timeout_ms
        took_ms = max((time.time() * 1000 - transaction.began_ms for transaction in transactions), default=0)
        if took_ms >= limit_ms:
            raise timed_out(took_ms, limit_ms) from cause


def timed_out(took_ms: float, limit_ms: int) -> TransactionTimedOut:
    return TransactionTimedOut(
        f"the micro-batch took {took_ms / 1000:.0f} s, its transactions may last {limit_ms / 1000:.0f} s. Doing it "
        "again would take as long: make it smaller (maxOffsetsPerTrigger on the source; what is planned already "
        "needs a new checkpoint) or raise kafka.transaction.timeout.ms, up to the broker's "
        "transaction.max.timeout.ms"
    )
