"""Names of topics on the other side, and cycles: MirrorMaker's two replication policies. Pure."""

from dataclasses import dataclass

HEARTBEATS = "heartbeats"
_POLICIES = "org.apache.kafka.connect.mirror."
PREFIXED = "DefaultReplicationPolicy"
IDENTICAL = "IdentityReplicationPolicy"
POLICIES = {_POLICIES + name: name for name in (PREFIXED, IDENTICAL)}


@dataclass(frozen=True, slots=True)
class Naming:
    """`A.topic` for a topic of cluster A, or the same name everywhere."""

    identical: bool = False
    separator: str = "."

    def remote(self, cluster: str, topic: str) -> str:
        """The name at the target of a topic of `cluster`. Heartbeats keep their prefix under both policies."""
        if self.identical and not self.is_heartbeats(topic):
            return topic
        return f"{cluster}{self.separator}{topic}"

    def source_of(self, topic: str) -> str | None:
        """The cluster that a topic was copied from, by its name."""
        if self.identical and not self.is_heartbeats(topic):
            return None
        cluster, separator, _ = topic.partition(self.separator)
        return cluster if separator else None

    def upstream(self, topic: str) -> str:
        """The name where it was copied from."""
        return topic.partition(self.separator)[2]

    def has_passed(self, topic: str, cluster: str) -> bool:
        """Whether the topic's name says that its records come from `cluster`, over whichever way."""
        source = self.source_of(topic)
        while source is not None:
            if source == cluster:
                return True
            topic = self.upstream(topic)
            source = self.source_of(topic)
        return False

    def is_heartbeats(self, topic: str) -> bool:
        return topic == HEARTBEATS or topic.endswith(f"{self.separator}{HEARTBEATS}")

    def is_internal(self, topic: str) -> bool:
        """Topics that brokers, MirrorMaker and this mirror keep for themselves."""
        if topic.startswith(("__", "ottla-mirror.")) or topic.endswith((".internal", "-internal")):
            return True
        return topic.startswith("mm2") and topic.endswith("internal")


def offset_syncs_topic(other: str) -> str:
    return f"mm2-offset-syncs.{other}.internal"


def checkpoints_topic(source: str) -> str:
    return f"{source}.checkpoints.internal"
