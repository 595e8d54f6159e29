"""Keeps a fetcher busy for every broker that leads partitions of which this one has a replica."""

import logging
from typing import TYPE_CHECKING

from ottla.broker.cluster.peers import Peers
from ottla.broker.cluster.throttles import Throttles
from ottla.config.settings import Config
from ottla.metadata.image import Image
from ottla.ports import Clock
from ottla.replication.partition import Key, Partition, key_of

if TYPE_CHECKING:
    from ottla.broker.cluster.pump import Pump

logger = logging.getLogger("ottla.replication")


class Followers:
    """Starts and stops fetching from leaders as partitions are created, changed and removed."""

    def __init__(
        self, node_id: int, image: Image, clock: Clock, peers: Peers, config: Config, throttles: Throttles
    ) -> None:
        self._node_id, self._image, self._clock, self._peers = node_id, image, clock, peers
        self._config, self._throttles = config, throttles
        self._pumps: dict[int, Pump] = {}
        self._followed: dict[tuple[str, int], tuple[Key, int]] = {}  # by name: key and leader
        self._closed = False

    def on_partition(self, name: tuple[str, int], partition: Partition | None) -> None:
        """Follow its leader, if it is here and another broker leads it."""
        before = self._followed.get(name)
        leader = partition.state.leader if partition is not None and partition.log is not None else -1
        follows = partition is not None and leader not in (-1, self._node_id)
        now = (key_of(partition), leader) if follows and partition is not None else None
        if before is not None and before != now:
            del self._followed[name]
            self._pumps[before[1]].leave(before[0])
        if now is not None and partition is not None and not self._closed:
            self._followed[name] = now
            self._pump(leader).follow(partition)

    def close(self) -> None:
        self._closed = True
        for pump in self._pumps.values():
            pump.close()

    def _pump(self, leader: int) -> "Pump":
        pump = self._pumps.get(leader)
        if pump is None:
            from ottla.broker.cluster.pump import Pump, limits_of  # a broker that is alone follows nobody
            from ottla.replication.fetcher import Fetcher

            limits = limits_of(self._config)
            fetcher = Fetcher(
                self._node_id,
                leader,
                limits,
                lambda line: logger.warning("%s", line),
                self._throttles.following,
            )
            pump = self._pumps[leader] = Pump(
                self._node_id, self._image, self._clock, self._peers, fetcher, self._config
            )
        return pump
