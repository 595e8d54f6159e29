"""Incremental fetch sessions (KIP-227): what a fetcher asked for is remembered, only changes travel."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla import errors
from ottla.broker.fetching.wanted import Bell, Key, Readable, Wanted

if TYPE_CHECKING:  # a start without a fetch does without
    from ottla.wire.messages.fetch import FetchRequest, PartitionData

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
NO_SESSION = 0


@dataclass(slots=True)
class Session:
    session_id: int
    by_id: bool
    is_follower: bool
    owner: object  # the connection that used it last
    epoch: int = 1
    is_open: bool = True
    wanted: OrderedDict[Key, Wanted] = field(default_factory=OrderedDict)
    bell: Bell = field(default_factory=Bell)
    last_used_ms: int = 0


@dataclass(slots=True)
class Turn:
    """One fetch: what to read, in which order, and how to answer."""

    session: Session | None
    wanted: list[Wanted]
    incremental: bool
    bell: Bell

    @property
    def session_id(self) -> int:
        return self.session.session_id if self.session is not None else NO_SESSION

    @property
    def is_kept(self) -> bool:
        """Whether what was found out about the partitions is of use for the next fetch."""
        return self.session is not None and self.session.is_open

    def tells(self, key: Key, data: "PartitionData") -> bool:
        """Whether a partition goes into the response. One that has records goes to the end of the queue."""
        if self.session is None:
            return True
        wanted = self.session.wanted.get(key)
        news = wanted is not None and wanted.is_news(data)
        if data.records and wanted is not None:
            self.session.wanted.move_to_end(key)
        return news or not self.incremental

    def rest(self, readable: Iterable[Readable]) -> None:
        """The next fetch of the session passes these over while they are quiet."""
        for partition in readable:
            if self.is_kept and partition.wanted.resting is not partition:
                partition.wanted.wake()
                partition.wanted.resting = partition


class FetchSessions:
    """At most `slots` sessions of `partitions_max` partitions in all.

    Where there is no room a fetch gets no session, which every client can live with: it sends all of its
    partitions again. A session goes with the connection that used it last."""

    def __init__(self, slots: int, partitions_max: int, eviction_ms: int, new_id: Callable[[], int]) -> None:
        self._slots, self._partitions_max = slots, partitions_max
        self._eviction_ms, self._new_id = eviction_ms, new_id
        self._sessions: OrderedDict[int, Session] = OrderedDict()  # the least recently used first
        self._by_owner: dict[object, dict[int, None]] = {}
        self.partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions(self, session_id: int) -> list[Key]:
        """What a session is about."""
        session = self._sessions.get(session_id)
        return list(session.wanted) if session is not None else []

    def turn(
        self,
        request: "FetchRequest",
        asked: dict[Key, Wanted],
        *,
        by_id: bool,
        is_follower: bool,
        owner: object,
        now_ms: int,
        partitions_max: int,
    ) -> Turn:
        """`asked` is what the request names. `partitions_max` is for this session alone: a client need not be
        remembered for what does not exist.

        Raises FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR."""
        if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._continue(request, asked, by_id, owner, now_ms, partitions_max)
        self._close(request.session_id)
        session = None
        if request.session_epoch == INITIAL_EPOCH and 0 < len(asked) <= partitions_max:
            session = self._open(asked, by_id, is_follower, owner, now_ms)
        bell = session.bell if session is not None else Bell()
        return Turn(session, list(asked.values()), incremental=False, bell=bell)

    def on_disconnected(self, owner: object) -> None:
        """Its client begins a new session on its next connection."""
        for session_id in list(self._by_owner.get(owner, ())):
            self._close(session_id)

    def _continue(
        self,
        request: "FetchRequest",
        asked: dict[Key, Wanted],
        by_id: bool,
        owner: object,
        now_ms: int,
        partitions_max: int,
    ) -> Turn:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise errors.FetchSessionIdNotFound()
        if session.epoch != request.session_epoch:
            raise errors.InvalidFetchSessionEpoch()
        if session.by_id != by_id and (session.wanted or request.topics):
            raise errors.FetchSessionTopicIdError()
        self._update(session, request, asked, by_id)
        wanted = list(session.wanted.values())
        if not 0 < len(wanted) <= partitions_max or self.partition_count > self._partitions_max:
            self._close(session.session_id)
            return Turn(None, wanted, incremental=False, bell=Bell())
        session.epoch = session.epoch + 1 if session.epoch < 2**31 - 1 else 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        if session.owner is not owner:
            self._give_to(owner, session)
        return Turn(session, wanted, incremental=True, bell=session.bell)

    def _update(
        self, session: Session, request: "FetchRequest", asked: dict[Key, Wanted], by_id: bool
    ) -> None:
        before = len(session.wanted)
        for forgotten in request.forgotten_topics_data:
            topic = forgotten.topic_id if by_id else forgotten.topic
            for partition in forgotten.partitions:
                left = session.wanted.pop((topic, partition), None)
                if left is not None:
                    left.wake()
        for key, wanted in asked.items():
            known = session.wanted.get(key)
            if known is None:
                session.wanted[key] = wanted
            else:
                known.update(wanted)
        self.partition_count += len(session.wanted) - before

    def _open(
        self, wanted: dict[Key, Wanted], by_id: bool, is_follower: bool, owner: object, now_ms: int
    ) -> Session | None:
        if not self._make_room(len(wanted), is_follower, owner, now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        session = Session(session_id, by_id, is_follower, owner, last_used_ms=now_ms)
        session.wanted.update(wanted)
        self._sessions[session_id] = session
        self.partition_count += len(wanted)
        self._give_to(owner, session)
        return session

    def _make_room(self, partitions: int, is_follower: bool, owner: object, now_ms: int) -> bool:
        if partitions > self._partitions_max or not self._slots:
            return False
        while len(self._sessions) >= self._slots or self.partition_count + partitions > self._partitions_max:
            evicted = self._evictable(is_follower, owner, now_ms)
            if evicted is None:
                return False
            self._close(evicted.session_id)
        return True

    def _evictable(self, is_follower: bool, owner: object, now_ms: int) -> Session | None:
        """The oldest one of the same connection; one that has been quiet for long; for a follower any consumer's."""
        for session_id in self._by_owner.get(owner, ()):
            return self._sessions[session_id]
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now_ms - oldest.last_used_ms >= self._eviction_ms:
            return oldest
        if is_follower:
            return next((session for session in self._sessions.values() if not session.is_follower), None)
        return None

    def _give_to(self, owner: object, session: Session) -> None:
        self._take_from_owner(session)
        session.owner = owner
        self._by_owner.setdefault(owner, {})[session.session_id] = None

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.is_open = False
            self.partition_count -= len(session.wanted)
            self._take_from_owner(session)
            for wanted in session.wanted.values():
                wanted.wake()

    def _take_from_owner(self, session: Session) -> None:
        owned = self._by_owner.get(session.owner)
        if owned is not None:
            owned.pop(session.session_id, None)
            if not owned:
                del self._by_owner[session.owner]
