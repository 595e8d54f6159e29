"""Records gathered into batches, by partition, within a bound of memory. No I/O."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ottla.client.deliveries import Batch, Delivery, Row
from ottla.client.values import TopicPartition
from ottla.wire.batch import HEADER_BYTES


class Queue:
    """One partition's batches: being filled, waiting, on the wire; and the next sequence."""

    __slots__ = (
        "filling", "in_flight", "next_sequence", "node", "not_before_ms", "partition", "retrying", "waiting",
    )  # fmt: skip

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.filling: Batch | None = None
        self.waiting: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.node = -1  # where those in flight went
        self.next_sequence = 0
        self.retrying = False
        self.not_before_ms = 0

    @property
    def is_empty(self) -> bool:
        return self.filling is None and not self.waiting and not self.in_flight

    def put_back(self, batch: Batch) -> None:
        """A batch that must be sent again takes its old place: before all with higher sequences."""
        self.retrying = True
        later: list[Batch] = []
        while self.waiting and -1 < self.waiting[0].sequence < batch.sequence:
            later.append(self.waiting.popleft())
        self.waiting.appendleft(batch)
        self.waiting.extendleft(reversed(later))

    def next_batch(self, now_ms: int, node: int, in_flight_max: int) -> Batch | None:
        """What may be sent to `node` now without endangering the order."""
        if not self.waiting or now_ms < self.not_before_ms or len(self.in_flight) >= in_flight_max:
            return None
        if self.in_flight and (self.retrying or self.node != node):
            return None
        return self.waiting[0]

    def sent(self, batch: Batch, node: int) -> None:
        self.waiting.popleft()
        self.in_flight.append(batch)
        self.node = node
        self.retrying = self.retrying and bool(self.waiting) and self.waiting[0].sequence >= 0


class Accumulator:
    """Callers append from any thread; the sender takes away on its own. One lock, held briefly."""

    def __init__(
        self,
        *,
        batch_size: int,
        linger_ms: int,
        memory_max: int,
        now_ms: Callable[[], int] = lambda: int(time.monotonic() * 1000),
    ) -> None:
        self._now_ms = now_ms
        self._batch_size = batch_size
        self._linger_ms = linger_ms
        self._memory_max = memory_max
        self._memory = 0
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._flushing = 0
        self._unsettled = 0
        self.queues: dict[TopicPartition, Queue] = {}

    def queue_of(self, partition: TopicPartition) -> Queue:
        with self._lock:
            return self.queues.setdefault(partition, Queue(partition))

    def append(
        self, queue: Queue, row: Row, size: int, callback: Callable[..., Any] | None, wait_ms: int
    ) -> tuple[Delivery, bool] | None:
        """The record's future, and whether the sender must be woken. None: no room within `wait_ms`."""
        with self._lock:
            if self._memory + size > self._memory_max and not self._wait_for_room(size, wait_ms):
                return None
            self._memory += size
            batch = queue.filling
            if batch is not None and batch.size + size <= self._batch_size:
                return batch.add(row, size, callback), batch.size >= self._batch_size
            if batch is not None:
                queue.waiting.append(batch)
            batch = queue.filling = Batch(queue.partition, self._now_ms())
            self._unsettled += 1
            return batch.add(row, size, callback), True

    def _wait_for_room(self, size: int, wait_ms: int) -> bool:
        """A record larger than the whole buffer goes alone."""
        return self._room.wait_for(
            lambda: not self._memory or self._memory + size <= self._memory_max, wait_ms / 1000
        )

    def add(self, batch: Batch, wait_ms: int) -> bool:
        """Queues a batch that is whole already. False: no room within `wait_ms`."""
        size = batch.size - HEADER_BYTES
        with self._lock:
            if not self._wait_for_room(size, wait_ms):
                return False
            queue = self.queues.setdefault(batch.partition, Queue(batch.partition))
            queue.waiting.append(batch)
            self._memory += size
            self._unsettled += 1
            return True

    def close_due(self, now_ms: int) -> int | None:
        """Closes batches that are full or have lingered; when the next one is due (None: nothing gathers)."""
        due: int | None = None
        with self._lock:
            hurry = self._flushing > 0 or self._memory * 2 > self._memory_max
            for queue in self.queues.values():
                batch = queue.filling
                if batch is None:
                    continue
                ready_ms = batch.created_ms + self._linger_ms
                if hurry or now_ms >= ready_ms or batch.size >= self._batch_size:
                    queue.waiting.append(batch)
                    queue.filling = None
                else:
                    due = ready_ms if due is None else min(due, ready_ms)
        return due

    def settled(self, batch: Batch) -> None:
        """Gives a settled batch's memory back."""
        with self._lock:
            self._memory -= batch.size - HEADER_BYTES
            self._unsettled -= 1
            self._room.notify_all()

    def split(self, queue: Queue, batch: Batch) -> None:
        """A batch that is too large for the broker goes as two, in its old place and with its sequences."""
        first, second = batch.split()
        with self._lock:
            self._unsettled += 1
        queue.waiting.appendleft(second)
        queue.waiting.appendleft(first)
        queue.retrying = True

    def flush_begins(self) -> None:
        with self._lock:
            self._flushing += 1

    def flush_ends(self) -> None:
        with self._lock:
            self._flushing -= 1

    def wait_settled(self, timeout: float | None) -> bool:
        """Waits until every batch that is there now or comes meanwhile is settled."""
        with self._lock:
            return self._room.wait_for(lambda: self._unsettled == 0, timeout)

    @property
    def memory(self) -> int:
        """What is held at the moment, in bytes."""
        return self._memory

    @property
    def unsettled(self) -> int:
        return self._unsettled

    def waiting_batches(self) -> Iterator[tuple[Queue, Batch]]:
        """Everything not on the wire; filling batches are closed first."""
        with self._lock:
            for queue in self.queues.values():
                if queue.filling is not None:
                    queue.waiting.append(queue.filling)
                    queue.filling = None
        for queue in self.all_queues():
            for batch in list(queue.waiting):
                yield queue, batch

    def all_queues(self) -> list[Queue]:
        """A copy: callers may add partitions meanwhile."""
        with self._lock:
            return list(self.queues.values())
