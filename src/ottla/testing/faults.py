"""Faults that a test orders: an error, a delay or a closed connection in the place of an answer.

A rule says which requests it is for and how many of them. The first one that fits a request takes it.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.broker.requests.context import Context
from ottla.broker.requests.refusals import CloseConnection, refusal
from ottla.broker.routes import Handler
from ottla.broker.waits import pause
from ottla.errors import ProtocolError
from ottla.testing.names import TopicIndex
from ottla.wire.messages import APIS
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.schema import Message

FETCH, METADATA = 1, 3
# Errors of the session as a whole; all others are of partitions.
_FETCH_SESSION_ERRORS = (70, 71, 106)


@dataclass(slots=True)
class Fault:
    """An order for the next `times` requests (None: all) that fit. `met` counts those it took."""

    api_key: int
    error: ProtocolError | None = None
    delay_ms: int = 0
    close: bool = False
    after_effect: bool = False
    times: int | None = 1
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    met: int = 0
    on_cancel: Callable[["Fault"], None] = field(default=lambda fault: None, repr=False)

    @property
    def is_spent(self) -> bool:
        return self.times is not None and self.met >= self.times

    def cancel(self) -> None:
        self.on_cancel(self)

    def __enter__(self) -> "Fault":
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def __str__(self) -> str:
        what = "closed" if self.close else self.error.name() if self.error else f"{self.delay_ms} ms late"
        return f"ordered: {what}{' after its effect' if self.after_effect else ''}"

    def fits(self, api_key: int, client_id: str, topics: tuple[TopicIndex, ...]) -> bool:
        if api_key != self.api_key or self.is_spent:
            return False
        if self.client_id is not None and client_id != self.client_id:
            return False
        return self.topic is None or any(self.is_about(*topic) for topic in topics)

    def is_about(self, topic: str, index: int | None) -> bool:
        if self.topic is not None and topic != self.topic:
            return False
        return self.partition is None or index is None or index == self.partition

    def instead_of(self, handler: Handler, about: tuple[TopicIndex, ...]) -> Handler:
        """A handler that does what was ordered."""

        async def faulty(request: Any, context: Context) -> Any:
            if self.after_effect:
                response = await handler(request, context)
                await self._wait(context)
                return self._changed(response, request, context, about)
            await self._wait(context)
            if self.close:
                raise CloseConnection("a test ordered it")
            if self.error is None:
                return await handler(request, context)
            if self.api_key in (FETCH, METADATA):  # they only read, and the error needs the rest around it
                if isinstance(request, FetchRequest):
                    request.max_wait_ms = 0
                return self._changed(await handler(request, context), request, context, about)
            return refusal(APIS[self.api_key], context.api_version, request, self.error)

        return faulty

    async def _wait(self, context: Context) -> None:
        if self.delay_ms:
            await pause(context.clock, self.delay_ms)

    def _changed(
        self, response: Any, request: Message, context: Context, about: tuple[TopicIndex, ...]
    ) -> Any:
        if self.close:
            raise CloseConnection("a test ordered it")
        if self.error is None or response is None:
            return response
        if isinstance(response, FetchResponse):
            return self._fetch_failed(response, self.error, context, about)
        stamp(response, self.error)
        return response

    def _fetch_failed(
        self, response: FetchResponse, error: ProtocolError, context: Context, about: tuple[TopicIndex, ...]
    ) -> FetchResponse:
        if error.code in _FETCH_SESSION_ERRORS:
            return FetchResponse(error_code=error.code)
        image = context.metadata.image
        topics: list[FetchableTopicResponse] = []
        for name, pairs in itertools.groupby(about, key=lambda pair: pair[0]):
            indexes = [index for topic, index in pairs if self.is_about(topic, index) and index is not None]
            known = image.topics.get(name)
            topics.append(
                FetchableTopicResponse(
                    topic=name,
                    topic_id=known.topic_id if known is not None else bytes(16),
                    partitions=[_failed_partition(index, error) for index in indexes],
                )
            )
        return FetchResponse(session_id=response.session_id, responses=topics)


def _failed_partition(index: int, error: ProtocolError) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error.code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        records=b"",
    )


def stamp(message: Message, error: ProtocolError) -> bool:
    """The error at the deepest places that can hold it; whether there was one."""
    stamped = False
    for described in message.FIELDS:
        value = getattr(message, described.name)
        if described.array and value and isinstance(described.kind, type):
            stamped = [stamp(item, error) for item in value].count(True) > 0 or stamped
    for name in ("error_code", "partition_error_code"):
        if not stamped and name in message.__slots__:
            setattr(message, name, error.code)
            return True
    return stamped


class Faults:
    """All orders of a broker, first come first served. Changed on the broker's loop alone."""

    def __init__(self) -> None:
        self._orders: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self._orders.append(fault)

    def remove(self, fault: Fault) -> None:
        if fault in self._orders:
            self._orders.remove(fault)

    def clear(self) -> None:
        self._orders.clear()

    def __bool__(self) -> bool:
        return bool(self._orders)

    def take(self, api_key: int, client_id: str, topics: tuple[TopicIndex, ...]) -> Fault | None:
        for fault in self._orders:
            if fault.fits(api_key, client_id, topics):
                fault.met += 1
                if fault.is_spent:
                    self._orders.remove(fault)
                return fault
        return None
