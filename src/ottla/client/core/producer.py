"""A producer without its callers: routes, batches, the sender. Its shells add how callers wait."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple

from ottla.client.core.accumulator import Accumulator, Admission, Queue, R
from ottla.client.core.cluster import Cluster, Topic
from ottla.client.core.deliveries import ROW_OVERHEAD_BYTES, ROW_OVERHEAD_BYTES_MAX, Row, headers_size
from ottla.client.core.identity import Identity
from ottla.client.core.partitioner import Default, partitioner_for
from ottla.client.core.runtime import Monitor, Runtime, Task
from ottla.client.core.sender import Sender
from ottla.client.core.transactions import Transactions
from ottla.client.errors import BufferFull, IllegalState
from ottla.client.serializers import by_type, serializer_for
from ottla.client.settings import ProducerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.errors import MessageTooLarge, UnknownTopicOrPartition
from ottla.wire.kernel import Lane

ROUTE_S = 1.0
Headers = Iterable[tuple[str, bytes | None]]
Kept = tuple[tuple[str, bytes | None], ...]


class Route(NamedTuple):
    """Where records of a topic may go, as of lately."""

    topic: Topic
    queues: list[Queue]  # by partition
    until: float
    lane: Lane


class Place(NamedTuple):
    """Where a record goes that no lane has taken: it begins a batch."""

    queue: Queue
    row: Row
    size: int
    admit: Admission


class ProducerCore(Generic[R]):
    def __init__(
        self,
        settings: ProducerSettings,
        runtime: Runtime,
        receipt: type[R],
        monitor: Callable[[], Monitor],
        call_soon: Callable[[Callable[[], object]], object],
    ) -> None:
        self.settings = settings
        self._runtime = runtime
        self._key_bytes = serializer_for(settings.key_serializer)
        self._value_bytes = serializer_for(settings.value_serializer)
        self._value_headers = getattr(settings.value_serializer, "headers_of", None)
        self._key_headers = getattr(settings.key_serializer, "headers_of", None)
        self._partitioner = partitioner_for(settings.partitioner, settings.batch_size, runtime.chance)
        self._accumulator = Accumulator(
            batch_size=min(settings.batch_size, settings.max_request_size),
            linger_ms=settings.linger_ms,
            memory_max=settings.buffer_memory,
            receipt=receipt,
            now=runtime.now,
            date=runtime.date,
            monitor=monitor,
            call_soon=call_soon,
        )
        self._cluster = Cluster(settings, runtime)
        self._transactional = settings.transactional_id is not None
        self._identity = (Transactions if self._transactional else Identity)(
            self._cluster, self._accumulator.all_queues
        )
        self._sender = Sender(self._cluster, self._accumulator, self._identity)
        self._sending: Task[None] | None = None
        self._routes: dict[str, Route] = {}
        self._is_traced = settings.ottla_trace_context
        # Bytes and nothing need no call of ours on their way into the batch.
        self._direct = self._key_bytes is by_type and self._value_bytes is by_type

    # -- one record --------------------------------------------------------------------------------

    def _with_schemas(self, headers: Kept, value: Any, key: Any) -> Kept:
        """Serializers may name the schemas of values and keys in headers."""
        for headers_of, part in ((self._value_headers, value), (self._key_headers, key)):
            if headers_of is not None and part is not None:
                headers = (*headers, *headers_of(part))
        return headers

    def _place(
        self,
        route: Route,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: Kept,
        timestamp: int | None,
        admit: Admission,
    ) -> R | Place:
        """The way of a record that a lane does not take at once: checked, its partition chosen."""
        size = len(value or b"") + len(key or b"") + headers_size(headers)
        if size + ROW_OVERHEAD_BYTES > self.settings.max_request_size:
            limit = self.settings.max_request_size
            raise MessageTooLarge(
                f"the record takes {size + ROW_OVERHEAD_BYTES} bytes, max.request.size is {limit}"
            )
        admit()
        chosen = self._choose(route, key, size) if partition is None else partition
        count = len(route.queues)
        if not 0 <= chosen < count:
            raise UnknownTopicOrPartition(f"{route.topic.name} has {count} partitions, not one {chosen}")
        sent: R | None = route.lane.send(value, key, chosen, headers, timestamp)
        if sent is not None:
            return sent
        stamp = int(self._runtime.date() * 1000) if timestamp is None else timestamp
        row = Row(stamp, key, value, headers)
        return Place(route.queues[chosen], row, size + ROW_OVERHEAD_BYTES_MAX, admit)

    def _open_batch(self, placed: Place, wait_ms: int) -> R | None:
        """None: no room within `wait_ms`."""
        return self._accumulator.open(placed.queue, placed.row, placed.size, wait_ms, placed.admit)

    def _choose(self, route: Route, key: bytes | None, size: int) -> int:
        """The lane knows where it sticks; where to stick next, and any other choice, is the partitioner's."""
        if key is not None or not isinstance(self._partitioner, Default):
            return self._partitioner.partition(route.topic, key, size)
        current, bytes_left = route.lane.sticky
        if bytes_left <= 0 or current not in route.topic.partitions:
            current, bytes_left = self._partitioner.another(route.topic, current), self.settings.batch_size
        route.lane.stick(current, bytes_left - size - ROW_OVERHEAD_BYTES)
        return current

    def _buffer_full(self) -> BufferFull:
        limits = f"buffer.memory={self.settings.buffer_memory}, max.block.ms={self.settings.max_block_ms}"
        return BufferFull(f"the buffer stayed full ({limits}): the brokers are slower than this, or away")

    # -- topics ------------------------------------------------------------------------------------

    def _fresh_route(self, name: str) -> Route | None:
        route = self._routes.get(name)
        return route if route is not None and self._runtime.date() <= route.until else None

    async def _look_up(self, name: str) -> Topic:
        create = self.settings.allow_auto_create_topics
        return await self._cluster.retrying(
            lambda: self._cluster.topic(name, create=create),
            f"records for {name} cannot be sent",
            timeout_ms=self.settings.max_block_ms,
        )

    def _take_route(self, topic: Topic) -> Route:
        """For a while: a topic may grow."""
        name, count = topic.name, len(topic.partitions)
        queues = [self._accumulator.queue_of(TopicPartition(name, index)) for index in range(count)]
        until = self._runtime.date() + ROUTE_S
        hashes = isinstance(self._partitioner, Default)
        lane = self._accumulator.lane(queues, int(until * 1000), hashes=hashes)
        before = self._routes.get(name)
        if before is not None:
            lane.stick(*before.lane.sticky)
        route = self._routes[name] = Route(topic, queues, until, lane)
        return route

    # -- the rest ----------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """Totals since the start, under Kafka's names."""
        available = self.settings.buffer_memory - self._accumulator.memory
        here = {
            "requests-in-flight": self._sender.in_flight,
            "buffer-total-bytes": self.settings.buffer_memory,
            "buffer-available-bytes": available,
            "bufferpool-wait-time-ns-total": round(self._accumulator.waited_s * 1e9),
        }
        return self._sender.counts.named() | here

    def _transactions_open(self) -> None:
        assert isinstance(self._identity, Transactions)
        self._identity.ensure_open()

    def _transactions_wanted(self) -> Transactions:
        if not isinstance(self._identity, Transactions):
            raise IllegalState("transactions need the setting transactional.id")
        return self._identity

    async def _start(self) -> None:
        if self._sending is None:
            self._sending = self._runtime.spawn(self._sender.run())

    async def _drop(self, error: Exception, *, unsent_only: bool = False) -> None:
        self._sender.fail_waiting(error, unsent_only=unsent_only)

    async def _stop(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await self._runtime.gather([self._sending])
        self._accumulator.close()
        await self._cluster.close()  # what is in flight comes back to its queue, and is dropped with the rest
        await self._sender.stop()
        await self._drop(IllegalState("the producer was closed"))


def exact_offsets(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        TopicPartition(*partition): OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        for partition, offset in offsets.items()
    }


def member_of(group: GroupMetadata | str) -> GroupMetadata:
    return GroupMetadata(group) if isinstance(group, str) else group
