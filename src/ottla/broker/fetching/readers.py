"""Who fetches: a consumer or a follower. How much it may see, and what wakes it when it waits."""

from dataclasses import dataclass

from ottla.replication.partition import Partition
from ottla.replication.waiters import Waiters
from ottla.storage.log import Log
from ottla.wire.messages.fetch import FetchRequest

RACKS_FROM = 11
REPLICA_STATE_FROM = 15
READ_COMMITTED = 1


@dataclass(slots=True)
class Reader:
    """A consumer, or the follower `replica_id`."""

    replica_id: int
    broker_epoch: int
    read_committed: bool
    reads_anywhere: bool  # from version 11 on a consumer may be at a replica that does not lead

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0

    def log_of(self, partition: Partition, leader_epoch: int) -> Log:
        if self.is_follower or not self.reads_anywhere:
            return partition.leader_log(leader_epoch)
        return partition.readable_log(leader_epoch)

    def visible_end(self, partition: Partition, log: Log) -> int:
        if self.is_follower:
            return log.end_offset
        return partition.visible_end(log, read_committed=self.read_committed)

    def waiters(self, partition: Partition) -> Waiters:
        return (
            partition.written if self.is_follower else partition.waiters(read_committed=self.read_committed)
        )


def reader_of(request: FetchRequest, version: int) -> Reader:
    state = request.replica_state
    replica_id = state.replica_id if version >= REPLICA_STATE_FROM else request.replica_id
    return Reader(
        replica_id, state.replica_epoch, request.isolation_level == READ_COMMITTED, version >= RACKS_FROM
    )
