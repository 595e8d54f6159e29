"""Markers and questions for other brokers: the coordinator of a transaction and its partitions are apart."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla import errors
from ottla.broker.peers import Lane
from ottla.broker.waits import Wait
from ottla.coordination.transactions.markers import Markers, request_for, results_in
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

TopicPartition = tuple[str, int]
Settle = Callable[[TopicPartition, int], None]

WRITE_MARKERS_VERSION, ADD_PARTITIONS_VERSION = 2, 5


class Elsewhere:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Partitions that are gone count as ours: whoever writes markers here knows what to do with them."""
        found: dict[int, list[TopicPartition]] = defaultdict(list)
        for each in sorted(partitions):
            state = self._broker.image.partition(*each)
            found[self._broker.node_id if state is None else state.leader].append(each)
        return found

    def write_markers(
        self, leader: int, markers: Markers, partitions: list[TopicPartition], settle: Settle
    ) -> None:
        """`settle` for each, when no attempt of ours is under way any more."""

        def answered(response: WriteTxnMarkersResponse | Exception) -> None:
            told = {}
            if not isinstance(response, Exception):
                told = results_in(response).get(markers.producer_id, {})
            for each in partitions:
                settle(each, told.get(each, errors.NetworkException.code))

        if leader < 0:
            answered(errors.LeaderNotAvailable())
            return
        self._broker.peers.ask(
            leader,
            Lane.MARKERS,
            request_for([(markers, partitions)]),
            WRITE_MARKERS_VERSION,
            answered,
            timeout_ms=self._broker.config.request_timeout_ms,
        )

    async def add_partitions(
        self, coordinator: int, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        """Asks the coordinator of a transaction at another broker."""
        if coordinator < 0:
            raise errors.CoordinatorNotAvailable()
        wait: Wait[AddPartitionsToTxnResponse] = Wait()
        self._broker.peers.ask(
            coordinator,
            Lane.VERIFY,
            request,
            ADD_PARTITIONS_VERSION,
            wait.set,
            timeout_ms=self._broker.config.request_timeout_ms,
        )
        return await wait
