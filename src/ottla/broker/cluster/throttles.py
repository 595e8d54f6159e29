"""Limits for moves of replicas, by what the topics list as throttled; members of the ISR are never held back."""

from ottla.config.settings import Config
from ottla.metadata.image import TOPIC_RESOURCE, Image
from ottla.metadata.image import Partition as State
from ottla.replication.partition import Partition
from ottla.replication.throttle import Throttle

FOLLOWING, LEADING = "follower.replication.throttled.replicas", "leader.replication.throttled.replicas"


class Throttles:
    """One for what this broker fetches as a follower, one for what it hands out as a leader."""

    def __init__(self, node_id: int, image: Image, config: Config) -> None:
        self._node_id, self._image = node_id, image
        self._following = Throttle(config.follower_replication_throttled_rate)
        self._leading = Throttle(config.leader_replication_throttled_rate)

    def on_config(self, config: Config) -> None:
        self._following.rate = config.follower_replication_throttled_rate
        self._leading.rate = config.leader_replication_throttled_rate

    def following(self, partition: Partition) -> Throttle | None:
        """Only for a replica outside of the ISR: members of the ISR must keep up."""
        state = partition.state
        if self._node_id in state.isr or not self._is_listed(FOLLOWING, state):
            return None
        return self._following

    def leading(self, partition: Partition, replica_id: int) -> Throttle | None:
        """For what the follower `replica_id` takes from here."""
        state = partition.state
        if replica_id in state.isr or not self._is_listed(LEADING, state):
            return None
        return self._leading

    def _is_listed(self, setting: str, state: State) -> bool:
        pairs = self._image.settings(TOPIC_RESOURCE, state.topic).get(setting, "").split(",")
        return "*" in pairs or f"{state.index}:{self._node_id}" in pairs
