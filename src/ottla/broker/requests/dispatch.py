"""From a frame to its handler: header, route, body, rights. The rest of the way is an `Exchange`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.broker import Broker
from ottla.broker.requests.client import Client
from ottla.broker.requests.context import Context
from ottla.broker.requests.exchange import Exchange, Observer
from ottla.broker.requests.large import LargeRequests
from ottla.broker.requests.memory import PLENTY, Memory, parsed_bytes
from ottla.broker.requests.pipeline import Slot
from ottla.broker.requests.refusals import CloseConnection
from ottla.broker.requests.responses import ELEMENTS_AT_ONCE, encode
from ottla.broker.routes import ROUTES, Handler, Route
from ottla.broker.stepping import REQUEST_UNITS, Turns
from ottla.broker.waits import Running
from ottla.errors import ProtocolError, UnsupportedVersion
from ottla.ports import Buffer
from ottla.wire import codec
from ottla.wire.frames import API_VERSIONS, RequestHeader, read_request_header, skip_tags
from ottla.wire.schema import Message, Request

if TYPE_CHECKING:
    from ottla.broker.permits.guards import Guards

ELEMENT_UNITS = 1_000  # of work, what every array element takes


class Dispatcher:
    def __init__(self, broker: Broker, observer: Observer, memory: Memory = PLENTY) -> None:
        self.broker, self.observer, self.memory = broker, observer, memory
        self.large = LargeRequests(broker.turns, broker.config.ottla_request_elements_max)
        self._guards: Guards | None = None

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
            request, end, elements = codec.read_bounded(
                route.request, header.api_version, frame, position, elements_max=ELEMENTS_AT_ONCE
            )
        except codec.TooManyElements:
            assert route is not None
            self._begin_large(Exchange(self, route, header, slot, client, close, len(frame)), frame, position)
            return
        except (ProtocolError, CloseConnection) as error:
            close(f"{client.host}:{client.port}: {error}")
            return
        client.work.spend(REQUEST_UNITS + elements * ELEMENT_UNITS)
        size = parsed_bytes(request, end - position, elements)
        exchange = Exchange(self, route, header, slot, client, close, len(frame))
        exchange.run(self._handler_of(route, client, request), request, size)

    @property
    def turns(self) -> Turns:
        """For connections that have used up their share of the loop's time."""
        return self.broker.turns

    def _begin_large(self, exchange: Exchange, frame: Buffer, position: int) -> None:
        """The request is read in steps, and begins when all of it is read."""
        route, slot, client = exchange.route, exchange.slot, exchange.client
        place = self.large.place()

        def parsed(result: tuple[Message, int, int] | None, error: BaseException | None) -> None:
            slot.running = None
            if result is None:
                exchange.give_up(str(error))
                place.give_back()
                return
            request, end, elements = result
            size = parsed_bytes(request, end - position, elements)
            exchange.run(self._handler_of(route, client, request), request, size, place)

        slot.borrow(place.give_back)
        reading = self.large.read(route.request, exchange.header.api_version, frame, position, client, place)
        slot.running = Running(reading, parsed)
        slot.running.step()

    def on_disconnected(self, client: Client) -> None:
        """Drops the fetch sessions and share sessions of the connection."""
        self.broker.sessions.on_disconnected(client)
        if self.broker.shares:
            self.broker.sharing.on_disconnected(client)

    def _handler_of(self, route: Route, client: Client, request: Message) -> Handler:
        handler = route.handler
        if route.by_controller and not self.broker.metadata.is_controller_here:
            handler = route.relayed or _relayed
        access = self.broker.access
        if access is None:
            return handler
        if self._guards is None:
            from ottla.broker.permits.guards import Guards

            self._guards = Guards(access)
        return self._guards.handler(route, handler, client, request)

    def _answer_api_versions_v0(self, header: RequestHeader, slot: Slot, client: Client) -> None:
        """A client newer than this broker asks for its versions: answered as version 0 (KIP-511)."""
        from ottla.broker.handlers.cluster import served_versions

        client.work.spend(REQUEST_UNITS)
        response = served_versions(self.broker.image)
        response.error_code = UnsupportedVersion.code
        api = ROUTES[API_VERSIONS].api
        slot.answer(encode(api, 0, header.correlation_id, response).buffers())


async def _relayed(request: Request[Message], context: Context) -> Message:
    """The controller is at another broker, and this client need not know."""
    return await context.metadata.relay(request, context.api_version, context.sender)


def _route_of(header: RequestHeader) -> Route | None:
    """None for an ApiVersions request of an unknown version, the one that is answered all the same."""
    route = ROUTES.get(header.api_key)
    if route is not None and route.version_min <= header.api_version <= route.version_max:
        return route
    if header.api_key == API_VERSIONS:
        return None
    raise CloseConnection(f"API {header.api_key} version {header.api_version} is not served")
