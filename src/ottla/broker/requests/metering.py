"""What a request costs its client: bytes sent and received, time on the event loop; and how long it pays for them."""

from collections.abc import Coroutine, Generator
from types import coroutine
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.requests.client import Client
from ottla.broker.waits import Wait
from ottla.ports import Clock
from ottla.security.quotas import FETCH, PRODUCE, REQUEST
from ottla.wire.frames import RequestHeader
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.share_fetch import ShareFetchRequest
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.security.quotas import Quotas

THROTTLE = "throttle_time_ms"
FETCHES = FetchRequest.API_KEY, ShareFetchRequest.API_KEY


class Stopwatch(Protocol):
    def stopwatch_ms(self) -> float: ...


class Usage:
    """The time that a request has taken of the event loop; what it waited for others is not counted."""

    __slots__ = ("_clock", "spent_ms")

    def __init__(self, clock: Stopwatch) -> None:
        self._clock = clock
        self.spent_ms = 0.0

    @coroutine
    def timed(self, handler: Coroutine[Wait[Any], None, Any]) -> Generator[Wait[Any], None, Any]:
        """The same handler, each of its steps counted."""
        stopwatch_ms = self._clock.stopwatch_ms
        try:
            while True:
                began_ms = stopwatch_ms()
                try:
                    wait = handler.send(None)
                except StopIteration as end:
                    return end.value
                finally:
                    self.spent_ms += stopwatch_ms() - began_ms
                yield wait
        finally:
            handler.close()


def usage_of(quotas: "Quotas | None", client: Client, clock: Clock) -> Usage | None:
    """None where nobody counts the time: brokers have no quotas."""
    if quotas is None or REQUEST not in quotas.keys or client.is_peer:
        return None
    return Usage(clock)


def throttle_ms(
    quotas: "Quotas",
    header: RequestHeader,
    response: Message | None,
    principal: str,
    frame_bytes: int,
    usage: Usage | None,
    now_ms: int,
) -> int:
    """How long the client is not heard for the most exceeded of its quotas; the answer tells it."""
    client_id = header.client_id or ""
    longest = getattr(response, THROTTLE, 0)  # the controller's, for changes of partitions
    if header.api_key == ProduceRequest.API_KEY:
        longest = max(longest, quotas.throttle_ms(PRODUCE, principal, client_id, frame_bytes, now_ms))
    elif header.api_key in FETCHES:
        count = fetched_bytes(response)
        longest = max(longest, quotas.throttle_ms(FETCH, principal, client_id, count, now_ms))
    if usage is not None:
        longest = max(longest, quotas.request_throttle_ms(principal, client_id, usage.spent_ms, now_ms))
    if longest and response is not None and THROTTLE in response.__slots__:
        response.throttle_time_ms = longest  # type: ignore[attr-defined]
    return longest


def fetched_bytes(response: Any) -> int:
    """The records of a fetch's answer."""
    if response is None:
        return 0
    return sum(len(data.records or b"") for topic in response.responses for data in topic.partitions)
