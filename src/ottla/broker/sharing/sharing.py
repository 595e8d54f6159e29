"""All that share groups need of a broker, made with the first of them."""

import logging

from ottla.broker.cluster.metadata import Metadata
from ottla.broker.cluster.peers import Peers
from ottla.broker.partitions.replicas import Replicas
from ottla.broker.settings import Settings
from ottla.broker.sharing.dead_letters import DeadLetters
from ottla.broker.sharing.loaded import SharePartitions
from ottla.broker.sharing.persister import Persister
from ottla.broker.sharing.sessions import ShareSession, ShareSessions
from ottla.broker.sharing.states import ShareStateShards
from ottla.broker.waits import Running, Wait
from ottla.ports import Clock

logger = logging.getLogger("ottla.share")


class Sharing:
    def __init__(
        self,
        node_id: int,
        metadata: Metadata,
        shards: ShareStateShards,
        peers: Peers,
        clock: Clock,
        settings: Settings,
        replicas: Replicas,
    ) -> None:
        self.persister = Persister(node_id, metadata, shards, peers, settings)
        letters = DeadLetters(node_id, metadata, replicas, peers, clock, settings)
        self.partitions = SharePartitions(
            metadata.image, self.persister, letters, clock, lambda: settings.now
        )
        self.sessions = ShareSessions(settings.now.group_share_max_share_sessions)

    def on_disconnected(self, owner: object) -> None:
        for session in self.sessions.on_disconnected(owner):
            self.end(session)

    def end(self, session: ShareSession) -> Wait[None]:
        """The session is over: what its member holds comes back. The wait ends when that is written, or refused: then
        the locks' time frees it. Nothing here depends on anybody who waits."""
        ended: Wait[None] = Wait()

        def finished(_: object, error: BaseException | None) -> None:
            if error is not None:
                logger.error("the session of %s in %s", session.member_id, session.group_id, exc_info=error)
            ended.set(None)

        Running(self._end(session), finished).step()
        return ended

    async def _end(self, session: ShareSession) -> None:
        try:
            await self.partitions.release(session.group_id, session.member_id)
        finally:
            self.sessions.on_released(session)
        if not self.sessions.has_group(session.group_id):
            self.partitions.forget_idle(session.group_id)
