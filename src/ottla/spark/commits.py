"""The driver's half of exactly once: ends the transactions that tasks have left open, all at once.

Markers are group offsets, and a group offset needs a topic. It is one that nobody writes to: then its end is 0, the
markers' offset is 0, and no tool takes a marker for a consumer that is behind.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla import errors
from ottla.client.admin.topics import NewTopic, create
from ottla.client.session import LATEST, Cluster, list_offsets
from ottla.client.settings import ProducerSettings
from ottla.client.transactions import FENCED, OpenTransaction, TransactionEnder
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.spark.errors import MarkerError, TransactionTimedOut
from ottla.spark.markers import OFFSET, Marker, group_of


class Open(NamedTuple):
    """A transaction that a task has left open."""

    transactional_id: str
    producer: tuple[int, int]
    began_ms: int

    @property
    def left(self) -> OpenTransaction:
        return OpenTransaction(self.transactional_id, self.producer)


class Committer:
    """One for each process and cluster; tasks of any number share its connections."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = ProducerSettings.parse(settings)
        self._ender = TransactionEnder(self._settings)
        self._marker_topics: set[str] = set()  # that are there and empty

    def commit(self, transactions: Sequence[Open], marker: Marker | None, marker_topic: str) -> None:
        """All markers first, then all ends: what can go wrong should do so before anything is visible."""
        self._refuse_late(transactions)
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        if marker is not None:
            self._ender.run(self._prepare(marker_topic))
            offsets[TopicPartition(marker_topic, 0)] = OffsetAndMetadata(OFFSET, marker.metadata())
        try:
            self._ender.commit([each.left for each in transactions], offsets, group_of=group_of)
        except FENCED as error:
            self._refuse_late(transactions, error)
            raise

    def abort(self, transactions: Sequence[Open]) -> None:
        """As far as it works: whatever stays open is aborted by the next attempt, or times out."""
        self._ender.abort([each.left for each in transactions])

    def close(self) -> None:
        self._ender.close()

    async def _prepare(self, topic: str) -> None:
        if topic in self._marker_topics:
            return
        cluster = self._ender.cluster
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
