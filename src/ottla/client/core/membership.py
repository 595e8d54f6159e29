"""A consumer's life in its group: which protocol, which topics, and what each rebalance asks of it."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass

from ottla.client.core.cluster import Cluster
from ottla.client.core.committer import Committer
from ottla.client.core.group.member import Member
from ottla.client.core.metrics import ConsumerCounts
from ottla.client.core.names import missing_topic
from ottla.client.core.offsets import left_group
from ottla.client.core.places import Places
from ottla.client.core.runtime import Shell
from ottla.client.errors import NotSupported
from ottla.client.settings import ConsumerSettings
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.errors import UnknownMemberId

Listener = Callable[[frozenset[TopicPartition]], object]
STEP_S = 0.5  # how long one wait lasts at most: Ctrl-C gets a look
TOPICS_EVERY_S = 5.0  # how often a pattern of ours is held against the topics


@dataclass(slots=True)
class Listeners:
    """Called inside `poll`, where the user calls it; they may commit and seek. With `ottla.aio` also coroutines."""

    on_assigned: Listener | None = None
    on_revoked: Listener | None = None
    on_lost: Listener | None = None

    async def assigned(self, partitions: frozenset[TopicPartition]) -> None:
        await _tell(self.on_assigned, partitions)

    async def revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await _tell(self.on_revoked, partitions)

    async def lost(self, partitions: frozenset[TopicPartition]) -> None:
        """Somebody else may have them already, so a commit would be refused. As in Kafka: told as revoked."""
        await _tell(self.on_lost or self.on_revoked, partitions)


async def _tell(listener: Listener | None, partitions: frozenset[TopicPartition]) -> None:
    result = None if listener is None else listener(partitions)
    if inspect.isawaitable(result):
        await result


class Membership:
    def __init__(
        self, shell: Shell, cluster: Cluster, places: Places, committer: Committer, counts: ConsumerCounts
    ) -> None:
        assert isinstance(cluster.settings, ConsumerSettings)
        self._settings = cluster.settings
        self._shell, self._cluster, self._places = shell, cluster, places
        self._now = cluster.runtime.now
        self._committer, self._counts = committer, counts
        self._member: Member | None = None
        self._listeners = Listeners()
        self._topics: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None  # ours to evaluate
        self._remote_pattern: str | None = None  # the broker's
        self._look_again = 0.0

    @property
    def is_joined(self) -> bool:
        return self._member is not None

    @property
    def is_settled(self) -> bool:
        """Whether `see_to` has nothing to do; the user counts as heard from."""
        if self._member is None:
            return True
        self._member.polled(self._now())
        return self._pattern is None and self._member.is_settled

    @property
    def topics(self) -> frozenset[str]:
        """Of a pattern that the broker evaluates only those that were assigned are known."""
        return self._topics or frozenset(p.topic for p in self._places.assigned)

    def metadata(self) -> GroupMetadata | None:
        return self._member.metadata() if self._member is not None else None

    def committing_as(self) -> GroupMetadata | None:
        """As whom to commit. Who has left must not: the broker would take it for somebody outside."""
        member = self._member
        if member is not None and (member.lost or not member.is_member):
            raise UnknownMemberId(left_group(member.group))
        return self.metadata()

    async def subscribe(
        self, topics: frozenset[str], pattern: str | re.Pattern[str] | None, listeners: Listeners
    ) -> None:
        self._listeners = listeners
        self._topics = topics
        if self._member is None:
            self._member = await self._shell.home(self._new_member())
        self._pattern = self._remote_pattern = None
        here = not self._settings.exclude_internal_topics  # the broker leaves internal topics out
        if isinstance(pattern, str) and self._member.takes_patterns and not here:
            self._remote_pattern = pattern
        elif pattern is not None:
            self._pattern = re.compile(pattern)
        await self._tell_topics()

    async def see_to(self, deadline: float) -> None:
        """What `poll` owes the group. Costs next to nothing while nothing has changed."""
        member = self._member
        if member is None:
            return
        member.polled(self._now())
        if self._pattern is not None and self._now() >= self._look_again:
            await self._tell_topics()
        if member.is_settled:
            return
        if member.failure is not None:
            failure, self._member = member.failure, None
            raise failure
        if member.lost:
            gone = member.owned
            await self._places.assign(frozenset())
            self._forget(gone)
            await self._listeners.lost(gone)
            await self._places.on_loop(member.reached, frozenset())
        if member.must_revoke_all:
            await self._reach(member, frozenset())
        timeout_s = max(0.0, min(deadline - self._now(), STEP_S))
        target = await self._shell.home(member.target(timeout_s))
        if target is not None:
            await self._reach(member, target)

    async def leave(self) -> None:
        """Commits if that is automatic, tells the listener, says good-bye."""
        if self._committer.is_automatic:
            await self._committer.commit_quietly(self._places.assigned)
        member = self._member
        if member is None:
            return
        try:
            if member.owned:
                await self._listeners.revoked(member.owned)
        finally:
            self._member = None
            await self._shell.home(member.leave())

    async def _reach(self, member: Member, target: frozenset[TopicPartition]) -> None:
        """Lets go first (committed and told), then takes on."""
        revoked, added = member.owned - target, target - member.owned
        self._counts.rebalances += 1
        if revoked:
            if self._committer.is_automatic:
                await self._committer.commit_quietly(revoked)
            await self._listeners.revoked(revoked)
        await self._places.assign(target, await self._places.committed(added))
        self._forget(revoked)
        await self._places.on_loop(member.reached, target)
        if added or not revoked:
            await self._listeners.assigned(added)

    def _forget(self, partitions: frozenset[TopicPartition]) -> None:
        for partition in partitions:
            self._committer.forget(partition)

    async def _tell_topics(self) -> None:
        assert self._member is not None
        if self._pattern is not None:
            self._look_again = self._now() + min(self._settings.metadata_max_age_ms / 1000, TOPICS_EVERY_S)
            await self._refresh(None)
            pattern, known = self._pattern, self._cluster.image.topics.values()
            excluded = self._settings.exclude_internal_topics
            self._topics = frozenset(
                t.name for t in known if not (t.internal and excluded) and pattern.fullmatch(t.name)
            )
        elif self._topics:
            await self._refresh(self._topics)
            for name in sorted(self._topics - self._cluster.image.topics.keys()):
                self._cluster.troubles.report(missing_topic(name), "subscribed and waiting", attempts=2)
        await self._places.on_loop(self._member.subscribe, self._topics, self._remote_pattern)

    async def _refresh(self, topics: frozenset[str] | None) -> None:
        create = topics is not None and self._settings.allow_auto_create_topics
        await self._shell.home(
            self._cluster.retrying(
                lambda: self._cluster.refresh(topics, create=create), "the topics could not be looked up"
            )
        )

    async def _new_member(self) -> Member:
        from ottla.client.core.group.classic import ClassicMember
        from ottla.client.core.group.consumer_protocol import (
            ConsumerMember,
            pattern_is_served,
            served_version,
        )

        wanted = self._settings.group_protocol
        version = await self._cluster.retrying(
            lambda: served_version(self._cluster), "the cluster's group protocols could not be asked for"
        )
        if wanted == "consumer" and version is None:
            raise NotSupported(
                "the cluster does not serve the new group protocol; set group.protocol=classic"
            )
        if wanted == "classic" or version is None:
            return ClassicMember(self._cluster, self._places.fetcher.interrupt)
        member = ConsumerMember(self._cluster, self._places.fetcher.interrupt)
        member.takes_patterns = pattern_is_served(version)
        return member
