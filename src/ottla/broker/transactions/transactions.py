"""Transactions on this broker: their coordinator, admission of their writes, their markers, producer ids."""

from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from ottla.broker.cluster.metadata import Metadata
from ottla.broker.cluster.peers import Peers
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.shards import Carrier, Coordinator, LocalShard
from ottla.broker.partitions.replicas import Replicas
from ottla.broker.settings import Settings
from ottla.broker.transactions.admission import Admissions
from ottla.broker.transactions.gates import Gates, TopicPartition
from ottla.broker.transactions.producer_ids import ProducerIds
from ottla.coordination.shard import Shard
from ottla.metadata.names import TRANSACTION_STATE
from ottla.ports import Clock

if TYPE_CHECKING:
    # Imported with the first transaction: most brokers never see one, and every start would pay.
    from ottla.broker.transactions.elsewhere import Elsewhere
    from ottla.broker.transactions.markers import MarkerWriter
    from ottla.coordination.transactions.machine import TransactionMachine
    from ottla.coordination.transactions.markers import Markers, TransactionEffects
    from ottla.wire.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
    )

BATCHED_VERSION = 5


class Transactions:
    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        metadata: Metadata,
        replicas: Replicas,
        groups: Groups,
        peers: Peers,
        producer_ids: ProducerIds,
    ) -> None:
        self._settings, self._clock, self._metadata = settings, clock, metadata
        self._replicas, self._groups, self._peers = replicas, groups, peers
        self.producer_ids = producer_ids
        self.gates = Gates(replicas)
        self.admissions = Admissions(self.gates, metadata, clock, self._add_partitions)
        self.coordinator: Coordinator[TransactionMachine, TransactionEffects] = Coordinator(
            TRANSACTION_STATE, metadata.image, clock, self._machine_of
        )

    @cached_property
    def markers(self) -> "MarkerWriter":
        from ottla.broker.transactions.markers import MarkerWriter

        return MarkerWriter(
            self._metadata.image, self._clock, self._replicas, self.gates, self._groups, self._elsewhere
        )

    @cached_property
    def _elsewhere(self) -> "Elsewhere":
        from ottla.broker.transactions.elsewhere import Elsewhere

        return Elsewhere(self._metadata.image, self._peers, self._settings)

    def _machine_of(
        self, shard: "LocalShard[TransactionMachine, TransactionEffects]"
    ) -> "tuple[TransactionMachine, Carrier[TransactionEffects]]":
        """The leader epoch is the coordinator's: markers of an earlier one are void."""
        from ottla.coordination.transactions.machine import TransactionMachine
        from ottla.coordination.transactions.records import TransactionRecords
        from ottla.coordination.transactions.settings import Settings as MachineSettings

        machine = TransactionMachine(
            MachineSettings.of(self._settings.now), self.producer_ids, shard.leader_epoch
        )
        return machine, Shard(machine, TransactionRecords(), shard, self._clock, partial(self._send, shard))

    def _send(self, shard: "LocalShard[TransactionMachine, TransactionEffects]", markers: "Markers") -> None:
        """Writes the markers to their partitions, and reports to the machine when all are written."""

        def written(results: Mapping[TopicPartition, int]) -> None:
            if self.coordinator.shards.get(shard.partition.state.index) is not shard:
                return  # another broker or epoch coordinates now, and sends the markers again
            shard.carry_out(shard.machine.on_markers_written(markers, results, self._clock.now_ms()))

        self.markers.write_all(markers, written)

    async def _add_partitions(
        self, transactional_id: str, request: "AddPartitionsToTxnRequest"
    ) -> "AddPartitionsToTxnResponse":
        """Asks the coordinator of the transactional id, here or at another broker."""
        index = self.coordinator.index_of(transactional_id)
        state = self._metadata.image.partition(self.coordinator.topic, index)
        if state is not None and state.leader != self._settings.now.node_id:
            return await self._elsewhere.add_partitions(state.leader, request)
        return await self.coordinator.call(
            transactional_id,
            lambda machine, token, now_ms: machine.on_add_partitions_to_txn(
                request, BATCHED_VERSION, token, now_ms
            ),
        )
