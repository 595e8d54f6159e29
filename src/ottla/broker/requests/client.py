"""Who is at the other end of a connection."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.broker.stepping import Work


@dataclass(slots=True, eq=False)
class Client:
    """One object for each connection: it is told from others by identity."""

    host: str
    port: int
    listener: str = "PLAINTEXT"
    principal: str = "User:ANONYMOUS"
    software: str = ""
    token_id: str | None = None  # of the delegation token that it logged in with
    is_peer: bool = False  # another broker of the cluster, as it has proved
    work: Work = field(default_factory=Work)  # of all its requests
    # Rights that it is known to have: operation, resource type and name.
    rights: set[tuple[int, int, str]] = field(default_factory=set)
    writable: set[str] = field(default_factory=set)  # topics that it may write to, of those
    rights_under: object = None  # the rules by which it has them
    mute: Callable[[int], None] = lambda milliseconds: None  # its next request is not begun for so long


class Sender(NamedTuple):
    """Whose request it is, and how the client calls itself in it."""

    client: Client
    client_id: str
