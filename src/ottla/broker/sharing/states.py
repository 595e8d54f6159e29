"""The share coordinator's shards at this broker."""

import logging
from typing import TYPE_CHECKING

from ottla.broker.cluster.metadata import Metadata
from ottla.broker.coordinators.shards import Coordinator, LocalShard
from ottla.broker.settings import Settings
from ottla.broker.waits import Running
from ottla.metadata.names import SHARE_GROUP_STATE
from ottla.ports import Clock, TimerHandle
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.coordination.share.codec import ShareCodec
    from ottla.coordination.share.state import ShareStates


logger = logging.getLogger("ottla.share")


class ShareStateShards(Coordinator["ShareStates"]):
    """The share coordinator's shards at this broker."""

    def __init__(self, metadata: Metadata, clock: Clock, settings: Settings) -> None:
        super().__init__(SHARE_GROUP_STATE, metadata.image, clock, self._machine_of)
        self._settings = settings
        self._pruning: TimerHandle | None = None

    def on_partition(self, index: int, partition: Partition | None) -> None:
        super().on_partition(index, partition)
        if self.shards and self._pruning is None:
            self._prune_later()

    def _prune_later(self) -> None:
        interval_ms = self._settings.now.share_coordinator_state_topic_prune_interval_ms
        self._pruning = self._clock.call_later(interval_ms, self._prune_all)

    def _prune_all(self) -> None:
        self._pruning = None
        for shard in list(self.shards.values()):
            if shard.is_loaded:
                Running(_prune(shard), _pruned).step()
        if self.shards:
            self._prune_later()

    def _machine_of(self, _: Partition) -> "tuple[ShareStates, ShareCodec]":
        from ottla.coordination.share.codec import ShareCodec
        from ottla.coordination.share.state import ShareStates

        updates_max = self._settings.now.share_coordinator_snapshot_update_records_per_snapshot
        return ShareStates(updates_max), ShareCodec()


async def _prune(shard: "LocalShard[ShareStates]") -> None:
    low: int = await shard.call(lambda machine, token, now_ms: machine.on_prune(token, now_ms))
    log = shard.partition.leader_log()
    if low > log.log_start_offset:
        log.delete_records_before(low)


def _pruned(_: object, error: BaseException | None) -> None:
    if error is not None:
        logger.info("__share_group_state is pruned another time: %s", error)
