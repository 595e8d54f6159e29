"""One request from its message to its answer: run, parked, encoded, throttled; and what failures become."""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.broker import Broker
from ottla.broker.requests.client import Client
from ottla.broker.requests.context import Context
from ottla.broker.requests.large import LargeRequests, Place
from ottla.broker.requests.memory import Memory, forget_records
from ottla.broker.requests.pipeline import Slot
from ottla.broker.requests.refusals import CloseConnection, protocol_error, refusal, refusal_of_parts
from ottla.broker.requests.responses import encode, encode_in_steps, work_units
from ottla.broker.requests.times import Times
from ottla.broker.routes import Handler, Route
from ottla.broker.waits import Running, Turn, Wait
from ottla.errors import ProtocolError, UnknownServerError
from ottla.ports import Buffer
from ottla.wire import codec
from ottla.wire.frames import PRODUCE, RequestHeader
from ottla.wire.schema import Message

if TYPE_CHECKING:  # most brokers have no quotas
    from ottla.broker.requests.metering import Usage

logger = logging.getLogger("ottla.broker")


class Observer(Protocol):
    """Sees each request that was understood; may stand in for its handler: metrics, and faults in tests."""

    def on_request(self, header: RequestHeader, request: Message, handler: Handler) -> Handler: ...

    def on_answer(self, header: RequestHeader, response: Message | None, frame_bytes: int) -> None: ...


class Shared(Protocol):
    """What all requests of a broker have in common: the dispatcher has it."""

    broker: Broker
    observer: Observer
    memory: Memory
    large: LargeRequests


