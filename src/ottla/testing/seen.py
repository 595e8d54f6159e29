"""What a broker was asked: the last requests, short enough to keep, readable when a test fails."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from ottla.errors import NAMES
from ottla.wire.messages import APIS
from ottla.wire.schema import Message

KEPT = 1000


@dataclass(slots=True)
class SeenRequest:
    """One request. `answer` is None while it is under way; `errors` are the protocol's names."""

    number: int
    at: float
    api: str
    version: int
    client_id: str
    topics: tuple[tuple[str, int | None], ...]
    fault: str = ""
    answer: str | None = None
    errors: tuple[str, ...] = ()
    took_ms: float = 0.0

    def __str__(self) -> str:
        names = ", ".join(topic if index is None else f"{topic}-{index}" for topic, index in self.topics[:4])
        more = ", ..." if len(self.topics) > 4 else ""
        clock = time.strftime("%H:%M:%S", time.localtime(self.at)) + f".{int(self.at * 1000) % 1000:03d}"
        fault = f"  [{self.fault}]" if self.fault else ""
        answer = "under way" if self.answer is None else f"{self.answer} in {self.took_ms:.1f} ms"
        return f"{clock} {self.client_id or '-'}: {self.api} v{self.version} {names}{more} -> {answer}{fault}"


class Seen:
    def __init__(self) -> None:
        self.requests: deque[SeenRequest] = deque(maxlen=KEPT)
        self.count = 0

    def add(
        self, api_key: int, version: int, client_id: str, topics: tuple[tuple[str, int | None], ...]
    ) -> SeenRequest:
        self.count += 1
        request = SeenRequest(self.count, time.time(), APIS[api_key].name, version, client_id, topics)
        self.requests.append(request)
        return request

    def report(self, last: int = 20) -> str:
        requests = list(self.requests)[-last:]
        return "\n".join(map(str, requests)) or "none"


def answered(request: SeenRequest, response: Message | None) -> None:
    request.took_ms = (time.time() - request.at) * 1000
    if response is None:
        request.answer = "no answer"
        return
    request.errors = tuple(dict.fromkeys(NAMES[code] for code in error_codes(response) if code))
    request.answer = ", ".join(request.errors) or "ok"


def error_codes(message: Message) -> Iterator[int]:
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            yield value
        elif field.array and value and isinstance(field.kind, type):
            for item in value:
                yield from error_codes(item)
