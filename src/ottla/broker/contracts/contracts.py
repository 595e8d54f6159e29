"""What the broker knows of schemas: the registry's topic, read where it is led, and read on before an id is refused.

Nothing is read before a topic with a contract is written to. One reading is under way at a time; requests that come
meanwhile wait for the next one, which sees everything that was committed before they came.
"""

from collections.abc import Callable
from typing import TypeVar

from ottla import errors
from ottla.broker.cluster.peers import Lane, Peers
from ottla.broker.contracts.checks import BatchCheck, Schemas
from ottla.broker.partitions.replicas import Replicas
from ottla.broker.settings import Settings
from ottla.broker.stepping import HeavyWork
from ottla.broker.waits import Running, Wait, pause
from ottla.config.contracts import Contract
from ottla.metadata.image import Image
from ottla.ports import Buffer, Clock
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.wire import batch as batches
from ottla.wire import records
from ottla.wire.batch import BatchHeader
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.schema import Request

R = TypeVar("R")
PIECE_BYTES = 64 * 1024  # read and applied at once: about five milliseconds of the loop
FETCH_VERSION = 12  # the last one that names topics by name
FETCH_MAX_BYTES = 1 << 20
ANSWER_MS = 5_000
STALE_MS = 5_000  # a topic that is led elsewhere is looked at so often: for schemas that were deleted
READ_COMMITTED = 1
NO_SESSION_EPOCH = -1
LIST_OFFSETS_VERSION, EARLIEST = 7, -2


