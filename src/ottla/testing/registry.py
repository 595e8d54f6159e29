"""A schema registry beside the broker of a test."""

from collections.abc import Mapping

from ottla.registry.http import Server
from ottla.registry.store import TopicStore


class BrokerRegistry:
    """Serves from the moment it is made."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._store = TopicStore(client)
        self._store.start()
        self._server = Server(self._store, port=0)
        self._server.start()
        self.address = self._server.address

    def stop(self) -> None:
        self._server.stop()
        self._store.close()
