"""Markers: the decision on a transaction, written to every partition that it has written to."""

from collections.abc import Callable, Mapping

from ottla import errors
from ottla.broker.coordinators.groups import Groups
from ottla.broker.partitions.replicas import Replicas
from ottla.broker.requests.refusals import protocol_error
from ottla.broker.transactions.elsewhere import Elsewhere, Settle
from ottla.broker.transactions.gates import Gates, TopicPartition
from ottla.coordination.transactions.markers import Markers
from ottla.errors import ProtocolError
from ottla.metadata.image import Image
from ottla.metadata.names import CONSUMER_OFFSETS
from ottla.ports import Clock
from ottla.replication.partition import Partition


class MarkerWriter:
    def __init__(
        self,
        image: Image,
        clock: Clock,
        replicas: Replicas,
        gates: Gates,
        groups: Groups,
        elsewhere: Elsewhere,
    ) -> None:
        self._image, self._clock, self._replicas = image, clock, replicas
        self._gates, self._groups, self._elsewhere = gates, groups, elsewhere

    def write_all(self, markers: Markers, written: Callable[[Mapping[TopicPartition, int]], None]) -> None:
        """To every partition, here or elsewhere. `written(error codes)` once all of them have committed it."""
        results: dict[TopicPartition, int] = {}
        open_ones = set(markers.partitions)

        def settle(key: TopicPartition, code: int) -> None:
            results[key] = code
            open_ones.discard(key)
            if not open_ones:
                # Not from within the shard's own step: it may still be carrying out what sent us.
                self._clock.call_soon(lambda: written(results))

        for leader, partitions in self._elsewhere.by_leader(markers.partitions).items():
            if leader != self._elsewhere.node_id:
                self._elsewhere.write_markers(leader, markers, partitions, settle)
                continue
            for key in partitions:
                self.write(key, markers, settle)

    def write(self, key: TopicPartition, markers: Markers, settle: Settle) -> None:
        """To a partition here. `settle(partition, error code)` once it is committed; a partition that was deleted
        needs no marker."""
        if self._image.partition(*key) is None:
            settle(key, errors.NONE)
            return
        try:
            partition = self._replicas.partition(*key)
            self._gates.of(key, markers.producer_id)[0].on_marker(markers.producer_id)
            offset = partition.append_marker(
                markers.producer_id,
                markers.producer_epoch,
                markers.committed,
                markers.coordinator_epoch,
                now_ms=self._clock.now_ms(),
                transaction_version=markers.transaction_version,
            )
        except Exception as failure:
            attempt = f"writing a marker to partition {key[1]} of {key[0]}"
            settle(key, protocol_error(failure, attempt).code)
            return
        topic, index = key
        if topic == CONSUMER_OFFSETS and index in self._groups.shards:
            self._groups.shards[index].on_marker(
                markers.producer_id, markers.producer_epoch, markers.committed, offset
            )
        _when_committed(partition, offset + 1, partition.tenure, lambda code: settle(key, code))


def _when_committed(
    partition: Partition, next_offset: int, tenure: int, settle: Callable[[int], None]
) -> None:
    """`settle(error code)` once it is committed, or leadership went."""

    def look() -> None:
        try:
            if not partition.is_committed(next_offset, tenure):
                partition.committed.add(next_offset, look)
                return
        except ProtocolError as error:
            settle(error.code)
        else:
            settle(errors.NONE)

    look()
