"""Between the dispatcher and the handlers: notes every request, and hands some of them to faults."""

from collections.abc import Iterator
from typing import Any

from ottla.broker.broker import Broker
from ottla.broker.requests.context import Context
from ottla.broker.requests.exchange import Observer
from ottla.broker.requests.refusals import CloseConnection
from ottla.broker.routes import Handler
from ottla.errors import ProtocolError
from ottla.testing.faults import Faults
from ottla.testing.names import TopicIndex, topics_of
from ottla.testing.seen import Seen, SeenRequest, answered
from ottla.testing.waiting import News
from ottla.wire.frames import RequestHeader
from ottla.wire.schema import Message


class Watch:
    """Of one node's life. What was seen and what was ordered outlive it."""

    def __init__(self, metrics: Observer, broker: Broker, faults: Faults, seen: Seen, news: News) -> None:
        self._metrics, self._broker = metrics, broker
        self._faults, self._seen, self._news = faults, seen, news

    def on_request(self, header: RequestHeader, request: Message, handler: Handler) -> Handler:
        handler = self._metrics.on_request(header, request, handler)
        topics = topics_of(request, self._name_of, self._session)
        client_id = header.client_id or ""
        noted = self._seen.add(header.api_key, header.api_version, client_id, topics)
        fault = self._faults.take(header.api_key, client_id, topics) if self._faults else None
        if fault is not None:
            noted.fault = str(fault)
            handler = fault.instead_of(handler, topics)
        self._news.tell()
        return _watched(handler, noted)

    def on_answer(self, header: RequestHeader, response: Message | None, frame_bytes: int) -> None:
        self._metrics.on_answer(header, response, frame_bytes)
        self._news.tell()

    def _name_of(self, topic_id: bytes) -> str | None:
        topic = self._broker.image.topics_by_id.get(topic_id)
        return topic.name if topic is not None else None

    def _session(self, session_id: int) -> Iterator[TopicIndex]:
        for topic, index in self._broker.sessions.partitions(session_id):
            name = topic if isinstance(topic, str) else self._name_of(topic)
            if name is not None:
                yield name, index


def _watched(handler: Handler, noted: SeenRequest) -> Handler:
    async def watched(request: Any, context: Context) -> Any:
        try:
            response = await handler(request, context)
        except ProtocolError as error:
            noted.errors = (error.name(),)
            noted.answer = error.name()
            raise
        except CloseConnection:
            noted.answer = "connection closed"
            raise
        except GeneratorExit:
            noted.answer = "the client is gone"
            raise
        except Exception as error:
            noted.answer = f"{type(error).__name__}: {error}"
            raise
        answered(noted, response)
        return response

    return watched
