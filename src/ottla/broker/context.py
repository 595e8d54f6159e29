"""What a handler knows of the request beside its message."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.broker.memory import PLENTY, Memory

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@dataclass(slots=True, eq=False)
class Client:
    """Who is at the other end of a connection. One object for each connection: it is told from others by identity."""

    host: str
    port: int
    listener: str = "PLAINTEXT"
    principal: str = "User:ANONYMOUS"
    software: str = ""
    token_id: str | None = None  # of the delegation token that it logged in with
    is_peer: bool = False  # another broker of the cluster, as it has proved


@dataclass(slots=True)
class Context:
    broker: "Broker"
    client: Client
    client_id: str
    api_version: int
    appended: Callable[[], None]  # from here on the request only waits: the next one may start
    memory: Memory = PLENTY
    parsed_bytes: int = 0  # what the request takes while it waits

    def wait_ms(self, wanted_ms: int) -> int:
        """How long a long poll may wait: not at all if it is large and too many such wait already."""
        if not self.client.is_peer and not self.memory.takes(self.parsed_bytes):
            return 0
        longest_ms: int = self.broker.config.ottla_fetch_max_wait_ms
        return min(wanted_ms, longest_ms)
