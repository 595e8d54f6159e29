"""Clients as scripts: generators that yield what they want and go on with what came of it."""

from collections.abc import Callable, Generator
from typing import Any

from ottla.broker.routes import ROUTES
from ottla.frozen import frozen
from ottla.testing.world.network import LOST, Connection
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.schema import Message

REQUEST_TIMEOUT_MS = 3_000
GROUP, TRANSACTION = 0, 1


@frozen
class Send:
    """The script goes on with the response, or with LOST: then the outcome is unknown.

    `on_late` is called when the broker receives a request that its client has given up.
    """

    request: Message
    version: int
    timeout_ms: float = REQUEST_TIMEOUT_MS
    on_late: Callable[[], None] | None = None


@frozen
class Sleep:
    ms: float


Script = Generator[Send | Sleep, Any, None]


def send(request: Message, version: int | None = None, timeout_ms: float = REQUEST_TIMEOUT_MS) -> Send:
    return Send(request, ROUTES[request.API_KEY].version_max if version is None else version, timeout_ms)


def find_coordinator(key: str, key_type: int) -> Generator[Send | Sleep, Any, None]:
    """As every client does first: it may bring the internal topic into being."""
    while True:
        answer = yield send(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]))
        if answer is not LOST and not answer.coordinators[0].error_code:
            return
        yield Sleep(100)


class Client:
    """Runs one script. A request that takes too long is given up with its connection, but not taken back."""

    def __init__(
        self,
        name: str,
        script: Script,
        connect: Callable[[str], Connection | None],
        call_later: Callable[[float, Callable[[], None]], Any],
        pause_ms: Callable[[], float],
    ) -> None:
        self.name = name
        self._script, self._connect, self._call_later, self._pause_ms = script, connect, call_later, pause_ms
        self._connection: Connection | None = None
        self.waits_for: Send | Sleep | None = None
        self.is_done = False

    def start(self) -> None:
        self._step(None)

    def kill(self) -> None:
        """Mid-sentence: its last words may still be on their way."""
        if not self.is_done:
            self.is_done = True
            self._script.close()

    def _step(self, value: Any) -> None:
        if self.is_done:
            return
        try:
            wanted = self._script.send(value)
        except StopIteration:
            self.is_done, self.waits_for = True, None
            return
        self.waits_for = wanted
        if isinstance(wanted, Sleep):
            self._call_later(wanted.ms, lambda: self._step(None))
        else:
            self._send(wanted)

    def _send(self, wanted: Send) -> None:
        if self._connection is None or not self._connection.is_open:
            self._connection = self._connect(self.name)
        connection = self._connection
        waiting = [True]

        def settle(answer: Any) -> None:
            if waiting[0]:
                waiting[0] = False
                timer.cancel()
                self._call_later(self._pause_ms(), lambda: self._step(answer))

        def give_up() -> None:
            self._connection = None  # the old one lives on: what it carries may still arrive
            settle(LOST)

        def heard() -> None:
            if not waiting[0] and wanted.on_late is not None:
                wanted.on_late()

        timer = self._call_later(wanted.timeout_ms, give_up)
        if connection is None:
            self._call_later(50, lambda: settle(LOST))  # connection refused
        else:
            connection.send(wanted.request, wanted.version, settle, heard)
