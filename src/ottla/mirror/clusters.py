"""The brokers behind a mirror task: a reader of the source, a transactional writer of the target."""

import contextlib
import time
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from ottla.client.columnar.following import FollowingReader
from ottla.client.columnar.ranges import Range
from ottla.client.columnar.whole import BatchOwner, Chunk, Row, Written
from ottla.client.session import (
    EARLIEST,
    ZERO_ID,
    Cluster,
    Engine,
    Session,
    end_offsets_of_epochs,
    list_offsets,
)
from ottla.client.settings import ConsumerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.mirror.errors import SourceChanged
from ottla.mirror.link import Link
from ottla.mirror.positions import Position

T = TypeVar("T")
# A mirror that died must not hold back readers of the target for long.
TRANSACTION_TIMEOUT_MS = 60_000
READ_TIMEOUT_MS = TRANSACTION_TIMEOUT_MS // 4  # the step's transaction is open while the source is silent
_PRODUCER: dict[str, Any] = {
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    "delivery.timeout.ms": TRANSACTION_TIMEOUT_MS,
    "linger.ms": 0,
    # Apache Kafka refuses the next transaction while the markers of the last one are written: milliseconds.
    "retry.backoff.ms": 20,
    "buffer.memory": 64 * 1024 * 1024,
    "max.request.size": 8 * 1024 * 1024,
}


class Topics:
    """Ids of a cluster's topics, asked for when first needed and whenever a step begins."""

    def __init__(self, session: Session, cluster: Cluster) -> None:
        self._session, self._cluster = session, cluster

    def id_of(self, topic: str) -> bytes:
        known = self._cluster.image.topics.get(topic)
        return known.id if known is not None else ZERO_ID

    def refresh(self, topics: set[str]) -> None:
        self._session.run(self._refresh(topics))

    def refresh_soon(self, topics: set[str]) -> None:
        """Without a wait for it; what fails is asked again next time."""
        self._session.spawn(self._refresh(topics))

    async def _refresh(self, topics: set[str]) -> None:
        await self._cluster.retrying(lambda: self._cluster.refresh(topics), "topics could not be looked up")


class SourceEpochs:
    """Asks the source whether it still has what was copied of it."""

    def __init__(self, link: Link) -> None:
        self._name = link.source
        self._session = Session("mirror epochs", ConsumerSettings.parse(link.source_client))
        self._cluster = self._session.cluster()

    def begins(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        offsets = self._session.run(list_offsets(self._cluster, dict.fromkeys(partitions, EARLIEST)))
        return {where: answer.offset for where, answer in offsets.items()}

    def check_epochs(self, copied: Mapping[TopicPartition, Position]) -> None:
        """A leader epoch that ends before the position: the source was cut, and its records there are others now."""
        epochs = {where: position.epoch for where, position in copied.items() if position.epoch >= 0}
        if not epochs:
            return
        for where, (_, end) in self._session.run(end_offsets_of_epochs(self._cluster, epochs)).items():
            if 0 <= end < copied[where].source:
                raise SourceChanged(
                    f"{where} of {self._name} was copied up to {copied[where].source}, but its leader epoch "
                    f"{epochs[where]} ends at {end}: it was cut, and both sides have diverged"
                )

    def close(self) -> None:
        self._session.close()


class SourceLog:
    """One for each process and link."""

    def __init__(self, link: Link, engine: Engine | None = None) -> None:
        self._reader = FollowingReader(link.source_client, engine=engine)
        self._session = Session("mirror source", ConsumerSettings.parse(link.source_client))
        self._topics = Topics(self._session, self._session.cluster())
        self._epochs = SourceEpochs(link)

    def check_epochs(self, copied: Mapping[TopicPartition, Position]) -> None:
        self._epochs.check_epochs(copied)

    def read(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], *, tolerate: bool
    ) -> Iterator[list[Chunk]]:
        wanted = [
            Range(*where, begin, end, self.topic_id(where.topic)) for where, (begin, end) in ranges.items()
        ]
        yield from self._reader.read_chunks(wanted, tolerate_loss=tolerate, idle_timeout_ms=READ_TIMEOUT_MS)

    def wait(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> dict[TopicPartition, int]:
        """The ends, once a partition has more than its position; nothing if none has, or if one cannot be read."""
        return self._reader.wait(self._ranges(positions), timeout_s)

    async def follow(
        self, positions: Mapping[TopicPartition, int], timeout_s: float
    ) -> dict[TopicPartition, int]:
        """The same on the engine's loop, where `take_held` has the records then."""
        return await self._reader.follow(self._ranges(positions), timeout_s)

    @property
    def held_bytes(self) -> int:
        return self._reader.held_bytes

    def take_held(self, *, tolerate: bool) -> list[Chunk]:
        return self._reader.take_held(tolerate_loss=tolerate)

    def _ranges(self, positions: Mapping[TopicPartition, int]) -> list[Range]:
        return [Range(*where, at, at, self.topic_id(where.topic)) for where, at in positions.items()]

    def topic_id(self, topic: str) -> bytes:
        return self._topics.id_of(topic)

    def refresh(self, topics: set[str]) -> None:
        self._topics.refresh(topics)

    def refresh_soon(self, topics: set[str]) -> None:
        self._topics.refresh_soon(topics)

    def close(self) -> None:
        self._reader.close()
        self._epochs.close()
        self._session.close()


class TargetLog:
    """One for each task: see `task.Target`."""

    def __init__(self, link: Link, task: int, engine: Engine | None = None) -> None:
        self._link, self._engine = link, engine
        self._settings = {
            **_PRODUCER,
            **link.target_client,
            "transactional.id": link.transactional_id(task),
        }
        self._owner: BatchOwner | None = None
        self._session = Session("mirror target", ConsumerSettings.parse(link.target_client))
        self._topics = Topics(self._session, self._session.cluster())

    def take_over(self) -> None:
        if self._owner is None:
            self._owner = BatchOwner(self._settings, engine=self._engine)
        self._owner.take_over()

    def committed(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self._open.committed(self._link.group, partitions)

    def write_batch(self, partition: TopicPartition, encoded: bytearray, count: int, attached: Any) -> None:
        self._open.write_batch(partition, encoded, count, attached)

    def write_journal(self, records: list[tuple[bytes, bytes]]) -> None:
        now_ms = int(time.time() * 1000)
        where = TopicPartition(self._link.journal, 0)
        self._open.write_rows(where, (Row(now_ms, key, value) for key, value in records))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._open.run(work)

    def topic_id(self, topic: str) -> bytes:
        return self._topics.id_of(topic)

    def refresh(self, topics: set[str]) -> None:
        self._topics.refresh(topics)

    def refresh_soon(self, topics: set[str]) -> None:
        self._topics.refresh_soon(topics)

    async def add_positions(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata
    ) -> None:
        await self._open.add_offsets(offsets, member)

    async def take_written(self) -> list[Written]:
        return await self._open.take_written()

    async def end(self) -> None:
        await self._open.end()

    def abort(self) -> None:
        """As far as it works: the next owner aborts what stays open. This producer is not used again."""
        owner, self._owner = self._owner, None
        if owner is not None:
            with contextlib.suppress(OttlaError):
                owner.abort()
            owner.close(0)

    def close(self) -> None:
        self.abort()
        self._session.close()

    @property
    def _open(self) -> BatchOwner:
        assert self._owner is not None, "take_over first"
        return self._owner
