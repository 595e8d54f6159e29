"""From a frame to an answer: header, route, body, handler, response; and what failures become."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.context import Client, Context
from ottla.broker.memory import PLENTY, Memory, forget_records, parsed_bytes
from ottla.broker.pipeline import Slot
from ottla.broker.refusals import refusal
from ottla.broker.responses import encode
from ottla.broker.routes import ROUTES, Handler, Route
from ottla.broker.waits import Running
from ottla.errors import OttlaError, ProtocolError, UnknownServerError, UnsupportedVersion
from ottla.ports import Buffer
from ottla.wire import codec
from ottla.wire.frames import API_VERSIONS, RequestHeader, read_request_header, skip_tags
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")


PRODUCE, FETCH = 0, 1
METERED = {PRODUCE: "producer_byte_rate", FETCH: "consumer_byte_rate"}  # the APIs that have a quota of bytes


class CloseConnection(OttlaError):
    """The connection cannot go on; the message says why, for the log."""


class Observer(Protocol):
    """Sees each request that was understood; may stand in for its handler: metrics, and faults in tests."""

    def on_request(self, header: RequestHeader, request: Message, handler: Handler) -> Handler: ...

    def on_answer(self, header: RequestHeader, response: Message | None, frame_bytes: int) -> None: ...


class Dispatcher:
    def __init__(self, broker: "Broker", observer: Observer) -> None:
        self._broker, self.observer = broker, observer
        self._elements_max = broker.config.ottla_request_elements_max
        self.memory: Memory = PLENTY

    def begin(self, frame: Buffer, slot: Slot, client: Client, close: Callable[[str], None]) -> None:
        """Starts the request; the slot gets the answer, or `close` the reason why there is none."""
        try:
            header, position = read_request_header(frame)
            route = _route_of(header)
            if route is None:
                self._answer_api_versions_v0(header, slot, client)
                return
            if header.api_version >= route.api.flexible_from:
                position = skip_tags(frame, position)
            # Bytes behind the request are not looked at: librdkafka leaves some when it asks for all topics.
            request, end = codec.read_bounded(
                route.request, header.api_version, frame, position, elements_max=self._elements_max
            )
        except (ProtocolError, CloseConnection) as error:
            close(f"{client.host}:{client.port}: {error}")
            return
        size = parsed_bytes(request, end - position, self._elements_max - codec.elements_left())
        self._run(route, header, request, slot, client, close, len(frame), size)

    def on_disconnected(self, client: Client) -> None:
        """What belongs to a connection goes with it."""
        self._broker.sessions.on_disconnected(client)

    def _run(
        self,
        route: Route,
        header: RequestHeader,
        request: Message,
        slot: Slot,
        client: Client,
        close: Callable[[str], None],
        frame_bytes: int,
        size: int,
    ) -> None:
        handler = self.observer.on_request(header, request, self._handler_of(route, client))

        def appended() -> None:
            forget_records(request)
            slot.release()

        context = Context(
            self._broker,
            client,
            header.client_id or "",
            header.api_version,
            appended,
            self.memory,
            size,
        )

        def finished(response: Message | None, error: BaseException | None) -> None:
            if error is not None:
                if isinstance(error, CloseConnection):
                    close(f"{client.host}:{client.port} {header.client_id}: {error}")
                    return
                response = self._refuse(route, header, request, error)
            self.observer.on_answer(header, response, frame_bytes)
            throttle_ms = self._throttle_ms(header, response, client, frame_bytes)
            if response is None:
                slot.answer([])
            else:
                try:
                    buffers = encode(route.api, header.api_version, header.correlation_id, response)
                except Exception:
                    log.exception("the answer to %s v%d is wrong", route.api.name, header.api_version)
                    close(
                        f"{client.host}:{client.port} {header.client_id}: there is no answer to its request"
                    )
                    return
                slot.answer(buffers)
            if throttle_ms:
                client.mute(throttle_ms)

        slot.running = Running(handler(request, context), finished)  # type: ignore[arg-type]
        slot.running.step()
        if not slot.is_awaited or client.is_peer:
            return
        if self.memory.takes(size):
            slot.on_over = self.memory.park(size)
        else:
            close(f"{client.host}:{client.port} {header.client_id}: too many requests of its size wait")

    def _throttle_ms(
        self,
        header: RequestHeader,
        response: Message | None,
        client: Client,
        frame_bytes: int,
    ) -> int:
        """How long the client is not heard because of its quota; the answer tells it. Brokers have none."""
        quotas = self._broker.quotas
        if quotas is None or header.api_key not in METERED or client.is_peer:
            return 0
        now_ms = self._broker.clock.monotonic_ms()
        key, count = METERED[header.api_key], frame_bytes
        if header.api_key == FETCH:
            count = fetched_bytes(response)
        throttle_ms = quotas.throttle_ms(key, client.principal, header.client_id or "", count, now_ms)
        if throttle_ms and response is not None:
            response.throttle_time_ms = throttle_ms  # type: ignore[attr-defined]
            self._broker.metrics.counts["ottla_throttled_ms_total"] += throttle_ms
        return throttle_ms

    def _handler_of(self, route: Route, client: Client) -> Handler:
        handler = route.handler
        if route.by_controller and self._broker.controller.epoch is None:
            handler = _relayed
        if self._broker.access is not None:
            from ottla.broker.permits.table import guarded, is_relayed

            if not (route.by_controller and is_relayed(client, self._broker.access)):
                handler = guarded(route.api.name, handler)
        return handler

    def _refuse(self, route: Route, header: RequestHeader, request: Message, error: BaseException) -> Message:
        if not isinstance(error, ProtocolError):
            log.error(
                "%s v%d of %s failed", route.api.name, header.api_version, header.client_id, exc_info=error
            )
            error = UnknownServerError()
        return refusal(route.api, header.api_version, request, error)

    def _answer_api_versions_v0(self, header: RequestHeader, slot: Slot, client: Client) -> None:
        """A client newer than us asks what we speak: told in the oldest words (KIP-511)."""
        from ottla.broker.handlers.cluster import served_versions

        response = served_versions(self._broker)
        response.error_code = UnsupportedVersion.code
        api = ROUTES[API_VERSIONS].api
        slot.answer(encode(api, 0, header.correlation_id, response))


async def _relayed(request: Message, context: Context) -> Message:
    """The controller is at another broker, and this client need not know."""
    response: Message = await context.broker.channel.relay(request, context.api_version)
    return response


def _route_of(header: RequestHeader) -> Route | None:
    """None for an ApiVersions request of an unknown version, the one that is answered all the same."""
    route = ROUTES.get(header.api_key)
    if route is not None and route.version_min <= header.api_version <= route.version_max:
        return route
    if header.api_key == API_VERSIONS:
        return None
    raise CloseConnection(f"API {header.api_key} version {header.api_version} is not served")


def fetched_bytes(response: Any) -> int:
    """The records of a fetch's answer."""
    if response is None:
        return 0
    return sum(len(data.records or b"") for topic in response.responses for data in topic.partitions)