class Exchange:
    """The slot gets the answer, or `close` the reason why there is none."""

    __slots__ = (
        "_close",
        "_frame_bytes",
        "_is_parked",
        "_place",
        "_request",
        "_shared",
        "_size",
        "_throttle_ms",
        "_times",
        "_usage",
        "client",
        "header",
        "route",
        "slot",
    )

    def __init__(
        self,
        shared: Shared,
        route: Route,
        header: RequestHeader,
        slot: Slot,
        client: Client,
        close: Callable[[str], None],
        frame_bytes: int,
    ) -> None:
        self._shared, self._close, self._frame_bytes = shared, close, frame_bytes
        self.route, self.header, self.slot, self.client = route, header, slot, client
        self._is_parked = client.is_peer  # or need not be
        self._usage: Usage | None = None
        self._throttle_ms = 0
        broker = shared.broker
        self._times = slot.times = Times(
            broker.metrics.times_of(header.api_key), broker.clock.stopwatch_ms, slot.arrived_ms
        )

    def run(self, handler: Handler, request: Message, size: int, place: Place | None = None) -> None:
        """`size` is what the request takes while it waits; `place` is that of one with very many elements."""
        shared, header, slot = self._shared, self.header, self.slot
        self._request, self._size, self._place = request, size, place
        handler = shared.observer.on_request(header, request, handler)
        if place is not None:
            from ottla.broker.requests.parts import in_parts

            handler = in_parts(self.route.api.name, handler, self._refuse_part)
        context = shared.broker.context(
            self.client, header.client_id or "", header.api_version, self._appended, shared.memory, size
        )
        running = handler(request, context)
        if context.quotas is not None:
            running = self._timed(running, context)
        slot.running = Running(running, self._finished, self._waiting)  # type: ignore[arg-type]
        slot.running.step()

    def give_up(self, why: str) -> None:
        self._close(f"{self.client.host}:{self.client.port} {self.header.client_id}: {why}")

    # -- while it runs ---------------------------------------------------------------------------

    def _timed(self, running: Awaitable[Any], context: Context) -> Awaitable[Any]:
        """Where quotas count the time of requests, that of this one is counted."""
        from ottla.broker.requests.metering import usage_of

        self._usage = usage_of(context.quotas, self.client, context.clock)
        return running if self._usage is None else self._usage.timed(running)  # type: ignore[arg-type]

    def _appended(self) -> None:
        forget_records(self._request)
        self.slot.release()

    def _waiting(self, wait: Wait[Any]) -> None:
        if isinstance(wait, Turn):
            return  # it only lets others go first
        self._times.on_waiting()
        if self._place is not None:
            self._place.give_back()
        if self._is_parked:
            return
        self._is_parked = True
        if self._shared.memory.takes(self._size):
            self.slot.borrow(self._shared.memory.park(self._size))
        else:
            self.give_up("too many requests of its size wait")

    # -- its answer ------------------------------------------------------------------------------

    def _finished(self, response: Message | None, error: BaseException | None) -> None:
        self._times.on_done()
        if isinstance(error, CloseConnection):
            self.give_up(str(error))
            return
        if self._wants_no_answer() and not (error is None and response is None):
            # Its client would take an answer for that to its next request.
            self.give_up("a produce that wants no answer failed")
            return
        if error is not None:
            response = self._refusal(error)
        self._shared.observer.on_answer(self.header, response, self._frame_bytes)
        self._throttle_ms = self._throttled_ms(response)
        if response is None:
            self._answer([])
        else:
            self._encode(response)

    def _wants_no_answer(self) -> bool:
        return self.header.api_key == PRODUCE and not self._request.acks  # type: ignore[attr-defined]

    def _encode(self, response: Message) -> None:
        """In steps if it is long."""
        about = self.route.api, self.header.api_version, self.header.correlation_id, response
        try:
            frame = encode(*about)
        except codec.TooManyElements:
            steps = self._shared.large.stepped(encode_in_steps(*about), self.client)
            self.slot.running = Running(steps, self._encoded)
            self.slot.running.step()
        except Exception as error:
            self._encoded(None, error)
        else:
            self._encoded(frame, None)

    def _encoded(self, frame: codec.Gather | None, error: BaseException | None) -> None:
        if frame is None:
            api, version = self.route.api, self.header.api_version
            logger.error(
                "the answer to %s v%d is wrong",
                api.name,
                version,
                exc_info=error,
                extra={"fields": self._about()},
            )
            self.give_up("there is no answer to its request")
            return
        self.client.work.spend(work_units(frame))
        self._answer(frame.buffers())

    def _answer(self, buffers: list[Buffer]) -> None:
        self.slot.answer(buffers)
        if self._throttle_ms:
            self.client.mute(self._throttle_ms)

    def _throttled_ms(self, response: Message | None) -> int:
        """How long the client is not heard because of its quotas. Brokers have none."""
        broker = self._shared.broker
        quotas = broker.quotas
        if quotas is None or self.client.is_peer:
            return 0
        from ottla.broker.requests.metering import throttle_ms

        paid_ms = throttle_ms(
            quotas,
            self.header,
            response,
            self.client.principal,
            self._frame_bytes,
            self._usage,
            broker.clock.monotonic_ms(),
        )
        if paid_ms:
            broker.metrics.on_throttled(self.header.api_key, paid_ms)
        return paid_ms

    # -- failures --------------------------------------------------------------------------------

    def _refusal(self, error: BaseException) -> Message:
        api, version = self.route.api, self.header.api_version
        if not isinstance(error, ProtocolError):
            logger.error(
                "%s v%d of %s failed",
                api.name,
                version,
                self.header.client_id,
                exc_info=error,
                extra={"fields": self._about()},
            )
            error = UnknownServerError()
        return refusal(api, version, self._request, error)

    def _about(self) -> dict[str, object]:
        client, header = self.client, self.header
        return {
            "client": f"{client.host}:{client.port}",
            "client_id": header.client_id,
            "principal": client.principal,
            "api": self.route.api.name,
            "version": header.api_version,
        }

    def _refuse_part(self, part: Message, error: Exception) -> Message:
        api, version = self.route.api, self.header.api_version
        request_name = f"a part of {api.name} v{version} of {self.header.client_id}"
        return refusal_of_parts(api, version, part, protocol_error(error, request_name))
