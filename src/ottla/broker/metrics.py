"""Counters of what the broker does. Plain numbers on the hot path; text is made of them when asked."""

from collections import Counter

from ottla.broker.requests.times import ApiTimes
from ottla.broker.routes import Handler
from ottla.metadata.records import RECOVERING, PartitionChanged, Record
from ottla.wire.frames import RequestHeader
from ottla.wire.schema import Message


class Metrics:
    """An Observer of the dispatcher, and the numbers that others add to."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[int, int]] = Counter()  # (API key, version)
        self.request_bytes: Counter[int] = Counter()
        self.errors: Counter[tuple[int, int]] = Counter()  # (API key, error code), of whole responses
        self.times: dict[int, ApiTimes] = {}
        self.throttled_ms: Counter[int] = Counter()  # by API key
        self.throttles: Counter[int] = Counter()
        self.counts: Counter[str] = Counter()
        self.unclean_elections = 0
        self._recovering: set[tuple[bytes, int]] = set()

    def on_request(self, header: RequestHeader, request: Message, handler: Handler) -> Handler:
        self.requests[header.api_key, header.api_version] += 1
        return handler

    def on_answer(self, header: RequestHeader, response: Message | None, frame_bytes: int) -> None:
        self.request_bytes[header.api_key] += frame_bytes
        code = getattr(response, "error_code", 0)
        if code:
            self.errors[header.api_key, code] += 1

    def times_of(self, api_key: int) -> ApiTimes:
        times = self.times.get(api_key)
        if times is None:
            times = self.times[api_key] = ApiTimes()
        return times

    def on_throttled(self, api_key: int, milliseconds: int) -> None:
        self.throttled_ms[api_key] += milliseconds
        self.throttles[api_key] += 1

    def on_record(self, record: Record) -> None:
        """Of the metadata log: an unclean election leaves its partition recovering."""
        if isinstance(record, PartitionChanged):
            key = record.topic_id, record.partition
            if record.recovery_state != RECOVERING:
                self._recovering.discard(key)
            elif key not in self._recovering:
                self._recovering.add(key)
                self.unclean_elections += 1
