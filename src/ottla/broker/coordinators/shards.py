"""Coordinators on this broker: which shard has a key, which shards are here, loaded, and reachable.

A shard is a partition of an internal topic. It comes up when this broker leads the partition: the log is
replayed in short steps, and until that is done clients are answered COORDINATOR_LOAD_IN_PROGRESS.
"""

import logging
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from ottla import errors
from ottla.broker.waits import Wait
from ottla.effects import AnyToken, Token
from ottla.errors import ProtocolError
from ottla.metadata.image import Image
from ottla.ports import Buffer, Clock
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.storage.log import Origin
from ottla.wire import batch as batches
from ottla.wire import records as wire_records
from ottla.wire.records import Record

logger = logging.getLogger("ottla.coordination")

LOAD_STEP_BYTES = 256 << 10
_MARKER_KEY = struct.Struct(">hh")
COMMIT_MARKER = 1

R = TypeVar("R")
M = TypeVar("M")  # the machine
E = TypeVar("E")  # its effects: `GroupEffects`, say
E_contra = TypeVar("E_contra", contravariant=True)


class Carrier(Protocol[E_contra]):
    """A `coordination.shard.Shard`, by nothing but the effects that it carries out."""

    def handle(
        self, decide: Callable[[Token[R], int], E_contra], answer: Callable[[R | ProtocolError], None]
    ) -> Token[R]: ...

    def forget(self, token: AnyToken) -> None: ...

    def carry_out(self, effects: E_contra) -> None: ...

    def on_marker(self, producer_id: int, producer_epoch: int, committed: bool, offset: int) -> None: ...

    def replay(self, records: Iterable[Record], producer: tuple[int, int] | None) -> None: ...

    def loaded(self) -> None: ...

    def close(self) -> None: ...


class ShardedTopic:
    """An internal topic whose keys are spread over its partitions."""

    def __init__(self, topic: str, image: Image) -> None:
        self.topic, self._image = topic, image

    def index_of(self, key: str) -> int:
        """Which partition has the key; Kafka's own hash, so that its tools look in the right place."""
        topic = self._image.topics.get(self.topic)
        if topic is None:
            raise errors.CoordinatorNotAvailable(f"{self.topic} is not there yet")
        return partition_of(key, len(topic.partitions))


class Coordinator(ShardedTopic, Generic[M, E]):
    """All shards of one internal topic that this broker leads."""

    def __init__(
        self,
        topic: str,
        image: Image,
        clock: Clock,
        make_machine: Callable[["LocalShard[M, E]"], tuple[M, Carrier[E]]],
    ) -> None:
        super().__init__(topic, image)
        self._clock, self._make_machine = clock, make_machine
        self.shards: dict[int, LocalShard[M, E]] = {}

    def shard_of(self, key: str) -> "LocalShard[M, E]":
        shard = self.shards.get(self.index_of(key))
        if shard is None:
            raise errors.NotCoordinator()
        if not shard.is_loaded:
            raise errors.CoordinatorLoadInProgress()
        return shard

    async def call(self, key: str, decide: Callable[[M, Token[R], int], E]) -> R:
        """`decide(machine, token, now_ms)` on the shard of the key; its answer, once committed."""
        return await self.shard_of(key).call(decide)

    def loaded(self) -> Iterator["LocalShard[M, E]"]:
        """Every shard here; COORDINATOR_LOAD_IN_PROGRESS while one is not ready to be asked."""
        for shard in self.shards.values():
            if not shard.is_loaded:
                raise errors.CoordinatorLoadInProgress()
            yield shard

    def replayed(self, partition: Partition) -> M:
        """What the next leader would know: a machine that has read the log up to its end. For checks."""
        shard = LocalShard(partition, self._clock, self._make_machine)
        shard.replay_all()
        return shard.machine

    def on_partition(self, index: int, partition: Partition | None) -> None:
        """The partition came, changed or went."""
        shard = self.shards.get(index)
        if shard is not None and (
            partition is None
            or not partition.is_leader
            or partition is not shard.partition
            or partition.state.leader_epoch != shard.leader_epoch
        ):
            del self.shards[index]
            shard.close()
            shard = None
        if shard is None and partition is not None and partition.is_leader and partition.log is not None:
            shard = LocalShard(partition, self._clock, self._make_machine)
            self.shards[index] = shard
            shard.load()


