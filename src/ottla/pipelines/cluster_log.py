"""The brokers behind a stream task: a producer of its own, and a reader that its process shares."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.columnar import ColumnarProducer, ColumnarReader
from ottla.client.columnar.ranges import Range
from ottla.client.exactly_once.owner import TransactionOwner
from ottla.client.session import EARLIEST, LATEST, ZERO_ID, Session, commit, committed, list_offsets
from ottla.client.settings import ConsumerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.pipelines.topology import EXACTLY_ONCE, Pipeline, TaskId

# A pipeline that died must not hold back readers of its results for long.
TRANSACTION_TIMEOUT_MS = 60_000
READ_TIMEOUT_MS = (
    2 * TRANSACTION_TIMEOUT_MS
)  # the last stable offset may wait for somebody else's dead transaction
_PRODUCER = {"linger.ms": 0}


class SharedReader:
    """One for each process and cluster: records, and where partitions begin and end."""

    def __init__(self, client: Mapping[str, Any]) -> None:
        self._reader = ColumnarReader(client)
        self._session = Session("pipeline", ConsumerSettings.parse(client))
        self._cluster = self._session.cluster()

    def read(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], *, headers: bool = False
    ) -> Iterator[pa.RecordBatch]:
        wanted = [Range(*where, begin, end, self._id(where.topic)) for where, (begin, end) in ranges.items()]
        yield from self._reader.read(wanted, headers=headers, idle_timeout_ms=READ_TIMEOUT_MS)

    def bounds(self, partition: TopicPartition) -> tuple[int, int, str]:
        return self._session.run(self._bounds(partition))

    def stable_bounds(self, topic: str) -> dict[TopicPartition, tuple[int, int]]:
        """Of all partitions: where they begin, and up to where their records can be read."""
        return self._session.run(self._stable_bounds(topic))

    def topic_id(self, topic: str) -> str:
        return self._id(topic).hex()

    def committed(
        self, group: str, partitions: list[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Once no open transaction can change it: the pipeline may have run with transactions before."""
        return self._session.run(committed(self._cluster, group, partitions, require_stable=True))

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata) -> None:
        self._session.run(commit(self._cluster, member, offsets))

    @property
    def cluster_id(self) -> str:
        if self._cluster.image.cluster_id is None:
            self._session.run(self._cluster.refresh([]))
        return self._cluster.image.cluster_id or ""

    def close(self) -> None:
        self._reader.close()
        self._session.close()

    def _id(self, topic: str) -> bytes:
        known = self._cluster.image.topics.get(topic)
        if known is None:
            self._session.run(self._know(topic))
            known = self._cluster.image.topics.get(topic)
        return known.id if known is not None else ZERO_ID

    async def _stable_bounds(self, topic: str) -> dict[TopicPartition, tuple[int, int]]:
        if topic not in self._cluster.image.topics:
            await self._know(topic)
        partitions = [
            TopicPartition(topic, number) for number in self._cluster.image.topics[topic].partitions
        ]
        begins = await list_offsets(self._cluster, dict.fromkeys(partitions, EARLIEST))
        ends = await list_offsets(self._cluster, dict.fromkeys(partitions, LATEST), committed_only=True)
        return {where: (begins[where].offset, ends[where].offset) for where in partitions}

    async def _know(self, topic: str) -> None:
        await self._cluster.retrying(lambda: self._cluster.refresh([topic]), f"topic {topic} is not known")

    async def _bounds(self, partition: TopicPartition) -> tuple[int, int, str]:
        await self._know(partition.topic)
        begin = await list_offsets(self._cluster, {partition: EARLIEST})
        end = await list_offsets(self._cluster, {partition: LATEST})
        topic_id = self._cluster.image.topics[partition.topic].id.hex()
        return begin[partition].offset, end[partition].offset, topic_id


class ClusterLog(ABC):
    """See `stepping.Log`. What both guarantees have in common."""

    def __init__(self, pipeline: Pipeline, reader: SharedReader) -> None:
        self._group, self._reader = pipeline.name, reader
        self._settings: dict[str, Any] = {**_PRODUCER, **pipeline.client}

    def read(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], *, headers: bool = False
    ) -> Iterator[pa.RecordBatch]:
        return self._reader.read(ranges, headers=headers)

    def bounds(self, partition: TopicPartition) -> tuple[int, int, str]:
        return self._reader.bounds(partition)

    def topic_id(self, topic: str) -> str:
        return self._reader.topic_id(topic)

    def write(self, topic: str, rows: pa.RecordBatch) -> None:
        self._open.write(rows, topic)

    def flush(self) -> Mapping[TopicPartition, int]:
        self._open.flush()
        # Without a word from the broker: nobody else writes while this step is under way.
        return {
            where: end if end >= 0 else self.bounds(where)[1]
            for where, end in self._open.acknowledged().items()
        }

    @abstractmethod
    def take_over(self) -> None: ...

    @abstractmethod
    def committed(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata]: ...

    @abstractmethod
    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    def close(self) -> None:
        self.abort()

    @property
    @abstractmethod
    def _open(self) -> ColumnarProducer: ...


class TransactionalLog(ClusterLog):
    """Exactly once: results, changelogs and positions are one transaction."""

    def __init__(self, pipeline: Pipeline, task: TaskId, reader: SharedReader) -> None:
        super().__init__(pipeline, reader)
        self._settings = {
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            **self._settings,
            "transactional.id": pipeline.transactional_id(task),
        }
        self._owner: TransactionOwner | None = None

    def take_over(self) -> None:
        if self._owner is None:
            self._owner = TransactionOwner(self._settings)
        self._owner.take_over()
        self._owner.acknowledged()

    def committed(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self._open.committed(self._group, partitions)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata) -> None:
        self._open.commit(offsets, member)

    def abort(self) -> None:
        """As far as it works: the next owner aborts what stays open. This producer is not used again."""
        owner, self._owner = self._owner, None
        if owner is not None:
            with contextlib.suppress(OttlaError):
                owner.abort()
            owner.close(0)

    @property
    def _open(self) -> TransactionOwner:
        assert self._owner is not None, "take_over first"
        return self._owner


class PlainLog(ClusterLog):
    """At least once: what is written is seen at once, and positions follow when it is acknowledged."""

    _producer: ColumnarProducer | None = None

    def take_over(self) -> None:
        """Nobody can be fenced; the driver's generation, which goes with the positions, refuses an earlier one's."""
        if self._producer is None:
            self._producer = ColumnarProducer(self._settings)
        self._producer.acknowledged()

    def committed(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self._reader.committed(self._group, partitions)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata) -> None:
        self._reader.commit(offsets, member)

    def abort(self) -> None:
        """What is not sent yet is given up with the producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(0)

    @property
    def _open(self) -> ColumnarProducer:
        assert self._producer is not None, "take_over first"
        return self._producer


def log_of(pipeline: Pipeline, task: TaskId, reader: SharedReader) -> ClusterLog:
    """As the pipeline's guarantee asks for."""
    if pipeline.guarantee == EXACTLY_ONCE:
        return TransactionalLog(pipeline, task, reader)
    return PlainLog(pipeline, reader)
