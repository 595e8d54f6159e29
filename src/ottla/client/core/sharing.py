"""The share consumer's core: membership, share sessions with the leaders, acknowledgements (KIP-932)."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla import errors
from ottla.client.core.chunks import Chunk
from ottla.client.core.cluster import GROUP, Cluster
from ottla.client.core.dialogue import check
from ottla.client.core.reader import Reader
from ottla.client.core.retries import is_retriable
from ottla.client.core.runtime import Runtime, Task
from ottla.client.errors import IllegalState
from ottla.client.serializers import deserializer_for
from ottla.client.settings import ConsumerSettings
from ottla.client.values import ConsumerRecord, TopicPartition
from ottla.errors import OttlaError
from ottla.wire.messages import share_acknowledge as acknowledging
from ottla.wire.messages import share_fetch as fetching
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
LEAVE_EPOCH, FINAL_EPOCH = -1, -1
_WAIT_S = 0.5  # of one fetch: between two of them assignments are looked at
_BATCH_RECORDS = 500
Place = tuple[bytes, int]  # topic id, partition


class Modes(NamedTuple):
    explicit: bool = False  # every record is acknowledged by the application
    record_limit: bool = False  # never more than max.poll.records, instead of whole batches


@dataclass(slots=True)
class _Session:
    """With one broker. The epoch counts the requests, so that none is lost or repeated unseen."""

    epoch: int = 0
    partitions: set[Place] = field(default_factory=set)

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == 2**31 - 1 else self.epoch + 1


class ShareCore:
    """Everything here runs on one event loop."""

    def __init__(
        self, settings: ConsumerSettings, runtime: Runtime, modes: Modes, *, holds: bool = False
    ) -> None:
        """`holds`: records of earlier polls may stay undecided."""
        self._settings, self._runtime, self._holds = settings, runtime, holds
        self._explicit, self._acquire_mode = modes.explicit, int(modes.record_limit)
        self._cluster = Cluster(settings, runtime)
        self._group = settings.group_id or ""
        self._member = base64.urlsafe_b64encode(runtime.token()).rstrip(b"=").decode()
        self._topics: list[str] = []
        self._epoch, self._interval_s = 0, 1.0
        self._assigned: frozenset[Place] = frozenset()
        self._sessions: dict[int, _Session] = {}
        self._outcomes: dict[Place, dict[int, int]] = {}  # acknowledgements that no broker has heard yet
        self._in_hand: dict[Place, set[int]] = {}  # delivered by the last poll, without a decision
        self._beat, self._news = runtime.event(), runtime.event()
        self._task: Task[None] | None = None
        self._failure: OttlaError | None = None
        self.delivery_counts: dict[tuple[str, int, int], int] = {}  # of the last poll, or of what is held

    # -- membership --------------------------------------------------------------------------------

    async def subscribe(self, topics: Iterable[str]) -> None:
        self._topics = sorted(set(topics))
        self._beat.set()
        if self._task is None:
            self._task = self._runtime.spawn(self._keep_alive())

    async def _keep_alive(self) -> None:
        while self._failure is None:
            try:
                await self._heartbeat()
            except (errors.FencedMemberEpoch, errors.UnknownMemberId):
                self._epoch, self._assigned = 0, frozenset()
                continue
            except OttlaError as error:
                self._cluster.forget_stale(error)
                if not is_retriable(error):
                    self._failure = error
                    self._news.set()
                    return
                await self._runtime.sleep(self._settings.retry_backoff_ms / 1000)
                continue
            try:
                async with self._runtime.timeout(self._interval_s):
                    await self._beat.wait()
            except TimeoutError:
                pass
            self._beat.clear()

    async def _heartbeat(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member,
            member_epoch=self._epoch,
            rack_id=self._settings.client_rack or None,
            subscribed_topic_names=self._topics,
        )
        answer = await self._cluster.ask_coordinator(GROUP, self._group, request)
        check(answer)
        self._epoch = answer.member_epoch
        self._interval_s = max(answer.heartbeat_interval_ms, 10) / 1000
        if answer.assignment is not None:
            self._assigned = frozenset(
                (topic.topic_id, number)
                for topic in answer.assignment.topic_partitions
                for number in topic.partitions
            )
            self._news.set()

    # -- records -----------------------------------------------------------------------------------

    async def poll(self, timeout_s: float) -> list[ConsumerRecord]:
        if not self._topics:
            raise IllegalState("subscribe to topics first")
        self._settle_last()
        if not self._holds:
            self.delivery_counts.clear()
        deadline = self._runtime.now() + timeout_s
        while True:
            if self._failure is not None:
                raise self._failure
            left_s = deadline - self._runtime.now()
            records = await self._fetch_all(max(0.0, min(left_s, _WAIT_S)))
            if records or left_s <= 0:
                return records
            if not self._assigned:
                await self._wait_for_news(min(left_s, _WAIT_S))

    def _settle_last(self) -> None:
        """What the last poll brought counts as done when the next one is called; explicit members say so themselves."""
        if self._holds:
            return
        if self._explicit and any(self._in_hand.values()):
            raise IllegalState("acknowledge every record of the last poll before the next one")
        for place, offsets in self._in_hand.items():
            for offset in offsets:
                self._outcomes.setdefault(place, {})[offset] = ACCEPT
        self._in_hand.clear()

    async def _wait_for_news(self, timeout_s: float) -> None:
        try:
            async with self._runtime.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()

    async def _fetch_all(self, wait_s: float) -> list[ConsumerRecord]:
        """From every leader at once. Several of them wait only shortly: the slowest answer is waited for."""
        by_leader = await self._by_leader(self._assigned | self._outcomes.keys())
        works = [
            self._fetch(node, places, wait_s if len(by_leader) == 1 else min(wait_s, 0.1))
            for node, places in by_leader.items()
        ]
        records: list[ConsumerRecord] = []
        for result in await self._runtime.gather(works):
            if isinstance(result, OttlaError):
                self._cluster.forget_stale(result)
                if not is_retriable(result):
                    raise result
                await self._runtime.sleep(self._settings.retry_backoff_ms / 1000)
            elif isinstance(result, BaseException):
                raise result
            else:
                records += result
        return records

    async def _by_leader(self, places: Iterable[Place]) -> dict[int, set[Place]]:
        names = self._cluster.image.names
        wanted = set(places)
        if any(topic_id not in names for topic_id, _ in wanted):
            await self._cluster.refresh(self._topics)
        by_leader: dict[int, set[Place]] = {}
        for topic_id, number in wanted:
            name = names.get(topic_id)
            if name is None:
                self._outcomes.pop((topic_id, number), None)  # the topic is gone, and its records with it
                continue
            try:
                leader = await self._cluster.leader(name, number)
            except errors.ProtocolError as error:
                self._cluster.forget_stale(error)
                continue
            by_leader.setdefault(leader.leader, set()).add((topic_id, number))
        return by_leader

    async def _fetch(self, node: int, places: set[Place], wait_s: float) -> list[ConsumerRecord]:
        session = self._sessions.setdefault(node, _Session())
        wanted = places & self._assigned
        outcomes = self._take_outcomes(places) if session.epoch else {}
        request = self._fetch_request(session, wanted, outcomes, wait_s)
        try:
            connection = await self._cluster.connection(node, patient=True)
            answer = await connection.ask(
                request, timeout_ms=int(wait_s * 1000) + self._settings.request_timeout_ms
            )
            check(answer)
        except OttlaError as error:
            # Unknown whether it was heard: the session begins again, and the lock's time decides about the records.
            self._sessions.pop(node, None)
            if not isinstance(error, errors.ShareSessionNotFound | errors.InvalidShareSessionEpoch):
                raise
            return []
        session.advance()
        session.partitions = set(wanted)
        return self._taken(answer)

    def _fetch_request(
        self, session: _Session, wanted: set[Place], outcomes: dict[Place, dict[int, int]], wait_s: float
    ) -> fetching.ShareFetchRequest:
        named = (wanted - session.partitions) | outcomes.keys()
        topics: dict[bytes, fetching.FetchTopic] = {}
        for place in sorted(named):
            topic = topics.setdefault(place[0], fetching.FetchTopic(topic_id=place[0]))
            batches = [
                fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
                for first, last, kind in _ranges(outcomes.get(place, {}))
            ]
            topic.partitions.append(
                fetching.FetchPartition(partition_index=place[1], acknowledgement_batches=batches)
            )
        forgotten: dict[bytes, fetching.ForgottenTopic] = {}
        for topic_id, number in sorted(session.partitions - wanted):
            forgotten.setdefault(topic_id, fetching.ForgottenTopic(topic_id=topic_id)).partitions.append(
                number
            )
        return fetching.ShareFetchRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=session.epoch,
            max_wait_ms=int(wait_s * 1000),
            min_bytes=1,
            max_bytes=self._settings.fetch_max_bytes,
            max_records=self._settings.max_poll_records,
            batch_size=_BATCH_RECORDS,
            share_acquire_mode=self._acquire_mode,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )

    def _taken(self, answer: fetching.ShareFetchResponse) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        for topic in answer.responses:
            name = self._cluster.image.names.get(topic.topic_id)
            for part in topic.partitions:
                if part.error_code:
                    self._cluster.forget_stale(errors.error_for(part.error_code))
                if name is not None and part.acquired_records:
                    records += self._acquired((topic.topic_id, part.partition_index), name, part)
        return records

    def _acquired(self, place: Place, name: str, part: fetching.PartitionData) -> list[ConsumerRecord]:
        """The records that are this member's. Offsets that hold none were compacted away: they are done with."""
        counts = {
            offset: acquired.delivery_count
            for acquired in part.acquired_records
            for offset in range(acquired.first_offset, acquired.last_offset + 1)
        }
        reader = Reader(
            deserializer_for(self._settings.key_deserializer),
            deserializer_for(self._settings.value_deserializer),
        )
        where = TopicPartition(name, place[1])
        reader.add([Chunk(where, part.records, min(counts), check_crcs=self._settings.check_crcs)])
        mine = [record for record in reader.take(2**31) if record.offset in counts]
        there = {record.offset for record in mine}
        for offset in counts.keys() - there:
            self._outcomes.setdefault(place, {})[offset] = GAP
        self._in_hand.setdefault(place, set()).update(there)
        self.delivery_counts.update({(name, place[1], offset): counts[offset] for offset in there})
        return mine

    # -- acknowledgements --------------------------------------------------------------------------

    def acknowledge(self, topic: str, partition: int, offset: int, kind: int) -> None:
        known = self._cluster.image.topics.get(topic)
        place = (known.id, partition) if known is not None else None
        if place is None or offset not in self._in_hand.get(place, ()):
            raise IllegalState(
                f"{topic}-{partition}, offset {offset} is not among the records of the last poll"
            )
        self._outcomes.setdefault(place, {})[offset] = kind
        if kind != RENEW:  # a renewed record is still to be decided about
            self._in_hand[place].discard(offset)
            if self._holds:
                self.delivery_counts.pop((topic, partition, offset), None)

    def _take_outcomes(self, places: Iterable[Place]) -> dict[Place, dict[int, int]]:
        return {place: self._outcomes.pop(place) for place in places if place in self._outcomes}

    async def commit(self) -> None:
        """Everything that was decided is written when this returns; raises the first refusal."""
        if not self._explicit:
            self._settle_last()
        by_leader = await self._by_leader(self._outcomes.keys())
        lost: OttlaError | None = None
        if self._outcomes.keys() - {place for places in by_leader.values() for place in places}:
            lost = errors.LeaderNotAvailable(
                "not all acknowledgements could be sent: a partition has no leader"
            )
        for node, places in by_leader.items():
            session = self._sessions.get(node)
            outcomes = self._take_outcomes(places)
            if session is None or not session.epoch:
                lost = errors.ShareSessionNotFound(
                    f"the session with broker {node} ended before the records were acknowledged: they go to others"
                )
                continue
            answer = await self._cluster.ask(self._acknowledge_request(session.epoch, outcomes), node)
            check(answer)
            session.advance()
            for topic in answer.responses:
                for part in topic.partitions:
                    check(part)
        if lost is not None:
            raise lost

    def _acknowledge_request(
        self, epoch: int, outcomes: dict[Place, dict[int, int]]
    ) -> acknowledging.ShareAcknowledgeRequest:
        topics: dict[bytes, acknowledging.AcknowledgeTopic] = {}
        for (topic_id, number), decided in sorted(outcomes.items()):
            topic = topics.setdefault(topic_id, acknowledging.AcknowledgeTopic(topic_id=topic_id))
            batches = [
                acknowledging.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                )
                for first, last, kind in _ranges(decided)
            ]
            topic.partitions.append(
                acknowledging.AcknowledgePartition(partition_index=number, acknowledgement_batches=batches)
            )
        return acknowledging.ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=epoch,
            is_renew_ack=any(RENEW in decided.values() for decided in outcomes.values()),
            topics=list(topics.values()),
        )

    async def close(self) -> None:
        """Writes what was decided, gives back the rest at once, and leaves the group."""
        if self._task is not None:
            self._task.cancel()
        try:
            try:
                await self.commit()
            finally:
                await self._leave()
        finally:
            await self._cluster.close()

    async def _leave(self) -> None:
        for node, session in self._sessions.items():
            if session.epoch:
                await self._cluster.ask(self._acknowledge_request(FINAL_EPOCH, {}), node, timeout_ms=5_000)
        if self._epoch > 0:
            request = ShareGroupHeartbeatRequest(
                group_id=self._group, member_id=self._member, member_epoch=LEAVE_EPOCH
            )
            request.subscribed_topic_names = None
            await self._cluster.ask_coordinator(GROUP, self._group, request, timeout_ms=5_000)


def _ranges(decided: dict[int, int]) -> Iterable[tuple[int, int, int]]:
    """Neighbours with the same decision as one: (first offset, last offset, type)."""
    ranges: list[list[int]] = []
    for offset, kind in sorted(decided.items()):
        if ranges and ranges[-1][1] + 1 == offset and ranges[-1][2] == kind:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset, kind])
    return [(first, last, kind) for first, last, kind in ranges]
