"""What a handler knows of the request beside its message."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


@dataclass(slots=True)
class Context:
    broker: "Broker"
    client: Client
    client_id: str
    api_version: int
    appended: Callable[[], None]  # from here on the request only waits: the next one may start
