"""Counters of what the broker does. Plain numbers on the hot path; Prometheus' text when asked."""

from collections import Counter

from ottla.broker.routes import ROUTES, Handler
from ottla.wire.frames import RequestHeader
from ottla.wire.schema import Message


class Metrics:
    """An Observer of the dispatcher, and the numbers that others add to."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[int, int]] = Counter()  # (API key, version)
        self.request_bytes: Counter[int] = Counter()
        self.counts: Counter[str] = Counter()

    def on_request(self, header: RequestHeader, request: Message, handler: Handler) -> Handler:
        self.requests[header.api_key, header.api_version] += 1
        return handler

    def on_answer(self, header: RequestHeader, response: Message | None, frame_bytes: int) -> None:
        self.request_bytes[header.api_key] += frame_bytes

    def lines(self) -> list[str]:
        lines = ["# TYPE ottla_requests_total counter"]
        for (key, version), count in sorted(self.requests.items()):
            name = ROUTES[key].api.name
            lines.append(f'ottla_requests_total{{api="{name}",version="{version}"}} {count}')
        lines.append("# TYPE ottla_request_bytes_total counter")
        for key, count in sorted(self.request_bytes.items()):
            lines.append(f'ottla_request_bytes_total{{api="{ROUTES[key].api.name}"}} {count}')
        for name, count in sorted(self.counts.items()):
            lines += [f"# TYPE {name} counter", f"{name} {count}"]
        return lines
