"""The other brokers as a port: a question to one of them, and its answer or the reason why there is none."""

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from ottla.errors import NetworkException
from ottla.wire.schema import Message

Answer = Callable[[Any], None]
"""Called once with the response, or with a NetworkException. After `cancel` never."""


class Lane(Enum):
    """Connections answer in order, so what may take long must not stand before what must be quick."""

    FETCH = "fetch"
    CONTROLLER = "controller"
    FORWARD = "forward"
    MARKERS = "markers"
    VERIFY = "verify"


class Call(Protocol):
    def cancel(self) -> None:
        """The answer is not wanted any more."""
        ...


class Peers(Protocol):
    def ask(
        self, broker_id: int, lane: Lane, request: Message, version: int, answer: Answer, *, timeout_ms: int
    ) -> Call: ...


class _Asked:
    def cancel(self) -> None:
        pass


class NoPeers:
    """A broker that is alone."""

    def ask(
        self, broker_id: int, lane: Lane, request: Message, version: int, answer: Answer, *, timeout_ms: int
    ) -> Call:
        answer(NetworkException(f"there is no way to broker {broker_id}"))
        return _Asked()
