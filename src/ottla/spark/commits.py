"""The driver's half of exactly once: ends the transactions that tasks have left open, all at once."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla import errors
from ottla.client.blocking.engine import Engine
from ottla.client.core.cluster import Cluster
from ottla.client.core.transactions import Transactions
from ottla.client.errors import TimedOut
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import ProducerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.spark.errors import TransactionTimedOut
from ottla.spark.markers import Marker

_FENCED = (errors.ProducerFenced, errors.InvalidProducerEpoch, errors.InvalidTxnState)


class Open(NamedTuple):
    """A transaction that a task has left open."""

    transactional_id: str
    producer: tuple[int, int]
    began_ms: int


class Committer:
    """One for each process and cluster; tasks of any number share its connections."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = ProducerSettings.parse(settings)
        self._engine = Engine("spark sink")
        self._cluster = Cluster(self._settings, LOOP)

    def commit(self, transactions: Sequence[Open], marker: Marker | None, marker_topic: str) -> None:
        """All markers first, then all ends: what can go wrong should do so before anything is visible."""
        self._refuse_late(transactions)
        self._engine.run(self._commit(transactions, marker, marker_topic))

    def abort(self, transactions: Sequence[Open]) -> None:
        """As far as it works: whatever stays open is aborted by the next attempt, or times out."""
        self._engine.run(self._abort(transactions))

    def close(self) -> None:
        if not self._engine.is_closed:
            self._engine.run(self._cluster.close())
            self._engine.close()

    async def _commit(self, transactions: Sequence[Open], marker: Marker | None, marker_topic: str) -> None:
        resumed = [self._resume(each) for each in transactions]
        try:
            if marker is not None:
                await asyncio.gather(*[_mark(each, marker, marker_topic) for each in resumed])
            await asyncio.gather(*[each.end(committed=True) for each in resumed])
        except _FENCED as error:
            self._refuse_late(transactions, error)
            raise

    async def _abort(self, transactions: Sequence[Open]) -> None:
        ends = [self._resume(each).end(committed=False) for each in transactions]
        for outcome in await asyncio.gather(*ends, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, OttlaError):
                raise outcome

    def _resume(self, left: Open) -> Transactions:
        transactions = Transactions(self._cluster, transactional_id=left.transactional_id)
        transactions.resume(left.producer)
        return transactions

    def _refuse_late(self, transactions: Sequence[Open], cause: Exception | None = None) -> None:
        limit_ms = self._settings.transaction_timeout_ms
        took_ms = max((time.time() * 1000 - each.began_ms for each in transactions), default=0)
        if took_ms >= limit_ms:
            raise timed_out(took_ms, limit_ms) from cause


def timed_out(took_ms: float, limit_ms: int) -> TransactionTimedOut:
    return TransactionTimedOut(
        f"the micro-batch took {took_ms / 1000:.0f} s, its transactions may last {limit_ms / 1000:.0f} s. Doing it "
        "again would take as long: make it smaller (maxOffsetsPerTrigger on the source; what is planned already "
        "needs a new checkpoint) or raise kafka.transaction.timeout.ms, up to the broker's "
        "transaction.max.timeout.ms"
    )


async def _mark(transactions: Transactions, marker: Marker, topic: str) -> None:
    where = TopicPartition(topic, 0)
    offset = OffsetAndMetadata(marker.next_batch, marker.metadata())
    try:
        await transactions.send_offsets({where: offset}, GroupMetadata(transactions.id))
    except TimedOut as error:
        raise TimedOut(f"the marker of {transactions.id} could not be written: {error}") from error