class LocalShard(Generic[M, E]):
    """A shard with the partition under it, which is its `ShardLog`."""

    def __init__(
        self,
        partition: Partition,
        clock: Clock,
        make_machine: Callable[["LocalShard[M, E]"], tuple[M, Carrier[E]]],
    ) -> None:
        self.partition = partition
        self.leader_epoch = partition.state.leader_epoch
        self.is_loaded = False
        self._clock = clock
        self._closed = False
        self.machine, self._shard = make_machine(self)

    async def call(self, decide: Callable[[M, Token[R], int], E]) -> R:
        wait: Wait[R] = Wait()
        token: Token[R] = self._shard.handle(
            lambda token, now_ms: decide(self.machine, token, now_ms), wait.set
        )
        try:
            return await wait
        finally:
            if not wait.done:
                self._shard.forget(token)

    def carry_out(self, effects: E) -> None:
        if not self._closed:
            self._shard.carry_out(effects)

    def on_marker(self, producer_id: int, producer_epoch: int, committed: bool, offset: int) -> None:
        self._shard.on_marker(producer_id, producer_epoch, committed, offset)

    def close(self) -> None:
        self._closed = True
        self._shard.close()

    # -- the shard's log -------------------------------------------------------------------------

    def append(self, records: list[Record], producer: tuple[int, int] | None) -> int:
        producer_id, producer_epoch = producer or (-1, -1)
        batch = batches.build(
            records,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=producer is not None,
        )
        appended = self.partition.append(
            batch, acks=ACKS_ALL, now_ms=self._clock.now_ms(), origin=Origin.COORDINATOR
        )
        return appended.next_offset

    def committed(self) -> int:
        return self.partition.log.high_watermark if self.partition.log is not None else -1

    def when_committed(self, offset: int, wake: Callable[[], None]) -> None:
        self.partition.committed.add(offset, wake)

    # -- loading ---------------------------------------------------------------------------------

    def load(self) -> None:
        if self.partition.log is not None:
            self._load_from(self.partition.log.log_start_offset)

    def replay_all(self) -> None:
        """At once, without taking up anything."""
        log = self.partition.log
        offset = log.log_start_offset if log is not None else 0
        while log is not None and offset < log.end_offset:
            taken = log.read(offset, max_bytes=LOAD_STEP_BYTES, up_to=log.end_offset)
            for position, header in batches.headers(taken.data):
                self._replay(taken.data, position, header)
            offset = taken.next_offset

    def _load_from(self, offset: int) -> None:
        """One step; the next one follows after whatever else the loop has to do, on the log as it is then: it
        may have moved to another folder."""
        source = self.partition.log
        if self._closed or source is None:
            return
        end = source.end_offset
        taken = source.read(offset, max_bytes=LOAD_STEP_BYTES, up_to=end)
        for position, header in batches.headers(taken.data):
            self._replay(taken.data, position, header)
        if offset < taken.next_offset < end:
            self._clock.call_soon(lambda: self._load_from(taken.next_offset))
        else:
            self._loaded()

    def _loaded(self) -> None:
        self.is_loaded = True
        self._shard.loaded()

    def _replay(self, data: Buffer, position: int, header: batches.BatchHeader) -> None:
        records = wire_records.read(data, position)
        if header.is_control:
            for record in records:
                _, kind = _MARKER_KEY.unpack_from(record.key or b"\0\0\0\0")
                self._shard.on_marker(
                    header.producer_id, header.producer_epoch, kind == COMMIT_MARKER, record.offset
                )
            return
        producer = (header.producer_id, header.producer_epoch) if header.is_transactional else None
        self._shard.replay(records, producer)


def partition_of(key: str, partitions: int) -> int:
    """As in Apache Kafka: the absolute value of Java's hash, which has none for the smallest integer: 0."""
    value = java_hash(key)
    if value >= 1 << 31:  # negative in Java
        value = ((1 << 32) - value) & 0x7FFFFFFF
    return value % partitions


def java_hash(text: str) -> int:
    """String.hashCode of Java, over UTF-16 code units, as an unsigned number."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value
