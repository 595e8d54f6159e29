"""Share sessions: which partitions a member fetches from, so that requests name only what changes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla import errors

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
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

    def turn(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        owner: object,
        added: Iterable[Place],
        forgotten: Iterable[Place],
    ) -> tuple[ShareSession, bool]:
        """The session of this request, and whether the member's former one ended with it."""
        key = (group_id, member_id)
        known = self._sessions.get(key)
        if epoch == INITIAL_EPOCH:
            if known is None and len(self._sessions) >= self._most:
                raise errors.ShareSessionLimitReached()
            session = self._sessions[key] = ShareSession(group_id, member_id, owner)
            session.partitions = dict.fromkeys(added)
            return session, known is not None
        session = self._existing(key, epoch)
        session.partitions |= dict.fromkeys(added)
        for place in forgotten:
            session.partitions.pop(place, None)
        if epoch == FINAL_EPOCH:
            del self._sessions[key]
        else:
            session.epoch = 1 if session.epoch == 2**31 - 1 else session.epoch + 1
        return session, False

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
            del self._sessions[session.group_id, session.member_id]
        return gone

    def __len__(self) -> int:
        return len(self._sessions)
