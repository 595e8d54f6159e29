"""The cluster as one client sees it: brokers, topics, leaders, coordinators; and the connections to them."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, TypeVar, Unpack

from ottla import errors
from ottla.client.core.dialogue import check
from ottla.client.core.names import missing_topic, topic_error
from ottla.client.core.retries import STALE_COORDINATOR, STALE_METADATA, Backoff, retrying
from ottla.client.core.runtime import Connection, Runtime, Task
from ottla.client.core.troubles import Troubles
from ottla.client.errors import BrokersUnreachable, ConnectionLost, WrongProtocol
from ottla.client.settings import Settings
from ottla.frozen import frozen
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.wire.schema import Request

T = TypeVar("T")
K = TypeVar("K")


class Versions(TypedDict, total=False):
    """What a request asks of its connection: between which versions it may be sent, and how long it waits."""

    at_least: int
    at_most: int
    timeout_ms: int | None


GROUP, TRANSACTION = 0, 1
ZERO_ID = bytes(16)
NOBODY = "Is the broker running, and bootstrap.servers right?"


@frozen
class Broker:
    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@frozen
class Partition:
    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    error_code: int = 0


@frozen
class Topic:
    name: str
    id: bytes
    internal: bool
    partitions: dict[int, Partition]
    error_code: int = 0


@dataclass(slots=True)
class Image:
    """What the last Metadata answers said. Of two leaders of a partition the higher epoch counts."""

    cluster_id: str | None = None
    controller: int = -1
    brokers: dict[int, Broker] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)

    def update(self, answer: MetadataResponse) -> None:
        self.cluster_id, self.controller = answer.cluster_id, answer.controller_id
        self.brokers = {b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in answer.brokers}
        for topic in answer.topics:
            name = topic.name if topic.name is not None else self.names.get(topic.topic_id)
            if name is None:
                continue
            if topic.error_code == errors.UnknownTopicOrPartition.code:
                self.topics.pop(name, None)
                continue
            self._keep(name, topic)

    def _keep(self, name: str, topic: MetadataResponseTopic) -> None:
        before = self.topics.get(name)
        partitions: dict[int, Partition] = {}
        for p in topic.partitions:
            new = Partition(
                p.partition_index,
                p.leader_id,
                p.leader_epoch,
                tuple(p.replica_nodes),
                tuple(p.isr_nodes),
                tuple(p.offline_replicas),
                p.error_code,
            )
            old = before.partitions.get(new.index) if before and before.id == topic.topic_id else None
            partitions[new.index] = old if old and old.leader_epoch > new.leader_epoch else new
        self.topics[name] = Topic(name, topic.topic_id, topic.is_internal, partitions, topic.error_code)
        if topic.topic_id != ZERO_ID:
            self.names[topic.topic_id] = name

    def add_brokers(self, endpoints: Iterable[Any]) -> None:
        """Where leaders are that an answer names (KIP-951)."""
        for endpoint in endpoints:
            self.brokers[endpoint.node_id] = Broker(
                endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack
            )

    def moved(self, partition: tuple[str, int], leader: int, epoch: int) -> bool:
        """Takes a refusal's hint of who leads now; whether it was news."""
        topic = self.topics.get(partition[0])
        known = topic.partitions.get(partition[1]) if topic is not None else None
        if topic is None or known is None or leader not in self.brokers or epoch <= known.leader_epoch:
            return False
        topic.partitions[partition[1]] = replace(known, leader=leader, leader_epoch=epoch, error_code=0)
        return True

    def leader_of(self, topic: str, partition: int) -> Partition:
        """The partition with its leader, or the error that asks for a refresh."""
        known = self.topics.get(topic)
        if known is None or (known.error_code and not known.partitions):
            raise topic_error(topic, known.error_code) if known else missing_topic(topic)
        if partition not in known.partitions:
            raise errors.UnknownTopicOrPartition(f"{topic} has no partition {partition}")
        known_partition = known.partitions[partition]
        if known_partition.leader < 0 or known_partition.leader not in self.brokers:
            raise errors.LeaderNotAvailable(f"{topic}-{partition} has no leader at the moment")
        return known_partition


