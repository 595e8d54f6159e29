"""Incremental fetch sessions (KIP-227): what a fetcher asked for is remembered, only changes travel."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla import errors

if TYPE_CHECKING:
    from ottla.wire.messages.fetch import FetchRequest, PartitionData

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
NO_SESSION = 0

Key = tuple[str | bytes, int]  # topic by name, or by id from v13 on


@dataclass(slots=True)
class Wanted:
    """A partition in a fetch, and what its fetcher was told last."""

    topic: str | bytes
    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    told_high_watermark: int = -1
    told_log_start_offset: int = -1

    def update(self, other: "Wanted") -> None:
        self.fetch_offset, self.partition_max_bytes = other.fetch_offset, other.partition_max_bytes
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch
        self.log_start_offset = other.log_start_offset

    def is_news(self, data: "PartitionData") -> bool:
        """Whether an incremental response must carry it; remembers that it does."""
        news = (
            bool(data.records)
            or data.error_code != 0
            or data.high_watermark != self.told_high_watermark
            or data.log_start_offset != self.told_log_start_offset
            or data.preferred_read_replica != -1
            or data.diverging_epoch.epoch != -1
        )
        if news:
            # An error is told again until it is gone.
            told = data.error_code == 0
            self.told_high_watermark = data.high_watermark if told else -1
            self.told_log_start_offset = data.log_start_offset if told else -1
        return news


@dataclass(slots=True)
class Session:
    session_id: int
    by_id: bool
    epoch: int = 1
    wanted: OrderedDict[Key, Wanted] = field(default_factory=OrderedDict)
    created_ms: int = 0
    last_used_ms: int = 0


@dataclass(slots=True)
class Turn:
    """One fetch: what to read, in which order, and how to answer."""

    session: Session | None
    wanted: list[Wanted]
    incremental: bool

    @property
    def session_id(self) -> int:
        return self.session.session_id if self.session is not None else NO_SESSION

    def tell(self, data: "dict[Key, PartitionData]") -> "dict[Key, PartitionData]":
        """What goes into the response. A partition that had records goes to the end of the queue."""
        if self.session is None:
            return data
        told = {}
        for wanted in self.wanted:
            key = wanted.topic, wanted.partition
            news = wanted.is_news(data[key])
            if news or not self.incremental:
                told[key] = data[key]
            if data[key].records and key in self.session.wanted:
                self.session.wanted.move_to_end(key)
        return told


class FetchSessions:
    """At most `slots` sessions; a new one may push out the least recently used if that has been quiet."""

    def __init__(self, slots: int, eviction_ms: int, new_id: Callable[[], int]) -> None:
        self._slots, self._eviction_ms, self._new_id = slots, eviction_ms, new_id
        self._sessions: OrderedDict[int, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions(self, session_id: int) -> list[Key]:
        """What a session is about."""
        session = self._sessions.get(session_id)
        return list(session.wanted) if session is not None else []

    def turn(self, request: "FetchRequest", *, by_id: bool, now_ms: int) -> Turn:
        """Raises FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._sessions.pop(request.session_id, None)
            wanted = list(_asked(request, by_id))
            session = None
            if request.session_epoch == INITIAL_EPOCH and wanted:
                session = self._open(wanted, by_id, now_ms)
            return Turn(session, wanted, incremental=False)
        return self._continue(request, by_id, now_ms)

    def _continue(self, request: "FetchRequest", by_id: bool, now_ms: int) -> Turn:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise errors.FetchSessionIdNotFound()
        if session.epoch != request.session_epoch:
            raise errors.InvalidFetchSessionEpoch()
        if session.by_id != by_id and (session.wanted or request.topics):
            raise errors.FetchSessionTopicIdError()
        for forgotten in request.forgotten_topics_data:
            topic = forgotten.topic_id if by_id else forgotten.topic
            for partition in forgotten.partitions:
                session.wanted.pop((topic, partition), None)
        for wanted in _asked(request, by_id):
            key = wanted.topic, wanted.partition
            known = session.wanted.get(key)
            if known is None:
                session.wanted[key] = wanted
            else:
                known.update(wanted)
        session.epoch = session.epoch + 1 if session.epoch < 2**31 - 1 else 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        if not session.wanted:
            del self._sessions[session.session_id]
        return Turn(session, list(session.wanted.values()), incremental=True)

    def _open(self, wanted: list[Wanted], by_id: bool, now_ms: int) -> Session | None:
        if len(self._sessions) >= self._slots and not self._evict(now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        session = Session(session_id, by_id, created_ms=now_ms, last_used_ms=now_ms)
        session.wanted.update(((each.topic, each.partition), each) for each in wanted)
        self._sessions[session_id] = session
        return session

    def _evict(self, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms < self._eviction_ms:
            return False
        del self._sessions[oldest.session_id]
        return True


def _asked(request: "FetchRequest", by_id: bool) -> Iterator[Wanted]:
    for topic in request.topics:
        name: str | bytes = topic.topic_id if by_id else topic.topic
        for each in topic.partitions:
            yield Wanted(
                name,
                each.partition,
                each.fetch_offset,
                each.partition_max_bytes,
                each.current_leader_epoch,
                each.last_fetched_epoch,
                each.log_start_offset,
            )
