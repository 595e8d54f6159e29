"""Requests to the controller, wherever it is: here, or at another broker; and what clients ask of it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla import errors
from ottla.broker.context import Client, Context
from ottla.broker.peers import Lane, Peers
from ottla.broker.routes import ROUTES
from ottla.broker.waits import Running, Wait
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

FIRST_PAUSE_MS, PAUSE_MS_MAX = 20, 250
CLIENT_ID = "ottla-broker"


class ControllerChannel:
    def __init__(self, broker: "Broker", peers: Peers) -> None:
        self._broker, self._peers = broker, peers

    def ask(self, request: Message, version: int, answer: Callable[[Any], None], lane: Lane) -> None:
        """One try. NOT_CONTROLLER inside of the answer, or a NetworkException, are worth another."""
        controller = self._broker.controller
        if controller.epoch is not None:
            self._ask_here(request, version, answer)
        elif controller.holder is None:
            answer(errors.NetworkException("there is no controller at the moment"))
        else:
            timeout_ms = self._broker.config.controller_socket_timeout_ms
            self._peers.ask(controller.holder, lane, request, version, answer, timeout_ms=timeout_ms)

    async def relay(self, request: Message, version: int) -> Any:
        """Asked until a controller answers; returns when this broker has applied what came of it."""
        clock = self._broker.clock
        deadline_ms = clock.monotonic_ms() + self._broker.config.request_timeout_ms
        pause_ms = FIRST_PAUSE_MS
        while True:
            wait: Wait[Any] = Wait()
            was_here = self._broker.controller.epoch is not None
            self.ask(request, version, wait.set, Lane.FORWARD)
            try:
                response = await wait
            except errors.NetworkException:
                # It may have been done: like a client's time-out, the next try will tell.
                response = None
            if response is not None and not says(response, errors.NotController.code):
                if not was_here:
                    await self._caught_up()
                return response
            if clock.monotonic_ms() + pause_ms > deadline_ms:
                raise errors.NotController()
            await self._broker.sleep(pause_ms)
            pause_ms = min(pause_ms * 2, PAUSE_MS_MAX)

    async def _caught_up(self) -> None:
        wait: Wait[None] = Wait()
        self._broker.controller.catch_up(lambda: wait.set(None))
        await wait

    def _ask_here(self, request: Message, version: int, answer: Callable[[Any], None]) -> None:
        context = Context(self._broker, Client("", 0), CLIENT_ID, version, lambda: None)

        def finished(response: Any, error: BaseException | None) -> None:
            answer(response if error is None else error)

        Running(ROUTES[request.API_KEY].handler(request, context), finished).step()  # type: ignore[arg-type]


def says(message: object, code: int) -> bool:
    """Whether an error code anywhere in a response is this one."""
    if not isinstance(message, Message):
        return False
    for name in message.__slots__:
        value = getattr(message, name)
        if name.endswith("error_code") and value == code:
            return True
        if isinstance(value, list) and any(says(each, code) for each in value):
            return True
    return False
