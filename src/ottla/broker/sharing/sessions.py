"""Share sessions: which partitions a member fetches from, so that requests name only what changes."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ottla import errors

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
PLACES_MAX = 250_000  # in all sessions: some forty megabytes
Place = tuple[bytes, int]  # topic id, partition


@dataclass(slots=True)
class ShareSession:
    group_id: str
    member_id: str
    owner: object  # the connection
    epoch: int = 1  # of the next request
    partitions: dict[Place, None] = field(default_factory=dict)  # in the order in which they came

    def rotated(self) -> list[Place]:
        """All of them; another one is first each time, so that each is heard."""
        places = list(self.partitions)
        if not places:
            return []
        at = self.epoch % len(places)
        return places[at:] + places[:at]


class ShareSessions:
    def __init__(self, most: int) -> None:
        self._most = most
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._places = 0  # of all sessions
        self._by_group: dict[str, int] = {}  # sessions, and those that have ended and release what they hold

    def turn(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        owner: object,
        added: Collection[Place],
        forgotten: Iterable[Place],
        *,
        partitions_max: int = PLACES_MAX,
    ) -> tuple[ShareSession, bool]:
        """The session of this request, and whether the member's former one ended with it."""
        key = (group_id, member_id)
        known = self._sessions.get(key)
        if epoch == INITIAL_EPOCH:
            if known is None and len(self._sessions) >= self._most:
                raise errors.ShareSessionLimitReached()
            session = ShareSession(group_id, member_id, owner)
            self._add(session, added, partitions_max)
            if known is not None:
                self._places -= len(known.partitions)
            else:
                self._by_group[group_id] = self._by_group.get(group_id, 0) + 1
            self._sessions[key] = session
            return session, known is not None
        session = self._existing(key, epoch)
        self._add(session, added, partitions_max)
        for place in forgotten:
            if place in session.partitions:
                del session.partitions[place]
                self._places -= 1
        if epoch == FINAL_EPOCH:
            self._end(session)
        else:
            session.epoch = 1 if session.epoch == 2**31 - 1 else session.epoch + 1
        return session, False

    def _add(self, session: ShareSession, added: Collection[Place], partitions_max: int) -> None:
        """Names of partitions that do not exist are kept too, for they may yet: so many of them and no more."""
        before = len(session.partitions)
        if before + len(added) > partitions_max:
            raise errors.InvalidRequest(
                f"a share session of {before + len(added)} partitions; there are not so many"
            )
        if self._places + len(added) > PLACES_MAX:
            raise errors.ShareSessionLimitReached()
        session.partitions |= dict.fromkeys(added)
        self._places += len(session.partitions) - before

    def _end(self, session: ShareSession) -> None:
        self._places -= len(session.partitions)
        del self._sessions[session.group_id, session.member_id]

    def _existing(self, key: tuple[str, str], epoch: int) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise errors.ShareSessionNotFound()
        if epoch not in (FINAL_EPOCH, session.epoch):
            raise errors.InvalidShareSessionEpoch()
        return session

    def on_disconnected(self, owner: object) -> list[ShareSession]:
        """The sessions that ended with the connection."""
        gone = [session for session in self._sessions.values() if session.owner is owner]
        for session in gone:
            self._end(session)
        return gone

    def on_released(self, session: ShareSession) -> None:
        """What a session that has ended held is free: the group does without it from now on."""
        left = self._by_group.pop(session.group_id) - 1
        if left:
            self._by_group[session.group_id] = left

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session here, or one that ended still releases what it held."""
        return group_id in self._by_group

    def __len__(self) -> int:
        return len(self._sessions)
