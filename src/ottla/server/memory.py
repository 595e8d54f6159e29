"""What the requests of all connections may hold, as the dispatcher asks for it."""

from collections.abc import Callable

from ottla.server.budget import Parked
from ottla.server.unsent import Unsent


class RequestMemory:
    def __init__(self, parked: Parked, unsent: Unsent) -> None:
        self.takes: Callable[[int], bool] = parked.takes
        self.park: Callable[[int], Callable[[], None]] = parked.take
        self.answer_bytes_max: Callable[[], int] = unsent.answer_bytes_max
