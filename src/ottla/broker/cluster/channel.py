"""Requests to the controller, wherever it is: here, or at another broker; and what clients ask of it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from ottla import errors
from ottla.broker.cluster.peers import Lane, Peers
from ottla.broker.requests.client import Sender
from ottla.broker.settings import Settings
from ottla.broker.waits import Wait, pause
from ottla.metadata.controller import Controller
from ottla.ports import Clock
from ottla.wire.schema import Message, Request

if TYPE_CHECKING:
    from ottla.wire.messages.envelope import EnvelopeResponse

R = TypeVar("R")


class AnswerHere(Protocol):
    def __call__(
        self,
        request: Request[R],
        version: int,
        answer: Callable[[R | Exception], None],
        sender: Sender | None,
    ) -> None:
        """Runs the request's handler at this broker, for a client or, without a sender, for itself."""


FIRST_PAUSE_MS, PAUSE_MS_MAX = 20, 250


class ControllerChannel:
    def __init__(
        self,
        controller: Controller,
        peers: Peers,
        clock: Clock,
        settings: Settings,
        answer_here: AnswerHere,
    ) -> None:
        self._controller, self._peers, self._clock = controller, peers, clock
        self._settings, self._answer_here = settings, answer_here

    def ask(
        self, request: Request[R], version: int, answer: Callable[[R | Exception], None], lane: Lane
    ) -> None:
        """Asks once. After NOT_CONTROLLER in the answer, or a NetworkException, the caller may ask again."""
        controller = self._controller
        if controller.epoch is not None:
            self._answer_here(request, version, answer, None)
        elif controller.holder is None:
            answer(errors.NetworkException("there is no controller at the moment"))
        else:
            timeout_ms = self._settings.now.controller_socket_timeout_ms
            self._peers.ask(controller.holder, lane, request, version, answer, timeout_ms=timeout_ms)

    async def relay(self, request: Request[R], version: int, sender: Sender | None = None) -> R:
        """Asked until a controller answers; returns when this broker has applied what came of it. With a sender it
        is a client's request, and the controller is told whose."""
        clock = self._clock
        deadline_ms = clock.monotonic_ms() + self._settings.now.request_timeout_ms
        pause_ms = FIRST_PAUSE_MS
        while True:
            was_here = self._controller.epoch is not None
            try:
                response = await self._try(request, version, sender)
            except (errors.NetworkException, errors.NotController):
                # The outcome is unknown; trying again reveals it.
                response = None
            if response is not None and not says(response, errors.NotController.code):
                if not was_here:
                    await self._caught_up()
                return response
            if clock.monotonic_ms() + pause_ms > deadline_ms:
                raise errors.NotController()
            await pause(clock, pause_ms)
            pause_ms = min(pause_ms * 2, PAUSE_MS_MAX)

    async def _try(self, request: Request[R], version: int, sender: Sender | None) -> R:
        wait: Wait[R] = Wait()
        if sender is None:
            self.ask(request, version, wait.set, Lane.FORWARD)
            return await wait
        if self._controller.epoch is not None:
            self._answer_here(request, version, wait.set, sender)
            return await wait
        from ottla.broker.cluster import envelopes  # only clusters need it

        opened: Wait[EnvelopeResponse] = Wait()
        self.ask(envelopes.sealed(request, version, sender), envelopes.VERSION, opened.set, Lane.FORWARD)
        return envelopes.opened(await opened, request, version)

    async def _caught_up(self) -> None:
        wait: Wait[None] = Wait()
        self._controller.catch_up(lambda: wait.set(None))
        await wait


def says(message: object, code: int) -> bool:
    """Whether an error code anywhere in a response is this one."""
    if not isinstance(message, Message):
        return False
    for name in message.__slots__:
        value = getattr(message, name)
        if name.endswith("error_code") and value == code:
            return True
        if isinstance(value, list) and any(says(part, code) for part in value):
            return True
    return False
