"""The gates of partitions that transactions write to; see `coordination.transactions.gate`."""

from ottla.broker.partitions.replicas import Replicas
from ottla.coordination.transactions.gate import Gate
from ottla.replication.partition import Partition

TopicPartition = tuple[str, int]


class Gates:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._gates: dict[TopicPartition, tuple[int, Gate]] = {}  # with the leader epoch they are good for
        replicas.watch(self._on_partition)

    def _on_partition(self, key: TopicPartition, partition: Partition | None) -> None:
        """A topic of the same name begins at the same leader epoch: its partitions must not get these gates."""
        if partition is None:
            self._gates.pop(key, None)

    def of(self, key: TopicPartition, producer_id: int) -> tuple[Gate, int | None]:
        """The partition's gate, and the epoch of the producer's open transaction there, if there is one."""
        partition = self._replicas.partition(*key)
        epoch, gate = self._gates.get(key, (-1, None))
        if gate is None or epoch != partition.state.leader_epoch:
            gate = Gate()
            self._gates[key] = partition.state.leader_epoch, gate
        producers = partition.leader_log().producers
        if producer_id not in producers.open_transactions:
            return gate, None
        return gate, producers.entries[producer_id].epoch
