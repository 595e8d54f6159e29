"""Producer ids: given out one by one from blocks that the controller hands to this broker."""

from collections import deque
from collections.abc import Callable

from ottla.errors import ProtocolError
from ottla.metadata import brokers
from ottla.metadata.controller import Controller

Answer = Callable[[int | ProtocolError], None]


class ProducerIds:
    """Ids of a block that were not given out when the broker stopped are lost, never given twice."""

    def __init__(self, node_id: int, controller: Controller) -> None:
        self._node_id, self._controller = node_id, controller
        self._block = iter(range(0))
        self._waiting: deque[Answer] = deque()

    def take(self, answer: Answer) -> None:
        """The next id, at once or when the controller has answered."""
        producer_id = next(self._block, None)
        if producer_id is not None and not self._waiting:
            answer(producer_id)
            return
        self._waiting.append(answer)
        if len(self._waiting) == 1:
            self._ask()

    def _ask(self) -> None:
        broker = self._controller.image.brokers.get(self._node_id)
        epoch = broker.epoch if broker is not None else -1
        self._controller.submit(
            lambda image, config: brokers.allocate_producer_ids(self._node_id, epoch, image), self._on_block
        )

    def _on_block(self, result: range | ProtocolError) -> None:
        waiting, self._waiting = self._waiting, deque()
        if isinstance(result, range):
            self._block = iter(result)
        for answer in waiting:
            if isinstance(result, ProtocolError):
                answer(result)
            else:
                self.take(answer)
