"""The share coordinator's shards at this broker."""

from typing import TYPE_CHECKING

from ottla.broker.cluster.metadata import Metadata
from ottla.broker.coordinators.shards import Coordinator
from ottla.broker.settings import Settings
from ottla.metadata.names import SHARE_GROUP_STATE
from ottla.ports import Clock
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.coordination.share.codec import ShareCodec
    from ottla.coordination.share.state import ShareStates


class ShareStateShards(Coordinator["ShareStates"]):
    """The share coordinator's shards at this broker."""

    def __init__(self, metadata: Metadata, clock: Clock, settings: Settings) -> None:
        super().__init__(SHARE_GROUP_STATE, metadata.image, clock, self._machine_of)
        self._settings = settings

    def _machine_of(self, _: Partition) -> "tuple[ShareStates, ShareCodec]":
        from ottla.coordination.share.codec import ShareCodec
        from ottla.coordination.share.state import ShareStates

        updates_max = self._settings.now.share_coordinator_snapshot_update_records_per_snapshot
        return ShareStates(updates_max), ShareCodec()
