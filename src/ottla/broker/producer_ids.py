"""Producer ids: given out one by one from blocks that the controller hands to this broker."""

from collections import deque
from collections.abc import Callable

from ottla.errors import CoordinatorLoadInProgress, ProtocolError
from ottla.metadata import brokers
from ottla.metadata.controller import Controller

Filled = Callable[[ProtocolError | None], None]


class ProducerIds:
    """Ids of a block that were not given out when the broker stopped are lost, never given twice."""

    def __init__(self, node_id: int, controller: Controller) -> None:
        self._node_id, self._controller = node_id, controller
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
            self._ask()

    def _ask(self) -> None:
        broker = self._controller.image.brokers.get(self._node_id)
        epoch = broker.epoch if broker is not None else -1
        self._controller.submit(
            lambda image, config: brokers.allocate_producer_ids(self._node_id, epoch, image), self._on_block
        )

    def _on_block(self, result: range | ProtocolError) -> None:
        error = result if isinstance(result, ProtocolError) else None
        if isinstance(result, range):
            self._block.extend(result)
        waiting, self._waiting = self._waiting, []
        for filled in waiting:
            filled(error)
