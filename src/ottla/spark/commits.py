"""The driver's half of exactly once: ends the transactions that tasks have left open, all at once.

Markers are group offsets, and a group offset needs a topic. It is one that nobody writes to: then its end is 0, the
markers' offset is 0, and no tool takes a marker for a consumer that is behind.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla import errors
from ottla.client.admin.topics import NewTopic, create
from ottla.client.blocking.engine import Engine
from ottla.client.core.cluster import Cluster
from ottla.client.core.offsets import LATEST, list_offsets
from ottla.client.core.transactions import Transactions
from ottla.client.errors import TimedOut
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import ProducerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.spark.errors import MarkerError, TransactionTimedOut
from ottla.spark.markers import OFFSET, Marker, group_of

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
        self._marker_topics: set[str] = set()  # that are there and empty

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
                await self._prepare(marker_topic)
                await asyncio.gather(*[_mark(each, marker, marker_topic) for each in resumed])
            await asyncio.gather(*[each.end(committed=True) for each in resumed])
        except _FENCED as error:
            self._refuse_late(transactions, error)
            raise

    async def _prepare(self, topic: str) -> None:
        if topic in self._marker_topics:
            return
        cluster = self._cluster
        await cluster.retrying(lambda: cluster.refresh([topic]), "the markers' topic could not be looked up")
        if topic not in cluster.image.topics:
            await _create(cluster, topic)
        where = TopicPartition(topic, 0)
        if (await list_offsets(cluster, {where: LATEST}))[where].offset != OFFSET:
            raise MarkerError(
                f"topic {topic} has records, so every marker would look like a consumer that is behind. "
                "Set markerTopic to a topic that stays empty"
            )
        self._marker_topics.add(topic)

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


async def _create(cluster: Cluster, topic: str) -> None:
    try:
        await create(cluster, [NewTopic(topic, partitions=1)])
    except errors.TopicAlreadyExists:
        pass  # another query was quicker
    except OttlaError as error:
        raise MarkerError(
            f"topic {topic}, which the markers need, cannot be created: {error}. "
            "Create it with one partition, or set markerTopic to a topic that stays empty"
        ) from error


async def _mark(transactions: Transactions, marker: Marker, topic: str) -> None:
    where = TopicPartition(topic, 0)
    offset = OffsetAndMetadata(OFFSET, marker.metadata())
    try:
        await transactions.send_offsets({where: offset}, GroupMetadata(group_of(transactions.id)))
    except TimedOut as error:
        raise TimedOut(f"the marker of {transactions.id} could not be written: {error}") from error
