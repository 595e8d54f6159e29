"""A lane of a source: reads on from the committed offsets, one transaction for each step.

`docs/decisions/2026-11-17-connect.md` has the protocol. Spark's workers and plain threads run the same object.
"""

import contextlib
import time
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.exactly_once.owner import TransactionOwner
from ottla.connect.errors import RetriableError
from ottla.connect.spi import Batch, Json, Limit, Source
from ottla.connect.store.formats import canonical, topic_status, topic_status_key
from ottla.connect.store.offsets import Offsets
from ottla.connect.tasks.conversion import SourceConversion
from ottla.connect.tasks.spec import Spec
from ottla.connect.tasks.topics import TopicCreation
from ottla.errors import OttlaError

TRANSACTION_TIMEOUT_MS = 60_000
_STEP_S = 10.0  # a transaction that stays open for longer holds up readers of the topic
_PRODUCER = {
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    "linger.ms": 0,
    "max.block.ms": 60_000,
    "delivery.timeout.ms": 45_000,
}


class Stepped(NamedTuple):
    """What a step did."""

    records: int
    partitions: int  # that had something


class SourceLane:
    """Lives as long as its process. A step that fails leaves nothing that the next one trusts."""

    def __init__(self, spec: Spec, lane: int, source: Source, offsets: Offsets) -> None:
        self._spec, self._lane = spec, lane
        self._source, self._offsets = source, offsets
        config = spec.parsed()
        self._conversion = SourceConversion(config)
        self._topics = TopicCreation(config, spec.client("admin"))
        self._owner: TransactionOwner | None = None
        self._ours: dict[str, Json | None] = {}  # offsets, if the last step was ours and is committed
        self._turn = -1
        self._reported: set[str] = set()  # topics that the status topic knows of

    def step(self, partitions: Sequence[Json], limit: Limit, *, retried: bool = False) -> Stepped:
        """What there is now of these partitions, in one transaction."""
        try:
            return self._step(partitions, limit, retried)
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """The next owner of the transactional id aborts what is open."""
        self._ours.clear()
        owner, self._owner = self._owner, None
        if owner is not None:
            with contextlib.suppress(OttlaError):
                owner.abort()
            owner.close(0)

    def close(self) -> None:
        self.drop()
        self._topics.close()

    def _step(self, partitions: Sequence[Json], limit: Limit, retried: bool) -> Stepped:
        self._stand(partitions, retried)
        moved: list[tuple[Json, Json]] = []
        count = size = 0
        handling = self._conversion.handling
        begun = time.monotonic()
        for partition in self._in_turn(partitions):
            if count >= limit.records or size >= limit.bytes or time.monotonic() - begun > _STEP_S:
                break
            rest = Limit(limit.records - count, limit.bytes - size)
            batch = handling.retried(self._source.read, partition, self._ours[canonical(partition)], rest)
            if batch is None:
                continue
            written, bytes_written = self._write(batch)
            count, size = count + written, size + bytes_written
            moved.append((partition, batch.offset))
        if not moved:
            return Stepped(0, 0)
        owner = self._open
        owner.write(self._offsets.rows(self._spec.name, moved), self._offsets.topic)
        owner.flush()
        owner.commit_transaction()
        owner.begin_transaction()
        self._ours.update({canonical(partition): offset for partition, offset in moved})
        self._source.committed(moved)
        return Stepped(count, len(moved))

    def _in_turn(self, partitions: Sequence[Json]) -> Sequence[Json]:
        """Another one is first each time: a busy partition must not starve those behind it."""
        self._turn = (self._turn + 1) % max(1, len(partitions))
        return [*partitions[self._turn :], *partitions[: self._turn]]

    def _stand(self, partitions: Sequence[Json], retried: bool) -> None:
        """The committed offsets. If the last step was this process's, nobody else need be fenced: somebody who took
        over since has a newer epoch, and this step's transaction will be refused."""
        known = all(canonical(partition) in self._ours for partition in partitions)
        if self._owner is not None and known and not retried:
            return
        if self._owner is None:
            settings = {**_PRODUCER, **self._spec.client("producer")}
            settings["transactional.id"] = self._spec.transactional_id(self._lane)
            self._owner = TransactionOwner(settings)
        self._owner.take_over()
        self._offsets.catch_up()
        self._ours = {
            canonical(partition): self._offsets.offset(self._spec.name, partition) for partition in partitions
        }

    def _write(self, batch: Batch) -> tuple[int, int]:
        count = size = 0
        for topic, rows in self._conversion.rows(batch):
            self._topics.ensure(topic)
            self._open.write(rows, topic)
            self._tell(topic)
            count, size = count + rows.num_rows, size + rows.nbytes
        return count, size

    def _tell(self, topic: str) -> None:
        """The status topic knows which topics a connector writes to."""
        status = self._spec.status_topic
        if status is None or topic in self._reported:
            return
        self._reported.add(topic)
        self._open.write(topic_row(topic, self._spec.name), status)

    @property
    def _open(self) -> TransactionOwner:
        assert self._owner is not None, "a step takes over first"
        return self._owner


def topic_row(topic: str, connector: str) -> pa.RecordBatch:
    key = topic_status_key(topic, connector)
    value = topic_status(topic, connector, int(time.time() * 1000))
    arrays = [pa.array([key], pa.binary()), pa.array([value], pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, names=["key", "value"])


class SourceWorker:
    """The lanes of one connector in this process."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.source = spec.source()
        self._offsets = Offsets(spec.client("consumer"), spec.offsets_topic)
        self._lanes: dict[int, SourceLane] = {}

    def run(self, lane: int, partitions: Sequence[Json], limit: Limit, *, retried: bool = False) -> Stepped:
        if lane not in self._lanes:
            self._lanes[lane] = SourceLane(self.spec, lane, self.source, self._offsets)
        return self._lanes[lane].step(partitions, limit, retried=retried)

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()
        self._offsets.close()
        self.source.close()


def fence(spec: Spec, lanes: Sequence[int]) -> None:
    """Aborts what earlier tasks left open, Java's too: their transactional ids have the same form."""
    for lane in lanes:
        settings = {**_PRODUCER, **spec.client("producer"), "transactional.id": spec.transactional_id(lane)}
        owner = TransactionOwner(settings)
        try:
            owner.take_over()
        except OttlaError as error:
            raise RetriableError(f"{spec.transactional_id(lane)} cannot be taken over: {error}") from error
        finally:
            owner.close(0)
