"""Traces go on from record to record, with OpenTelemetry and without."""

import asyncio
from types import SimpleNamespace

import pytest
from opentelemetry import trace

from ottla import aio
from ottla.client import Consumer, Producer, tracing
from ottla.testing import Broker

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(params=["with OpenTelemetry", "without"])
def either(request, monkeypatch):
    if request.param == "without":
        monkeypatch.setattr(tracing, "_opentelemetry", lambda: None)


def a_record(*headers):
    return SimpleNamespace(headers=headers)


def test_a_trace_goes_from_record_to_record(either):
    with Broker() as broker:
        client = {"bootstrap.servers": broker.bootstrap}
        headers = [("traceparent", PARENT.encode()), ("tracestate", b"a=1"), ("own", b"x")]
        broker.send("in", "v", headers=headers)
        with (
            Consumer({**client, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer,
            Producer({**client, "ottla.trace.context": True}) as producer,
        ):
            consumer.subscribe(["in"])
            (record,) = broker.wait_until(lambda: consumer.poll(0.5), 90, "the record")
            with tracing.continued(record) as context:
                assert context.trace_id == "0af7651916cd43dd8448eb211c80319c"
                producer.send("out", b"v")
                producer.send("out", b"v", headers=[("own", b"y")])
            producer.send("out", b"outside")
            producer.flush()
        first, second, outside = broker.records("out")
        assert list(first.headers) == [("traceparent", PARENT.encode()), ("tracestate", b"a=1")]
        assert dict(second.headers).keys() == {"own", "traceparent", "tracestate"}
        assert list(outside.headers) == []


def test_the_client_with_await_does_the_same(either):
    async def scenario(bootstrap):
        async with aio.Producer(bootstrap_servers=bootstrap, ottla_trace_context=True) as producer:
            with tracing.continued(a_record(("traceparent", PARENT.encode()))):
                await producer.send_and_wait("out", b"v")

    with Broker() as broker:
        asyncio.run(scenario(broker.bootstrap))
        assert list(broker.records("out")[0].headers) == [("traceparent", PARENT.encode())]


def test_without_the_setting_nothing_is_added():
    with Broker() as broker, Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        with tracing.continued(a_record(("traceparent", PARENT.encode()))):
            producer.send("out", b"v")
        producer.flush()
        assert list(broker.records("out")[0].headers) == []


def test_the_current_span_of_opentelemetry_goes_first():
    span = trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=False, trace_flags=trace.TraceFlags(1)))
    with tracing.continued(a_record(("traceparent", PARENT.encode()))):
        inside = trace.get_current_span().get_span_context()
        assert inside.trace_id == 0x0AF7651916CD43DD8448EB211C80319C
        with trace.use_span(span):
            (header,) = tracing.passed_on(())
            assert header == ("traceparent", f"00-{1:032x}-{2:016x}-01".encode())
    assert tracing.current() is None


def test_a_record_that_names_its_trace_keeps_it():
    with tracing.continued(a_record(("traceparent", PARENT.encode()))):
        own = (("traceparent", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-00"),)
        assert tracing.passed_on(own) == own


@pytest.mark.parametrize(
    "parent",
    [b"", b"x", PARENT.upper().encode(), PARENT.encode()[:-1], b"ff" + PARENT.encode()[2:],
     b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01", b"\xff" * 55],
)  # fmt: skip
def test_what_breaks_the_standard_is_no_trace(parent):
    with tracing.continued(a_record(("traceparent", parent))) as context:
        assert context is None
        assert tracing.passed_on(()) == ()
