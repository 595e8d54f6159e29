"""Records gathered into batches, by partition, within a bound of memory. No I/O."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ottla.client.core.deliveries import Batch, Row
from ottla.client.core.runtime import Alone, Monitor
from ottla.client.errors import IllegalState
from ottla.client.values import TopicPartition
from ottla.wire import kernel, kernel_rows_py
from ottla.wire.batch import HEADER_BYTES

R = TypeVar("R", bound=kernel.Receipt[Batch])
Admission = Callable[[], object]


def always() -> None:
    """The admission of a record that belongs to no transaction."""


class Queue(kernel.Gate[Batch]):
    """One partition's batches: being filled, waiting, on the wire; and the next sequence."""

    __slots__ = (
        "first_missing", "in_flight", "is_known", "is_stuck", "next_sequence", "node", "not_before_ms", "partition",
        "producer", "retrying", "waiting",
    )  # fmt: skip

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.node = -1  # where those in flight went
        self.producer = (-1, -1)  # the producer id and epoch that its sequences belong to
        self.next_sequence = 0
        # The lowest sequence that was given up: maybe appended, maybe not. Batches behind it that were sent already are
        # sent again as they are, since their leader may have them; all others wait for a new epoch.
        self.first_missing = -1
        self.is_stuck = False  # the leader refuses what is behind the missing sequence: it has none of that
        # The leader has taken a batch of this producer. Until then it would take any sequence as the first one: if
        # it refused the first batch, the second must not be on its way already.
        self.is_known = False
        self.retrying = False
        self.not_before_ms = 0

    @property
    def is_empty(self) -> bool:
        return self.filling is None and not self.waiting and not self.in_flight

    def put_back(self, batch: Batch) -> None:
        """A batch that must be sent again takes its old place: before all with higher sequences."""
        self.retrying = True
        later: list[Batch] = []
        while self.waiting and _is_ahead(self.waiting[0], batch):
            later.append(self.waiting.popleft())
        self.waiting.appendleft(batch)
        self.waiting.extendleft(reversed(later))

    def is_behind_another(self, batch: Batch) -> bool:
        """Whether a batch with a lower sequence is still on its way: then this one is refused only for now."""
        earlier = [*self.in_flight, *self.waiting]
        return any(other is not batch and _is_ahead(other, batch) for other in earlier)

    def miss(self, batch: Batch) -> None:
        """A batch with a sequence was given up."""
        if self.first_missing < 0 or _comes_before(batch.sequence, self.first_missing):
            self.first_missing = batch.sequence

    def is_behind_missing(self, batch: Batch) -> bool:
        """Whether a leader refuses the batch for a sequence that never comes."""
        return self.first_missing > -1 and _comes_before(self.first_missing, batch.sequence)

    @property
    def needs_epoch(self) -> bool:
        """Whether sequences are missing, and the fate of all batches behind them is known."""
        if self.first_missing < 0 or self.in_flight:
            return False
        return self.is_stuck or not self.waiting or self.waiting[0].sequence < 0

    def restart(self, producer: tuple[int, int]) -> None:
        """Under a new epoch. Leaders that knew the producer take nothing but its beginning."""
        self.is_known = self.is_known and producer[0] == self.producer[0]
        self.producer, self.next_sequence = producer, 0
        self.first_missing, self.is_stuck, self.retrying = -1, False, False
        for batch in list(self.waiting):
            batch.sequence, batch.data = -1, None

    def next_batch(self, now_ms: int, node: int, in_flight_max: int) -> Batch | None:
        """What may be sent to `node` now without endangering the order."""
        if not self.waiting or now_ms < self.not_before_ms or len(self.in_flight) >= in_flight_max:
            return None
        if self.in_flight and (self.retrying or self.node != node or not self.is_known):
            return None
        if self.first_missing > -1 and self.waiting[0].sequence < 0:
            return None
        return self.waiting[0]

    def sent(self, batch: Batch, node: int) -> None:
        self.waiting.popleft()
        self.in_flight.append(batch)
        self.node = node
        self.retrying = self.retrying and bool(self.waiting) and self.waiting[0].sequence >= 0


