"""The other brokers as a port: a question to one of them, and its answer or the reason why there is none."""

from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeVar

from ottla.config.definitions import INT_MAX
from ottla.config.settings import Config
from ottla.errors import NetworkException
from ottla.metadata.image import Image
from ottla.wire.schema import Request

SOFTWARE = "ottla-broker"  # what a broker calls itself when it connects to another one
R = TypeVar("R")
Answer = Callable[[R | NetworkException], None]
"""Called once with the response, or with a NetworkException. After `cancel` never."""


class Lane(Enum):
    """Connections answer in order, so what may take long must not stand before what must be quick."""

    FETCH = "fetch"
    CONTROLLER = "controller"
    FORWARD = "forward"
    MARKERS = "markers"
    VERIFY = "verify"
    OFFSETS = "offsets"
    SHARES = "shares"
    SCHEMAS = "schemas"


class Call(Protocol):
    def cancel(self) -> None:
        """The answer is not wanted any more."""
        ...


class Peers(Protocol):
    def ask(
        self,
        broker_id: int,
        lane: Lane,
        request: Request[R],
        version: int,
        answer: Answer[R],
        *,
        timeout_ms: int,
    ) -> Call: ...


class _Asked:
    def cancel(self) -> None:
        pass


class NoPeers:
    """A broker that is alone."""

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
        answer(NetworkException(f"there is no way to broker {broker_id}"))
        return _Asked()


def credential(asker: int, incarnation: bytes) -> str:
    """Proves to the broker of this incarnation that `asker` reads the cluster's metadata: no API shows it."""
    from hashlib import blake2b  # a broker that is alone needs none

    return f"{asker}.{blake2b(str(asker).encode(), key=incarnation, digest_size=16).hexdigest()}"


def is_credential(text: str, incarnation: bytes) -> bool:
    from hmac import compare_digest

    asker, dot, _ = text.partition(".")
    is_number = bool(dot) and text.isascii() and asker.isdecimal() and len(asker) <= len(str(INT_MAX))
    return is_number and compare_digest(text, credential(int(asker), incarnation))


def is_peer(proof: str, listener: str, image: Image, config: Config) -> bool:
    """Whether a connection is of another broker of this cluster, as far as can be told."""
    own = image.brokers.get(config.node_id)
    expected = config.inter_broker_listener_name or listener
    return own is not None and listener == expected and is_credential(proof, own.incarnation)
