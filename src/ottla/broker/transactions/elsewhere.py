"""Markers and questions for other brokers: a transaction's coordinator and its partitions may be apart."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from ottla import errors
from ottla.broker.cluster.peers import Lane, Peers
from ottla.broker.settings import Settings
from ottla.broker.transactions.gates import TopicPartition
from ottla.broker.waits import Wait
from ottla.coordination.transactions.markers import Markers, request_for, results_in
from ottla.metadata.image import Image
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersResponse

Settle = Callable[[TopicPartition, int], None]

WRITE_MARKERS_VERSION, ADD_PARTITIONS_VERSION = 2, 5


class Elsewhere:
    def __init__(self, image: Image, peers: Peers, settings: Settings) -> None:
        self.node_id = settings.now.node_id
        self._image, self._peers, self._settings = image, peers, settings

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Deleted partitions count as ours: `MarkerWriter.write` settles them at once."""
        partitions_of: dict[int, list[TopicPartition]] = defaultdict(list)
        for key in sorted(partitions):
            state = self._image.partition(*key)
            partitions_of[self.node_id if state is None else state.leader].append(key)
        return partitions_of

    def write_markers(
        self, leader: int, markers: Markers, partitions: list[TopicPartition], settle: Settle
    ) -> None:
        """`settle` for each, when no attempt of ours is under way any more."""

        def answered(response: WriteTxnMarkersResponse | Exception) -> None:
            codes = {}
            if not isinstance(response, Exception):
                codes = results_in(response).get(markers.producer_id, {})
            for partition in partitions:
                settle(partition, codes.get(partition, errors.NetworkException.code))

        if leader < 0:
            answered(errors.LeaderNotAvailable())
            return
        self._peers.ask(
            leader,
            Lane.MARKERS,
            request_for([(markers, partitions)]),
            WRITE_MARKERS_VERSION,
            answered,
            timeout_ms=self._settings.now.request_timeout_ms,
        )

    async def add_partitions(
        self, coordinator: int, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        """Asks the coordinator of a transaction at another broker."""
        if coordinator < 0:
            raise errors.CoordinatorNotAvailable()
        wait: Wait[AddPartitionsToTxnResponse] = Wait()
        self._peers.ask(
            coordinator,
            Lane.VERIFY,
            request,
            ADD_PARTITIONS_VERSION,
            wait.set,
            timeout_ms=self._settings.now.request_timeout_ms,
        )
        return await wait
