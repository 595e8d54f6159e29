"""Traces that go on from record to record: the W3C headers `traceparent` and `tracestate`, in and out.

    producer = Producer({"ottla.trace.context": True, ...})
    for record in consumer:
        with tracing.continued(record):
            producer.send("out", value)  # carries the trace of the record

Where `opentelemetry-api` is installed its current span goes first, and `continued` makes the record's trace its current
one. Without it the headers are passed on as they are. Brokers see headers like any others.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple, Protocol

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
STATE_BYTES_MAX = 512  # what the standard asks everybody to take
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")

Headers = tuple[tuple[str, bytes | None], ...]


class TraceContext(NamedTuple):
    traceparent: str
    tracestate: str = ""

    @property
    def trace_id(self) -> str:
        return self.traceparent.split("-")[1]

    def to_headers(self) -> Headers:
        headers: Headers = ((TRACEPARENT, self.traceparent.encode()),)
        return (*headers, (TRACESTATE, self.tracestate.encode())) if self.tracestate else headers


class WithHeaders(Protocol):
    @property
    def headers(self) -> Iterable[tuple[str, bytes | None]]: ...


_current: ContextVar[TraceContext | None] = ContextVar("ottla_trace_context", default=None)


def context_of(record: WithHeaders) -> TraceContext | None:
    """The trace that a record belongs to; None if it has none, or one that breaks the standard."""
    headers = {name: value for name, value in record.headers if name in (TRACEPARENT, TRACESTATE) and value}
    parent = (headers.get(TRACEPARENT) or b"").decode("latin-1")
    if not _PARENT.fullmatch(parent):
        return None
    state = (headers.get(TRACESTATE) or b"").decode("latin-1")
    return TraceContext(parent, state if len(state) <= STATE_BYTES_MAX else "")


@contextmanager
def continued(record: WithHeaders) -> Iterator[TraceContext | None]:
    """What is sent inside belongs to the record's trace. A record without one leaves the current one as it is."""
    context = context_of(record)
    if context is None:
        yield None
        return
    token = _current.set(context)
    detach = _attach(context)
    try:
        yield context
    finally:
        detach()
        _current.reset(token)


def current() -> TraceContext | None:
    """OpenTelemetry's current span, else the record that is being continued."""
    return _span_context() or _current.get()


def passed_on(headers: Headers) -> Headers:
    """With the current trace, unless they name one."""
    context = current()
    if context is None or any(name == TRACEPARENT for name, _ in headers):
        return headers
    return (*headers, *context.to_headers())


# -- OpenTelemetry, where it is installed --------------------------------------------------------


@cache
def _opentelemetry() -> Any:
    try:
        from opentelemetry import context, trace
    except ImportError:
        return None
    return context, trace


def _span_context() -> TraceContext | None:
    installed = _opentelemetry()
    if installed is None:
        return None
    _, trace = installed
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    parent = f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}"
    return TraceContext(parent, span.trace_state.to_header())


def _attach(traced: TraceContext) -> Any:
    """Makes it the parent of spans that are started now; the way back."""
    installed = _opentelemetry()
    if installed is None:
        return _nothing
    context, trace = installed
    _, trace_id, span_id, flags = traced.traceparent.split("-")[:4]
    span = trace.SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(int(flags, 16)),
        trace_state=trace.TraceState.from_header([traced.tracestate] if traced.tracestate else []),
    )
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(span)))
    return lambda: context.detach(token)


def _nothing() -> None: ...
