"""Handlers behind their entries of the table, made once for each API."""

from ottla.broker.permits.access import Access
from ottla.broker.permits.table import AT_ONCE, guarded, is_relayed
from ottla.broker.requests.client import Client
from ottla.broker.routes import Handler, Route
from ottla.wire.schema import Message


class Guards:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._guards: dict[tuple[str, Handler], Handler] = {}

    def handler(self, route: Route, handler: Handler, client: Client, request: Message) -> Handler:
        """The handler, behind its entry unless the client's rights are known: to us, or to the broker that relays."""
        name = route.api.name
        known = AT_ONCE.get(name)
        if known is not None and known(request, client, self._access):
            return handler
        if client.is_peer and route.by_controller and is_relayed(client, self._access):
            return handler
        guard = self._guards.get((name, handler))
        if guard is None:
            guard = self._guards[name, handler] = guarded(name, handler)
        return guard
