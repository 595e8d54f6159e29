"""Fetches ahead from every leader, a little, and keeps positions true: resets, truncation, moved leaders."""

import itertools
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

from ottla import errors
from ottla.client.core.chunks import Chunk
from ottla.client.core.cluster import ZERO_ID, Cluster, Partition
from ottla.client.core.fetch_requests import fetch_request
from ottla.client.core.fetched import Failure, Fetched, Place
from ottla.client.core.metrics import ConsumerCounts
from ottla.client.core.offsets import EARLIEST, LATEST, end_offsets_of_epochs, list_offsets
from ottla.client.core.retries import is_retriable
from ottla.client.core.rounds import Rounds
from ottla.client.core.sessions import FetchSession, Wanted
from ottla.client.errors import LogTruncated, NoOffset, OutOfRange
from ottla.client.settings import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError, error_for
from ottla.wire.messages.fetch import PartitionData

log = logging.getLogger(__name__)
CHUNKS_AHEAD = 2  # of one partition: one being read, one on its way
_LOOK_S = 0.1  # how often something is looked for that nobody wakes the fetcher for
RESET = {"earliest": EARLIEST, "latest": LATEST}
_NO_ENDS: Mapping[TopicPartition, int] = {}


class Fetcher(Rounds):
    """Everything on one loop. `take` hands out chunks, oldest first."""

    def __init__(self, cluster: Cluster) -> None:
        assert isinstance(cluster.settings, ConsumerSettings)
        super().__init__(cluster.runtime, "fetcher", failure_pause_s=0.5)
        self._cluster = cluster
        self._now = cluster.runtime.now
        self._settings = cluster.settings
        self._sessions: dict[int, FetchSession] = {}
        # Of brokers that had nothing beside the partitions that were left out.
        self._not_before: dict[int, float] = {}
        # One count for all: a partition that comes back must not take answers meant for its first stay.
        self._versions = itertools.count(1)
        self._busy: set[object] = set()
        self._arrived = self._runtime.event()
        self.places: dict[TopicPartition, Place] = {}
        self._fetched = Fetched(self.places)
        self.counts = ConsumerCounts()

    # -- what to read ------------------------------------------------------------------------------

    def assign(
        self, partitions: Iterable[TopicPartition], ends: Mapping[TopicPartition, int] = _NO_ENDS
    ) -> None:
        """Reads exactly these, up to the `ends` of those that have one; those that stay keep their places."""
        wanted = set(partitions)
        for partition in set(self.places) - wanted:
            del self.places[partition]
        for partition in sorted(wanted - set(self.places)):
            self.places[partition] = Place(version=next(self._versions))
        for partition, place in self.places.items():
            place.end = ends.get(partition)
        self._fetched.drop_stale()
        self._wake.set()

    def seek(self, partition: TopicPartition, offset: int, epoch: int = -1) -> None:
        place = self.places[partition]
        place.offset, place.epoch, place.reset_to = offset, epoch, None
        place.checked_epoch = -1
        self._restart(place)

    def seek_to_time(self, partition: TopicPartition, timestamp: int) -> None:
        """To a timestamp, EARLIEST or LATEST; looked up before the next fetch."""
        place = self.places[partition]
        place.offset, place.epoch, place.reset_to = None, -1, timestamp
        self._restart(place)

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        for partition in partitions:
            self.places[partition].paused = paused
        self._wake.set()
        self._arrived.set()

    # -- what was read -----------------------------------------------------------------------------

    async def take(self, timeout_s: float) -> list[Chunk]:
        """What has arrived, waiting up to `timeout_s` for something. Raises what went wrong for good."""
        deadline = self._now() + timeout_s
        while True:
            taken = self._take()
            remaining = deadline - self._now()
            if taken or remaining <= 0:
                return taken
            self._arrived.clear()
            try:
                async with self._runtime.timeout(remaining):
                    await self._arrived.wait()
            except TimeoutError:
                return self._take()
            if not self._fetched:
                return []  # interrupted: the consumer has something else to see to

    async def arrival(self, timeout_s: float) -> bool:
        """Waits up to `timeout_s` until `take` has something; whether it has."""
        self._fetched.drop_stale()
        if not self._fetched:
            self._arrived.clear()
            try:
                async with self._runtime.timeout(timeout_s):
                    await self._arrived.wait()
            except TimeoutError:
                return False
        return bool(self._fetched)

    @property
    def has_failed(self) -> bool:
        """Whether one of the next things that `take` does is to raise."""
        return self._fetched.has_failure

    def next_offset(self, partition: TopicPartition) -> int | None:
        """Where the next chunk of a partition begins that `take` hands out."""
        offset, place = self._fetched.first_offset(partition), self.places.get(partition)
        return place.offset if offset is None and place is not None else offset

    def interrupt(self) -> None:
        """Ends a waiting `take` early."""
        self._arrived.set()

    def _take(self) -> list[Chunk]:
        taken = self._fetched.take()
        if taken:
            self._wake.set()
        return taken

    # -- one round ---------------------------------------------------------------------------------

    def _pump(self) -> float:
        """Starts what can be started; how long nothing needs a look."""
        now = self._now()
        by_node: dict[int, dict[TopicPartition, Wanted]] = {}
        crowded: set[int] = set()  # brokers with a partition of which enough is here
        unplaced: list[TopicPartition] = []
        unchecked: list[TopicPartition] = []
        for partition, place in self.places.items():
            if place.paused or now < place.not_before:
                continue
            if place.offset is None:
                unplaced.append(partition)
                continue
            if place.end is not None and place.offset >= place.end:
                continue
            leader = self._leader(partition)
            if leader is None:
                continue
            if place.epoch >= 0 and leader.leader_epoch > place.checked_epoch >= 0:
                unchecked.append(partition)
                continue
            place.checked_epoch = leader.leader_epoch
            node = place.read_replica if place.read_replica in self._cluster.image.brokers else leader.leader
            if place.ahead < CHUNKS_AHEAD:
                by_node.setdefault(node, {})[partition] = (place.offset, leader.leader_epoch, place.epoch)
            else:
                crowded.add(node)
        if unplaced:
            self._once("positions", lambda: self._place(unplaced))
        if unchecked:
            self._once("epochs", lambda: self._check_epochs(unchecked))
        if self._fetched.size_bytes < self._settings.fetch_max_bytes:
            for node, wanted in by_node.items():
                if node in crowded and now < self._not_before.get(node, 0.0):
                    continue
                # As of now: a seek before the answer comes makes it stale.
                versions = {partition: self.places[partition].version for partition in wanted}
                self._once(node, partial(self._fetch, node, wanted, versions, waits=node not in crowded))
        return _LOOK_S if self.places else 5.0

    def _leader(self, partition: TopicPartition) -> Partition | None:
        try:
            return self._cluster.image.leader_of(*partition)
        except OttlaError:
            self._once(("topic", partition.topic), lambda: self._cluster.refresh([partition.topic]))
            return None

    # -- fetching ----------------------------------------------------------------------------------

    async def _fetch(
        self,
        node: int,
        wanted: dict[TopicPartition, Wanted],
        versions: dict[TopicPartition, int],
        *,
        waits: bool,
    ) -> None:
        """`waits`: the broker waits for records (`fetch.max.wait.ms`). Not if a partition is left out because enough of
        it is here: that may be taken at once, and new records of the partition would wait for the others'."""
        session = self._sessions.setdefault(node, FetchSession())
        topics = {topic for topic, _ in wanted}
        connection = await self._cluster.reach(node, topics, patient=True)
        known = self._cluster.image.topics
        if not topics <= known.keys():
            return  # one was deleted meanwhile: the next round asks for what is left
        topic_ids = {topic: known[topic].id for topic in topics}
        send, forget = session.plan(wanted, topic_ids)
        request = fetch_request(self._settings, session, send, forget)
        if not waits:
            request.max_wait_ms = 0
        # Ids came with version 13; a broker that does not tell them must be asked by name.
        at_most = 12 if ZERO_ID in topic_ids.values() else 32767
        timeout_ms = self._settings.fetch_max_wait_ms + self._settings.request_timeout_ms
        begun = self._now()
        try:
            answer = await connection.ask(request, at_most=at_most, timeout_ms=timeout_ms)
            if answer.error_code:
                raise error_for(answer.error_code)
        except OttlaError as error:
            session.reset()
            if isinstance(error, errors.NetworkException):
                await self._cluster.refresh(topics)  # its partitions may have another leader by now
            raise
        session.answered(answer.session_id)
        self.counts.fetches += 1
        self.counts.fetch_ms += (self._now() - begun) * 1000
        self.counts.throttle_ms += answer.throttle_time_ms
        self.counts.throttle_max_ms = max(self.counts.throttle_max_ms, answer.throttle_time_ms)
        self._cluster.image.add_brokers(answer.node_endpoints)
        names = {topic_id: name for name, topic_id in topic_ids.items()}
        bytes_before = self.counts.bytes
        for topic in answer.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                place = self.places.get(partition)
                if place is None or versions.get(partition) != place.version:
                    continue  # a seek came in between: these are not the records that are wanted now
                self._take_in(partition, place, data, wanted[partition][0])
        if not waits and self.counts.bytes == bytes_before:
            self._not_before[node] = self._now() + _LOOK_S

    def _take_in(
        self, partition: TopicPartition, place: Place, data: PartitionData, fetch_offset: int
    ) -> None:
        if data.error_code:
            hint = data.current_leader
            if self._cluster.image.moved(partition, hint.leader_id, hint.leader_epoch):
                return  # the broker has told where it leads to: no need to ask
            self._on_error(partition, place, error_for(data.error_code))
            return
        place.high_watermark, place.log_start_offset = data.high_watermark, data.log_start_offset
        if self._settings.read_committed:
            place.high_watermark = data.last_stable_offset
        if data.preferred_read_replica >= 0:
            place.read_replica = data.preferred_read_replica
            return
        if not data.records:
            return
        chunk = Chunk(
            partition,
            data.records,
            fetch_offset,
            place.high_watermark,
            data.log_start_offset,
            tuple(
                (transaction.first_offset, transaction.producer_id)
                for transaction in data.aborted_transactions or ()
            ),
            self._settings.read_committed,
            self._settings.check_crcs,
            place.version,
        )
        try:
            place.offset, place.epoch = chunk.end()
        except errors.CorruptMessage as error:
            text = f"{partition} at offset {fetch_offset}: {error.message}"
            self._fail(partition, place, errors.CorruptMessage(text))
            return
        self._fetched.add(chunk)
        self.counts.bytes += len(chunk.data)
        self._arrived.set()

    # -- positions ---------------------------------------------------------------------------------

    async def _place(self, partitions: list[TopicPartition]) -> None:
        """Looks up the offsets of places that have none."""
        wanted: dict[TopicPartition, int] = {}
        versions: dict[TopicPartition, int] = {}
        for partition in partitions:
            place = self.places.get(partition)
            if place is None or place.offset is not None:
                continue
            target = (
                place.reset_to if place.reset_to is not None else RESET.get(self._settings.auto_offset_reset)
            )
            if target is None:
                text = f"{partition} has no committed offset and auto.offset.reset is none: seek first"
                self._fail(partition, place, NoOffset(text))
                continue
            wanted[partition], versions[partition] = target, place.version
        committed_only = self._settings.read_committed
        listed = await list_offsets(self._cluster, wanted, committed_only=committed_only) if wanted else {}
        late = [
            p for p, answer in listed.items() if answer.offset < 0
        ]  # nothing is as young as that: the end
        ends = await list_offsets(self._cluster, dict.fromkeys(late, LATEST)) if late else {}
        for partition, answer in {**listed, **ends}.items():
            place = self.places.get(partition)
            if place is not None and place.version == versions[partition]:
                place.offset, place.reset_to = answer.offset, None
                place.epoch = place.checked_epoch = -1
        self._arrived.set()

    async def _check_epochs(self, partitions: list[TopicPartition]) -> None:
        """After a change of leader: does the new one have what we have read?"""
        epochs = {p: self.places[p].epoch for p in partitions if p in self.places}
        versions = {p: self.places[p].version for p in epochs}
        ends = await end_offsets_of_epochs(self._cluster, epochs)
        for partition, (epoch, end_offset) in ends.items():
            place = self.places.get(partition)
            if place is None or place.version != versions[partition] or place.offset is None:
                continue
            place.checked_epoch = self._cluster.image.leader_of(*partition).leader_epoch
            if 0 <= end_offset < place.offset:
                text = f"{partition} was cut to {end_offset} after records up to {place.offset} had been read"
                if self._settings.auto_offset_reset == "none":
                    self._fail(partition, place, LogTruncated(text))
                    continue
                log.warning("%s; reading goes on there", text)
                self.seek(partition, end_offset, epoch)

    def _on_error(self, partition: TopicPartition, place: Place, error: errors.ProtocolError) -> None:
        place.read_replica = -1
        if isinstance(error, errors.OffsetOutOfRange):
            if self._settings.auto_offset_reset == "none":
                assert place.offset is not None  # what a fetch has asked for
                self._fail(partition, place, OutOfRange(partition, place.offset))
                return
            log.warning(
                "%s: offset %s is out of range; reset to %s",
                partition,
                place.offset,
                self._settings.auto_offset_reset,
            )
            self.seek_to_time(partition, RESET[self._settings.auto_offset_reset])
        elif is_retriable(error):
            self._pause(place)
            self._cluster.forget_stale(error)
            self._once(("topic", partition.topic), lambda: self._cluster.refresh([partition.topic]))
        else:
            self._fail(partition, place, type(error)(f"{partition}: {error.message}"))

    def _fail(self, partition: TopicPartition, place: Place, error: OttlaError) -> None:
        """Told by the next `poll`, then tried again after a while if the user goes on."""
        place.not_before = self._now() + 1.0
        self._fetched.add(Failure(error, partition, place.version))
        self._arrived.set()

    def _pause(self, place: Place) -> None:
        place.not_before = self._now() + self._settings.retry_backoff_ms / 1000

    def _restart(self, place: Place) -> None:
        place.version = next(self._versions)
        place.ahead = 0
        place.not_before = 0.0
        self._fetched.drop_stale()
        self._wake.set()

    def _once(self, key: object, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Starts `work` unless it is under way. A failure that may pass is waited out; another is told."""
        if key in self._busy:
            return
        self._busy.add(key)

        async def run() -> None:
            try:
                await work()
            except OttlaError as error:
                self._cluster.forget_stale(error)
                self._cluster.troubles.report(error, "records cannot be fetched")
                if not is_retriable(error):
                    self._fetched.add(Failure(error))
                    self._arrived.set()
                await self._runtime.sleep(self._settings.retry_backoff_ms / 1000)
            finally:
                self._busy.discard(key)
                self._wake.set()

        self._spawn(run())
