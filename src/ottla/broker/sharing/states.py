"""The share coordinator's shards at this broker."""

import logging
from typing import TYPE_CHECKING

from ottla.broker.cluster.metadata import Metadata
from ottla.broker.coordinators.shards import Carrier, Coordinator, LocalShard
from ottla.broker.settings import Settings
from ottla.broker.waits import Running, pause
from ottla.coordination.shard import Shard
from ottla.metadata.image import Image
from ottla.metadata.names import SHARE_GROUP_STATE
from ottla.metadata.records import Record, TopicDeleted
from ottla.ports import Clock, TimerHandle
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.coordination.share.state import ShareEffects, ShareStates


logger = logging.getLogger("ottla.share")

# States. Their groups' names have at most 32,767 characters: together less than max.message.bytes.
DELETED_AT_ONCE = 20


class ShareStateShards(Coordinator["ShareStates", "ShareEffects"]):
    """The share coordinator's shards at this broker."""

    def __init__(self, metadata: Metadata, clock: Clock, settings: Settings) -> None:
        super().__init__(SHARE_GROUP_STATE, metadata.image, clock, self._machine_of)
        self._settings = settings
        self._pruning: TimerHandle | None = None
        self._will_look = False  # for states of deleted topics
        metadata.image.watch(self._on_record)

    def count(self) -> int:
        """States of all shards here."""
        return sum(len(shard.machine) for shard in self.shards.values())

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
                Running(self._prune(shard), _pruned).step()
        if self.shards:
            self._prune_later()

    async def _prune(self, shard: "LocalShard[ShareStates, ShareEffects]") -> None:
        # Also those of topics that were deleted while the shard was nowhere, or could not write.
        await _forget_deleted(shard, self._image, self._clock)
        await _prune(shard)

    def _on_record(self, record: Record) -> None:
        """Many topics may be deleted at once: they are looked for once, when all of them are."""
        if isinstance(record, TopicDeleted) and self.shards and not self._will_look:
            self._will_look = True
            self._clock.call_soon(self._forget_deleted)

    def _forget_deleted(self) -> None:
        self._will_look = False
        for shard in list(self.shards.values()):
            if shard.is_loaded:
                Running(_forget_deleted(shard, self._image, self._clock), _forgotten).step()

    def _machine_of(
        self, shard: "LocalShard[ShareStates, ShareEffects]"
    ) -> "tuple[ShareStates, Carrier[ShareEffects]]":
        from ottla.coordination.share.codec import ShareCodec
        from ottla.coordination.share.state import ShareStates

        updates_max = self._settings.now.share_coordinator_snapshot_update_records_per_snapshot
        states = ShareStates(updates_max)
        return states, Shard(states, ShareCodec(), shard, self._clock)


async def _forget_deleted(shard: "LocalShard[ShareStates, ShareEffects]", image: Image, clock: Clock) -> None:
    """A topic that is created again has another id: nobody asks for these states again."""
    keys = shard.machine.of_deleted_topics(image.topics_by_id)
    for at in range(0, len(keys), DELETED_AT_ONCE):
        some = keys[at : at + DELETED_AT_ONCE]
        await shard.call(lambda machine, token, now_ms, some=some: machine.on_delete(some, token))  # type: ignore[misc]
        await pause(clock, 0)  # others have a turn


def _forgotten(_: object, error: BaseException | None) -> None:
    if error is not None:
        logger.info("states of deleted topics are deleted when __share_group_state is pruned: %s", error)


async def _prune(shard: "LocalShard[ShareStates, ShareEffects]") -> None:
    low: int = await shard.call(lambda machine, token, now_ms: machine.on_prune(token, now_ms))
    log = shard.partition.leader_log()
    if low > log.log_start_offset:
        log.delete_records_before(low)


def _pruned(_: object, error: BaseException | None) -> None:
    if error is not None:
        logger.info("__share_group_state is pruned another time: %s", error)