class Accumulator(Generic[R]):
    """Callers append from any thread; the sender takes away on its own. One lock, held briefly.

    Most records never come here: a lane puts them into the batch that is being filled, as one step without a lock.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        linger_ms: int,
        memory_max: int,
        receipt: type[R],
        now: Callable[[], float],
        date: Callable[[], float],
        monitor: Callable[[], Monitor] = Alone,
        call_soon: Callable[[Callable[[], object]], object] = lambda call: call(),
    ) -> None:
        self._receipt, self._now, self._date, self._monitor = receipt, now, date, monitor
        self._call_soon = call_soon  # where delivery callbacks run
        self._batch_size = batch_size
        self._linger_ms = linger_ms
        self._memory_max = memory_max
        self._buffer = kernel.Room(memory_max)
        self._room = monitor()
        self._flushing = 0
        self._unsettled: set[Batch] = set()  # until their callbacks have been called
        self.waited_s = 0.0  # for room: what back-pressure has cost the callers
        self._closed = False
        self.queues: dict[TopicPartition, Queue] = {}

    def queue_of(self, partition: TopicPartition) -> Queue:
        with self._room:
            return self.queues.setdefault(partition, Queue(partition))

    def lane(self, queues: Iterable[Queue], until_ms: int, *, hashes: bool) -> kernel.Lane:
        """What callers send through, by partition. `hashes`: it chooses as Java's default partitioner."""
        arguments = (self._buffer, queues, self._receipt, until_ms, hashes, self._date)
        return kernel.Lane(*arguments) if kernel.COMPILED else _LockedLane(self._room, *arguments)

    def open(self, queue: Queue, row: Row, size: int, wait_ms: int, admit: Admission = always) -> R | None:
        """Begins a batch with a record that takes at most `size`. None: no room within `wait_ms`.

        `admit` raises if the record comes too late: its transaction has ended while it waited.
        """
        with self._room:
            if not self._take(size, wait_ms, admit):
                return None
            batch = Batch(queue.partition, int(self._now() * 1000), self._batch_size)
            batch.call_soon = self._call_soon
            try:
                receipt = self._receipt(batch, batch.add(row))
            finally:
                self._buffer.give(size - batch.rows.size)
            self._close(queue)
            queue.open(batch, batch.rows)  # never empty: who sees it may send it
            self._unsettled.add(batch)
            return receipt

    def _take(self, size: int, wait_ms: int, admit: Admission) -> bool:
        """A record larger than the whole buffer goes alone. Nobody would send what comes after the close."""

        def try_to_take() -> bool:
            if self._closed:
                raise IllegalState("the producer is closed")
            admit()  # under the lock: a transaction that begins to end now waits for the record's batch
            return self._buffer.take(size)

        taken = try_to_take()
        if not taken and wait_ms > 0:
            began = self._now()
            try:
                taken = self._room.wait_for(try_to_take, wait_ms / 1000)
            finally:
                self.waited_s += self._now() - began
        return taken

    def _close(self, queue: Queue) -> None:
        batch = queue.filling
        if batch is not None:
            queue.shut()  # nothing gets in from here on
            queue.waiting.append(batch)

    def add(self, batch: Batch, wait_ms: int, admit: Admission = always) -> bool:
        """Queues a batch that is whole already. False: no room within `wait_ms`. `admit`: as for `open`."""
        size = batch.size - HEADER_BYTES
        with self._room:
            if not self._take(size, wait_ms, admit):
                return False
            queue = self.queues.setdefault(batch.partition, Queue(batch.partition))
            queue.waiting.append(batch)
            self._unsettled.add(batch)
            return True

    def close_due(self, now_ms: int) -> int | None:
        """Closes batches that are full or have lingered; when the next one is due (None: nothing gathers)."""
        due: int | None = None
        with self._room:
            hurry = self._flushing > 0 or self._buffer.used * 2 > self._memory_max
            for queue in self.queues.values():
                batch = queue.filling
                if batch is None:
                    continue
                ready_ms = batch.created_ms + self._linger_ms
                if hurry or now_ms >= ready_ms or batch.size >= self._batch_size:
                    self._close(queue)
                else:
                    due = ready_ms if due is None else min(due, ready_ms)
        return due

    def settled(self, batch: Batch) -> None:
        """Gives a settled batch's memory back, then calls its callbacks; a flush waits for both."""
        settled = batch.just_settled()
        has_callbacks = any(batch.has_callbacks for batch in settled)
        with self._room:
            self._buffer.give(_memory(batch))
            if not has_callbacks:
                self._unsettled.difference_update(settled)
            self._room.notify_all()
        if has_callbacks:
            self._call_soon(lambda: self._call_back(settled))

    def _call_back(self, settled: list[Batch]) -> None:
        for batch in settled:
            batch.call_back()
        with self._room:
            self._unsettled.difference_update(settled)
            self._room.notify_all()

    def split(self, queue: Queue, batch: Batch) -> None:
        """A batch that is too large for the broker goes as two, in its old place and with its sequences."""
        first, second = batch.split()
        first.memory = _memory(batch) // 2
        second.memory = _memory(batch) - first.memory
        # Halves of a batch with lower sequences may wait already: these come behind them, or no leader takes any.
        queue.put_back(second)
        queue.put_back(first)

    def close(self) -> None:
        """Takes no more records; callers that wait for room are woken and fail."""
        with self._room:
            self._closed = True
            self._room.notify_all()

    def abandon(self, error: Exception) -> None:
        """In a forked child: the sender's thread is the parent's, and a lock may be held for good."""
        self._room = self._monitor()
        self._closed = True
        for batch in self._unsettled:
            batch.abandon(error)
        self._unsettled = set()

    def flush_begins(self) -> None:
        with self._room:
            self._flushing += 1

    def flush_ends(self) -> None:
        with self._room:
            self._flushing -= 1

    def wait_settled(self, timeout: float | None) -> bool:
        """Waits until every batch that was begun before this call is settled; later ones do not matter."""
        before = self.begun()
        with self._room:
            return self._room.wait_for(lambda: self.are_settled(before), timeout)

    def begun(self) -> frozenset[Batch]:
        """All batches that are not settled yet."""
        with self._room:
            return frozenset(self._unsettled)

    def are_settled(self, batches: frozenset[Batch]) -> bool:
        return batches.isdisjoint(self._unsettled)

    @property
    def memory(self) -> int:
        """What is held at the moment, in bytes."""
        return self._buffer.used

    @property
    def unsettled(self) -> int:
        return len(self._unsettled)

    def waiting_batches(self) -> Iterator[tuple[Queue, Batch]]:
        """Everything not on the wire; filling batches are closed first."""
        with self._room:
            for queue in self.queues.values():
                self._close(queue)
        for queue in self.all_queues():
            for batch in list(queue.waiting):
                yield queue, batch

    def all_queues(self) -> list[Queue]:
        """A copy: callers may add partitions meanwhile."""
        with self._room:
            return list(self.queues.values())


class _LockedLane(kernel_rows_py.Lane):
    """In plain Python a send takes several steps."""

    def __init__(self, monitor: Monitor, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._monitor = monitor

    def send(self, *arguments: Any) -> Any:
        with self._monitor:
            return super().send(*arguments)


def _is_ahead(other: Batch, batch: Batch) -> bool:
    """Whether `other` has a lower sequence. Without sequences (not idempotent) nothing is ahead of anything."""
    return other.sequence > -1 and batch.sequence > -1 and _comes_before(other.sequence, batch.sequence)


def _comes_before(sequence: int, other: int) -> bool:
    """Sequences begin again at 0 after 2^31 - 1."""
    return 0 < (other - sequence) & 0x7FFFFFFF < 1 << 30


def _memory(batch: Batch) -> int:
    return batch.size - HEADER_BYTES if batch.memory is None else batch.memory
