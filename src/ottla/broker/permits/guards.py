"""Handlers behind their entries of the table, made once for each API."""

from ottla.broker.permits.access import Access
from ottla.broker.permits.own import may_produce_at_once
from ottla.broker.permits.table import PERMITS, guarded, is_relayed
from ottla.broker.requests.client import Client
from ottla.broker.routes import ROUTES, Handler, Route
from ottla.errors import OttlaError
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.schema import Message

_PRODUCE = ROUTES[ProduceRequest.API_KEY]


def check_table() -> None:
    """A broker with an authorizer does not start with an API of which nobody has said who may call it."""
    unguarded = {route.api.name for route in ROUTES.values()} - PERMITS.keys()
    if unguarded:
        raise OttlaError(f"broker/permits/table.py does not say who may call {', '.join(sorted(unguarded))}")


class Guards:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._guards: dict[tuple[str, Handler], Handler] = {}

    def handler(self, route: Route, handler: Handler, client: Client, request: Message) -> Handler:
        """The handler, behind its entry unless the client's rights are known: to us, or to the broker that relays."""
        if route is _PRODUCE and may_produce_at_once(request, client, self._access):
            return handler
        name = route.api.name
        if client.is_peer and route.by_controller and is_relayed(client, self._access):
            return handler
        guard = self._guards.get((name, handler))
        if guard is None:
            guard = self._guards[name, handler] = guarded(name, handler)
        return guard
