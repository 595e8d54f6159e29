"""A group's only member, under a name that a successor takes over: how a driver shows that it alone is in charge."""

import time
from collections.abc import Iterable, Mapping

from ottla.client.core.group.classic import ClassicMember
from ottla.client.errors import TimedOut
from ottla.client.session import Session
from ottla.client.settings import ConsumerSettings
from ottla.client.values import GroupMetadata
from ottla.errors import UnknownMemberId

_STEP_S = 0.5


class StaticMember:
    """Joins with `group.instance.id`; heartbeats in the background. Once it is replaced it never rejoins."""

    def __init__(self, settings: Mapping[str, object], group: str, instance: str) -> None:
        wanted = {**settings, "group.id": group, "group.instance.id": instance, "group.protocol": "classic"}
        self.settings = ConsumerSettings.parse(wanted)
        self._session = Session("static member", self.settings)
        self._cluster = self._session.cluster()
        self._member: ClassicMember | None = None

    def join(self, topics: Iterable[str], timeout_s: float = 60) -> None:
        """Replaces an earlier member of the same name. The topics are only those whose offsets are to be kept."""
        deadline = time.monotonic() + timeout_s
        self._member = self._session.run(self._begin(frozenset(topics)))
        while not self._member.is_settled:
            self._raise_failure()
            if time.monotonic() > deadline:
                raise TimedOut(f"group {self._member.group} could not be joined within {timeout_s} s")
            self._session.run(self._settle(self._member))

    def metadata(self) -> GroupMetadata:
        """As whom to commit; raises what ended the membership."""
        assert self._member is not None, "join first"
        self._raise_failure()
        self._member.polled(self._cluster.runtime.now())
        if self._member.lost:
            raise UnknownMemberId(f"group {self._member.group}: the session has ended")
        if not self._member.is_settled:
            self._session.run(self._settle(self._member))
        return self._member.metadata()

    def close(self) -> None:
        """Without a word to the group: a successor takes over, or the session ends by itself."""
        self._session.close()

    def _raise_failure(self) -> None:
        if self._member is not None and self._member.failure is not None:
            raise self._member.failure

    async def _begin(self, topics: frozenset[str]) -> ClassicMember:
        member = ClassicMember(self._cluster, _nothing)
        member.subscribe(topics, None)
        return member

    async def _settle(self, member: ClassicMember) -> None:
        if member.must_revoke_all:
            member.reached(frozenset())
        target = await member.target(_STEP_S)
        if target is not None:
            member.reached(target)


def _nothing() -> None:
    """Nobody waits for a poll: `metadata` looks whenever it is asked."""