class Contracts:
    def __init__(
        self,
        image: Image,
        replicas: Replicas,
        peers: Peers,
        clock: Clock,
        settings: Settings,
        work: HeavyWork,
        make_schemas: Callable[[], Schemas],
    ) -> None:
        """`work` is where batches are checked in full: in one thread at a time, so that the loop has its share."""
        self._work = work
        self._image, self._replicas, self._peers = image, replicas, peers
        self._clock, self._settings, self._make_schemas = clock, settings, make_schemas
        self._schemas = make_schemas()
        self._topic_id = b""
        self._position = 0
        self._ended: dict[int, int] = {}  # by producer, where its last transaction ended
        self._read_ms: int | None = None  # when it was last read to its end
        self._waiting: list[Wait[str]] = []
        self._is_reading = False

    async def check_of(self, topic: str, contract: Contract) -> BatchCheck:
        """For one batch. Waits only if schemas were never read, or are led here and there are more of them."""
        check = self.check_at_once(topic, contract)
        if check is not None:
            return check
        await self.catch_up()
        return BatchCheck(self._schemas, topic, contract)

    def check_at_once(self, topic: str, contract: Contract) -> BatchCheck | None:
        """None if schemas are to be read first."""
        here = self._here()
        if self._read_ms is None or (here is not None and self._is_behind(here)):
            return None
        if here is None and self._clock.monotonic_ms() >= self._read_ms + STALE_MS:
            self._begin()
        return BatchCheck(self._schemas, topic, contract)

    async def check_in_full(self, check: BatchCheck) -> None:
        """In parts: batches of other clients have their turn in between."""
        for job in check.jobs():
            await self._work.run(job)

    def _is_behind(self, here: Log) -> bool:
        topic = self._image.topics.get(self._name)
        return self._position != here.last_stable_offset or topic is None or topic.topic_id != self._topic_id

    async def catch_up(self) -> None:
        """Every schema that was committed when this was called is known afterwards."""
        wait: Wait[str] = Wait()
        self._waiting.append(wait)
        self._begin()
        trouble = await wait
        if trouble:
            raise errors.RequestTimedOut(f"schemas cannot be checked: {trouble}; try again")

    @property
    def _name(self) -> str:
        return self._settings.now.ottla_schemas_topic

    def _here(self) -> Log | None:
        """The log of the registry's topic, if this broker leads it."""
        partition: Partition | None = self._replicas.partitions.get((self._name, 0))
        return partition.log if partition is not None and partition.is_leader else None

    def _begin(self) -> None:
        if self._is_reading:
            return
        self._is_reading = True
        served, self._waiting = self._waiting, []

        def finished(_: object, error: BaseException | None) -> None:
            self._is_reading = False
            if error is None:
                self._read_ms = self._clock.monotonic_ms()
            for wait in served:
                wait.set("" if error is None else f"{self._name}: {error}")
            if self._waiting:
                self._clock.call_later(0, self._begin)

        Running(self._read(), finished).step()

    async def _read(self) -> None:
        topic = self._image.topics.get(self._name)
        topic_id = topic.topic_id if topic is not None else b""
        if topic_id != self._topic_id:
            self._start_over(topic_id)
        if topic is None:
            return
        here = self._here()
        if here is not None:
            await self._read_here(here)
        else:
            await self._read_elsewhere()

    def _start_over(self, topic_id: bytes) -> None:
        """The topic is another one, or lost its end: what was known of it does not count."""
        self._schemas = self._make_schemas()
        self._topic_id, self._position, self._ended = topic_id, 0, {}

    async def _read_here(self, log: Log) -> None:
        end = log.last_stable_offset
        if self._position > end:
            self._start_over(self._topic_id)
        self._position = max(self._position, log.log_start_offset)
        while self._position < end:
            taken = log.read(self._position, max_bytes=PIECE_BYTES, up_to=end, at_least_one=True)
            if not taken.data:
                break
            aborted = log.aborted_transactions(self._position, taken.next_offset)
            self._take(
                taken.data, [(transaction.first_offset, transaction.producer_id) for transaction in aborted]
            )
            await pause(self._clock, 0)

    async def _read_elsewhere(self) -> None:
        end: int | None = None
        while end is None or self._position < end:
            data = await self._fetched()
            end = data.last_stable_offset if end is None else end
            if self._position > data.high_watermark:
                self._start_over(self._topic_id)
                continue
            if not data.records:
                break
            aborted = [
                (transaction.first_offset, transaction.producer_id)
                for transaction in data.aborted_transactions or ()
            ]
            await self._take_in_pieces(data.records, aborted)

    async def _fetched(self) -> PartitionData:
        fetched = await self._ask(_fetch(self._name, self._position), FETCH_VERSION)
        data = fetched.responses[0].partitions[0]
        if data.error_code == errors.OffsetOutOfRange.code:
            listed = await self._ask(_earliest(self._name), LIST_OFFSETS_VERSION)
            self._start_over(self._topic_id)
            self._position = listed.topics[0].partitions[0].offset
            return await self._fetched()
        if data.error_code:
            raise errors.error_for(data.error_code)
        return data

    async def _ask(self, request: Request[R], version: int) -> R:
        state = self._image.partition(self._name, 0)
        if state is None or state.leader < 0:
            raise errors.LeaderNotAvailable("it has no leader")
        answered: Wait[R] = Wait()
        self._peers.ask(state.leader, Lane.SCHEMAS, request, version, answered.set, timeout_ms=ANSWER_MS)
        return await answered

    async def _take_in_pieces(self, data: Buffer, aborted: list[tuple[int, int]]) -> None:
        taken_bytes = 0
        for at, header in list(batches.headers(data)):
            self._take(memoryview(data)[at : at + header.size], aborted)
            taken_bytes += header.size
            if taken_bytes >= PIECE_BYTES:
                taken_bytes = 0
                await pause(self._clock, 0)

    def _take(self, data: Buffer, aborted: list[tuple[int, int]]) -> None:
        """Whole batches of committed records; those of transactions that were aborted are left out."""
        for at, header in batches.headers(data):
            if header.next_offset <= self._position:
                continue
            if header.is_control:
                self._ended[header.producer_id] = header.base_offset
            elif not (header.is_transactional and self._is_aborted(header, aborted)):
                for record in records.iterate(data, at, header):
                    if record.offset >= self._position:
                        self._schemas.apply(record.key, record.value)
            self._position = header.next_offset

    def _is_aborted(self, header: BatchHeader, aborted: list[tuple[int, int]]) -> bool:
        ended = self._ended.get(header.producer_id, -1)
        return any(
            producer == header.producer_id and ended < first <= header.base_offset
            for first, producer in aborted
        )


def _fetch(topic: str, offset: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_MAX_BYTES)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=FETCH_MAX_BYTES,
        isolation_level=READ_COMMITTED,
        session_epoch=NO_SESSION_EPOCH,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def _earliest(topic: str) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
