"""What a handler knows of the request beside its message."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.broker.memory import PLENTY, Memory
from ottla.broker.stepping import Work

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
    work: Work = field(default_factory=Work)  # of all its requests
    mute: Callable[[int], None] = lambda milliseconds: None  # its next request is not begun for so long


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
        longest_ms = self.broker.config.ottla_fetch_max_wait_ms
        return min(wanted_ms, longest_ms)

    @property
    def has_authorizer(self) -> bool:
        return self.broker.access is not None

    def allows(self, operation: int, resource_type: int, name: str) -> bool:
        """Whether the client may do it (`security.operations` has the numbers); without an authorizer, always."""
        access = self.broker.access
        return access is None or access.allows(self.client, operation, resource_type, name)

    def allows_any(self, operation: int, resource_type: int) -> bool:
        """Whether there may be a resource of the type on which the client may do it."""
        access = self.broker.access
        return access is None or access.allows_any(self.client, operation, resource_type)

    def require(self, operation: int, resource_type: int, name: str) -> None:
        """Raises the resource's AUTHORIZATION_FAILED unless the client may do it."""
        if not self.allows(operation, resource_type, name):
            from ottla.broker.access import refusal_of

            raise refusal_of(resource_type)
