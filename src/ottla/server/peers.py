"""Connections to the other brokers, on the broker's own loop: one for each lane, opened when first used."""

import asyncio
import contextlib

from ottla.broker.cluster.peers import SOFTWARE, Answer, Call, Lane, R, credential
from ottla.client.connections import Connection
from ottla.client.errors import ConnectionLost
from ottla.errors import NetworkException, OttlaError
from ottla.metadata.image import Image
from ottla.metadata.records import BrokerFenced, BrokerRegistered, BrokerUnregistered, Endpoint, Record
from ottla.server.links import Link
from ottla.wire.schema import Request


class BrokerPeers:
    def __init__(self, node_id: int, image: Image, link: Link) -> None:
        self._node_id, self._image, self._link = node_id, image, link
        self._connections: dict[tuple[int, Lane], Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        image.watch(self._on_record)

    def _on_record(self, record: Record) -> None:
        """A broker that was fenced or has restarted gives no more answers that count, and a paused process or a cut
        network does not close its connection. Requests that wait for it fail now and go to the next broker."""
        if isinstance(record, BrokerFenced | BrokerUnregistered | BrokerRegistered):
            self.drop(record.broker_id)

    def drop(self, broker_id: int) -> None:
        """Closes the connections to one broker: its answers under way are given up."""
        for (peer_id, _), connection in self._connections.items():
            if peer_id == broker_id:
                connection.close()

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
        task = asyncio.get_running_loop().create_task(
            self._ask(broker_id, lane, request, version, answer, timeout_ms)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task  # type: ignore[return-value]

    async def _ask(
        self,
        broker_id: int,
        lane: Lane,
        request: Request[R],
        version: int,
        answer: Answer[R],
        timeout_ms: int,
    ) -> None:
        try:
            connection = await self._connection(broker_id, lane)
            try:
                response = await connection.send(request, version, timeout_ms=timeout_ms)
            except asyncio.CancelledError:
                if lane is Lane.FETCH:
                    connection.close()  # or the next fetch waits behind the one that was given up
                raise
        except (OttlaError, OSError) as error:
            answer(NetworkException(f"broker {broker_id}: {error}"))
        else:
            answer(response)

    async def _connection(self, broker_id: int, lane: Lane) -> Connection:
        key = broker_id, lane
        known = self._connections.get(key)
        endpoint = self.endpoint(broker_id)
        if known is not None and known.is_open and known.name == f"{endpoint.host}:{endpoint.port}":
            return known
        if known is not None:
            known.close()
        opened = await Connection.open(
            endpoint.host,
            endpoint.port,
            self._link.settings,
            (SOFTWARE, self._credential(broker_id)),
            self._link.current_tls(),
        )
        raced = self._connections.get(key)
        if raced is not None and raced is not known and raced.is_open:
            opened.close()
            return raced
        if self._closed:
            opened.close()
            raise ConnectionLost("stopped")
        self._connections[key] = opened
        return opened

    def _credential(self, broker_id: int) -> str:
        return credential(self._node_id, self._image.brokers[broker_id].incarnation)

    def endpoint(self, broker_id: int) -> Endpoint:
        broker = self._image.brokers.get(broker_id)
        if broker is None or not broker.endpoints:
            raise NetworkException(f"broker {broker_id} is not known")
        named = broker.endpoint(self._link.listener) if self._link.listener else None
        return named or broker.endpoints[0]

    async def close(self) -> None:
        self._closed = True
        for connection in self._connections.values():
            connection.close()
        for task in list(self._tasks):
            task.cancel()
        for task in list(self._tasks):
            with contextlib.suppress(asyncio.CancelledError):
                await task
