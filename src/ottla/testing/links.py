"""Links between the brokers of a test cluster, which a test can cut."""

import asyncio

from ottla.broker.cluster.peers import Answer, Call, Lane, R
from ottla.errors import NetworkException
from ottla.metadata.image import Image
from ottla.server.links import Link
from ottla.server.peers import BrokerPeers
from ottla.wire.schema import Request

UNREACHABLE_S = 0.02  # how soon a request over a cut link fails, as if the host could not be reached


class Links:
    """Which pairs of brokers cannot reach each other. Clients still reach every one of them."""

    def __init__(self) -> None:
        self._cut: frozenset[frozenset[int]] = frozenset()

    def cut(self, one: int, other: int) -> None:
        self._cut |= {frozenset((one, other))}

    def restore(self, one: int | None = None, other: int | None = None) -> None:
        """That link, all links of `one`, or all."""
        ends = {end for end in (one, other) if end is not None}
        self._cut = frozenset(pair for pair in self._cut if not ends <= pair)

    def are_cut(self, one: int, other: int) -> bool:
        return frozenset((one, other)) in self._cut


class CuttablePeers(BrokerPeers):
    def __init__(self, links: Links, node_id: int, image: Image, link: Link) -> None:
        super().__init__(node_id, image, link)
        self._links = links

    def ask(
        self,
        broker_id: int,
        lane: Lane,
        request: Request[R],
        version: int,
        answer: Answer[R],
        *,
        timeout_ms: int,
    ) -> Call:
        if not self._links.are_cut(self._node_id, broker_id):
            return super().ask(broker_id, lane, request, version, answer, timeout_ms=timeout_ms)
        error = NetworkException(f"the link to broker {broker_id} is cut")
        return asyncio.get_running_loop().call_later(UNREACHABLE_S, answer, error)

    def drop_cut_links(self) -> None:
        """What is under way over a link when it is cut fails at once."""
        for broker_id in {peer_id for peer_id, _ in self._connections}:
            if self._links.are_cut(self._node_id, broker_id):
                self.drop(broker_id)
