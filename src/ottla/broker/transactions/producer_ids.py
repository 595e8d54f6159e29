"""Producer ids: given out one by one from blocks that the controller hands to this broker."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.cluster.channel import ControllerChannel
from ottla.broker.cluster.peers import Lane
from ottla.broker.requests.refusals import protocol_error
from ottla.errors import CoordinatorLoadInProgress, NetworkException, NotController, ProtocolError, error_for
from ottla.metadata.image import Image

if TYPE_CHECKING:
    from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse

Filled = Callable[[ProtocolError | None], None]


class ProducerIds:
    """Ids of a block that were not given out when the broker stopped are lost, never given twice."""

    def __init__(self, node_id: int, image: Image, channel: ControllerChannel) -> None:
        self._node_id, self._image, self._channel = node_id, image, channel
        self._block: deque[int] = deque()
        self._waiting: list[Filled] = []

    def next_producer_id(self) -> int:
        """A retriable error while the next block is on its way: see `when_filled`."""
        if not self._block:
            raise CoordinatorLoadInProgress("producer ids are on their way")
        return self._block.popleft()

    def when_filled(self, filled: Filled) -> None:
        """Called once there is an id to take, or with the reason why there is none."""
        if self._block:
            filled(None)
            return
        self._waiting.append(filled)
        if len(self._waiting) == 1:
            try:
                self._ask()
            except BaseException:
                self._waiting.clear()  # or all who come later would wait for an answer to a question nobody asked
                raise

    def _ask(self) -> None:
        from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

        broker = self._image.brokers.get(self._node_id)
        epoch = broker.epoch if broker is not None else -1
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=epoch)
        self._channel.ask(request, 0, self._on_block, Lane.CONTROLLER)

    def _on_block(self, result: "AllocateProducerIdsResponse | Exception") -> None:
        error: ProtocolError | None = None
        if isinstance(result, Exception):
            error = protocol_error(result, "allocating producer ids")
        elif result.error_code:
            error = error_for(result.error_code)
        else:
            first = result.producer_id_start
            self._block.extend(range(first, first + result.producer_id_len))
        if isinstance(error, NetworkException | NotController):
            error = CoordinatorLoadInProgress("the controller cannot be reached")  # clients try again
        waiting, self._waiting = self._waiting, []
        for filled in waiting:
            filled(error)