class Cluster:
    """Connections, by broker, and the image. Everything runs on one event loop."""

    def __init__(self, settings: Settings, runtime: Runtime) -> None:
        self.settings = settings
        self.runtime = runtime
        self.image = Image()
        self.troubles = Troubles(settings.on_retry)
        self._connections: dict[tuple[str, int], Connection] = {}
        self._waiting_rooms: dict[tuple[str, int], Connection] = {}  # where answers may take their time
        self._opening: dict[object, Task[Connection]] = {}
        self._not_before: dict[tuple[str, int], tuple[float, Backoff]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._refreshing: dict[tuple[str, ...] | None, Task[None]] = {}
        self._refreshed: dict[str, float] = {}
        self._closed = False

    # -- asking ------------------------------------------------------------------------------------

    async def ask(self, request: Request[T], node: int | None = None, **options: Unpack[Versions]) -> T:
        """One request to a broker, or to any; no retry."""
        connection = await (self.any_connection() if node is None else self.connection(node))
        return await connection.ask(request, **options)

    async def ask_controller(self, request: Request[T], **options: Unpack[Versions]) -> T:
        if self.image.controller not in self.image.brokers:
            await self.refresh([])
        node = self.image.controller if self.image.controller in self.image.brokers else None
        return await self.ask(request, node, **options)

    async def ask_coordinator(
        self, kind: int, key: str, request: Request[T], **options: Unpack[Versions]
    ) -> T:
        return await self.ask(request, await self.coordinator(kind, key), **options)

    async def retrying(
        self, operation: Callable[[], Awaitable[T]], purpose: str, *, timeout_ms: int | None = None
    ) -> T:
        """Retries with fresh metadata and coordinators until `default.api.timeout.ms`."""

        def on_error(error: errors.ProtocolError, attempts: int) -> None:
            self.forget_stale(error)
            if error.retriable:
                self.troubles.report(error, purpose, attempts)

        return await retrying(
            self.runtime,
            operation,
            timeout_ms=timeout_ms or self.settings.default_api_timeout_ms,
            backoff=self.backoff(),
            purpose=purpose,
            on_error=on_error,
            silence=f"no answer (bootstrap.servers is {self.settings.bootstrap_servers})",
        )

    def backoff(self) -> Backoff:
        return Backoff(
            self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms, spread=self.runtime.chance
        )

    def forget_stale(self, error: BaseException) -> None:
        """Forgets the metadata that the error shows to be out of date; the next use asks for it."""
        if isinstance(error, STALE_METADATA):
            self._refreshed.clear()
            self.image.controller = -1
        if isinstance(error, STALE_COORDINATOR):
            self._coordinators.clear()

    # -- metadata ----------------------------------------------------------------------------------

    async def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> None:
        """Asks for these topics (None: all). Callers that ask the same at the same time share one request."""
        key = None if topics is None else (*sorted(set(topics)), *(["\0create"] if create else []))
        if key not in self._refreshing:
            self._share(self._refreshing, key, self._refresh(key, create))
        await self.runtime.shield(self._refreshing[key])

    async def topic(self, name: str, *, create: bool = False) -> Topic:
        """A topic that is known well enough, else asked for; raises what the broker says about it."""
        age = self.runtime.now() - self._refreshed.get(name, float("-inf"))
        if name not in self.image.topics or age * 1000 > self.settings.metadata_max_age_ms:
            await self.refresh([name], create=create)
        topic = self.image.topics.get(name)
        if topic is None:
            raise missing_topic(name)
        if topic.error_code:
            self._refreshed.pop(name, None)
            raise topic_error(name, topic.error_code)
        return topic

    async def leader(self, topic: str, partition: int) -> Partition:
        await self.topic(topic)
        return self.image.leader_of(topic, partition)

    async def by_leader(self, partitions: Iterable[tuple[str, int]]) -> dict[int, list[tuple[str, int]]]:
        """The partitions grouped by the broker that leads them."""
        wanted = list(partitions)
        stale = {t for t, _ in wanted if t not in self._refreshed}
        if stale:
            await self.refresh(stale)
        groups: dict[int, list[tuple[str, int]]] = {}
        for topic, partition in wanted:
            groups.setdefault((await self.leader(topic, partition)).leader, []).append((topic, partition))
        return groups

    async def _refresh(self, key: tuple[str, ...] | None, create: bool) -> None:
        names = None if key is None else [name for name in key if name != "\0create"]
        request = MetadataRequest(allow_auto_topic_creation=create)
        request.topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer = await (await self.any_connection()).ask(request, at_least=1)
        check(answer)
        if names is None:
            self.image.topics.clear()
        self.image.update(answer)
        now = self.runtime.now()
        self._refreshed.update((name, now) for name in (self.image.topics if names is None else names))

    # -- coordinators ------------------------------------------------------------------------------

    async def coordinator(self, kind: int, key: str) -> int:
        """The broker that coordinates a group or a transactional id."""
        known = self._coordinators.get((kind, key))
        if known is not None and known in self.image.brokers:
            return known
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        answer = await (await self.any_connection()).ask(request, at_least=kind)
        coordinator = answer.coordinators[0] if answer.coordinators else answer
        check(coordinator)
        if coordinator.node_id not in self.image.brokers:
            self.image.brokers[coordinator.node_id] = Broker(
                coordinator.node_id, coordinator.host, coordinator.port
            )
        self._coordinators[kind, key] = coordinator.node_id
        return int(coordinator.node_id)

    # -- connections -------------------------------------------------------------------------------

    async def connection(self, node: int, *, patient: bool = False) -> Connection:
        """`patient`: one for long polls alone, behind which a commit or a heartbeat would have to wait."""
        broker = self.image.brokers.get(node)
        if broker is None:
            await self.refresh([])
            broker = self.image.brokers.get(node)
        if broker is None:
            raise errors.BrokerNotAvailable(f"broker {node} is not in the cluster")
        return await self._connect((broker.host, broker.port), patient)

    async def reach(self, node: int, topics: Iterable[str], *, patient: bool = False) -> Connection:
        """The connection to a leader of these topics. If it cannot be had they may have another by now."""
        try:
            return await self.connection(node, patient=patient)
        except errors.ProtocolError as error:
            self.forget_stale(error)
            await self.refresh(topics)
            raise

    def open_connection(self, node: int) -> Connection | None:
        """The connection to a broker, if it is open; does not wait."""
        broker = self.image.brokers.get(node)
        connection = self._connections.get((broker.host, broker.port)) if broker else None
        return connection if connection is not None and connection.is_open else None

    async def any_connection(self) -> Connection:
        """An open one if there is; else known brokers, then the bootstrap addresses, each tried once."""
        alive = [connection for connection in self._connections.values() if connection.is_open]
        if alive:
            return min(alive, key=lambda connection: connection.in_flight)
        known = [(broker.host, broker.port) for broker in self.image.brokers.values()]
        known.sort(key=lambda _: self.runtime.chance())
        problems: list[str] = []
        answered = False
        for address in dict.fromkeys([*known, *self.settings.bootstrap()]):
            try:
                return await self._connect(address)
            except ConnectionLost as error:
                problems.append(str(error))
                answered |= isinstance(error, WrongProtocol)
        raise BrokersUnreachable("; ".join(problems) + ("" if answered else f". {NOBODY}"))

    async def close(self) -> None:
        """Nothing is left: neither what is being opened at the moment nor what just was."""
        self._closed = self.troubles.closed = True
        tasks = [*self._opening.values(), *self._refreshing.values()]
        for task in tasks:
            task.cancel()
        await self.runtime.gather(tasks)
        for connection in [*self._connections.values(), *self._waiting_rooms.values()]:
            connection.close()
        self._connections.clear()
        self._waiting_rooms.clear()
        await self.runtime.sleep(0)

    async def _connect(self, address: tuple[str, int], patient: bool = False) -> Connection:
        if self._closed:
            raise ConnectionLost("this client is closed")  # tasks that still run must not open connections
        pool = self._waiting_rooms if patient else self._connections
        current = pool.get(address)
        if current is not None and current.is_open:
            return current
        key = (address, patient)
        if key not in self._opening:
            self._share(self._opening, key, self._open(address, pool))
        return await self.runtime.shield(self._opening[key])

    async def _open(self, address: tuple[str, int], pool: dict[tuple[str, int], Connection]) -> Connection:
        """Waits out the back-off of an address that failed lately, so that nobody hammers a dead broker."""
        now = self.runtime.now
        not_before, backoff = self._not_before.get(
            address,
            (0.0, self._reconnect_backoff()),
        )
        if not_before > now():
            await self.runtime.sleep(not_before - now())
        try:
            connection = await self.runtime.connect(
                *address, self.settings, lambda: self._tell_of_silence(address)
            )
        except ConnectionLost:
            self._not_before[address] = (now() + backoff.next_ms() / 1000, backoff)
            raise
        self._not_before.pop(address, None)
        self.troubles.over()
        pool[address] = connection
        return connection

    def _tell_of_silence(self, address: tuple[str, int]) -> None:
        """Long before the time is up: mostly the port is not Kafka's, or a firewall is in between."""
        where = f"{address[0]}:{address[1]}"
        error = ConnectionLost(
            f"{where} has not answered yet. Is it a Kafka port, and can it be reached from here?"
        )
        self.troubles.report(error, "connecting")

    def _reconnect_backoff(self) -> Backoff:
        settings = self.settings
        return Backoff(
            settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, spread=self.runtime.chance
        )

    def _share(self, tasks: dict[K, Task[T]], key: K, work: Coroutine[Any, Any, T]) -> None:
        """Runs `work` as the task of `key`, for all callers that wait. Its error is retrieved even if all gave up."""
        task = tasks[key] = self.runtime.spawn(work)

        def ended(_: object) -> None:
            tasks.pop(key, None)
            if not task.cancelled():
                task.exception()

        task.add_done_callback(ended)
