"""All that share groups need of a broker, made with the first of them."""

from ottla.broker.cluster.metadata import Metadata
from ottla.broker.cluster.peers import Peers
from ottla.broker.partitions.replicas import Replicas
from ottla.broker.settings import Settings
from ottla.broker.sharing.dead_letters import DeadLetters
from ottla.broker.sharing.partitions import SharePartitions
from ottla.broker.sharing.persister import Persister
from ottla.broker.sharing.sessions import ShareSessions
from ottla.broker.sharing.states import ShareStateShards
from ottla.ports import Clock


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
            self.partitions.release(session.group_id, session.member_id)
