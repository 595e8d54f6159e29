"""Who waits for an offset of a partition: long polls for records, acks=all for the high watermark."""

import heapq
from collections.abc import Callable


class Ticket:
    """A place in the queue; `cancel` when the wait ends otherwise (deadline, connection gone)."""

    __slots__ = ("number", "offset", "owner", "wake")

    def __init__(self, owner: "Waiters", offset: int, number: int, wake: Callable[[], None]) -> None:
        self.owner, self.offset, self.number = owner, offset, number
        self.wake: Callable[[], None] | None = wake

    def __lt__(self, other: "Ticket") -> bool:
        return (self.offset, self.number) < (other.offset, other.number)

    def cancel(self) -> None:
        if self.wake is not None:
            self.wake = None
            self.owner.on_cancelled()


class Waiters:
    """A heap by offset. Cancelled tickets are passed over, and swept when they are the most."""

    def __init__(self) -> None:
        self._heap: list[Ticket] = []
        self._count = self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def add(self, offset: int, wake: Callable[[], None]) -> Ticket:
        """`wake` is called once, when `offset` is reached."""
        self._count += 1
        ticket = Ticket(self, offset, self._count, wake)
        heapq.heappush(self._heap, ticket)
        return ticket

    def on_reached(self, offset: int) -> None:
        heap = self._heap
        while heap and heap[0].offset <= offset:
            ticket = heapq.heappop(heap)
            wake, ticket.wake = ticket.wake, None
            if wake is None:
                self._cancelled -= 1
            else:
                wake()

    def wake_all(self) -> None:
        """The broker lost the leadership or the partition: all waiters look again."""
        heap, self._heap, self._cancelled = self._heap, [], 0
        for ticket in heap:
            wake, ticket.wake = ticket.wake, None
            if wake is not None:
                wake()

    def on_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > 16 and self._cancelled * 2 > len(self._heap):
            self._heap = [ticket for ticket in self._heap if ticket.wake is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0
