"""The HTTP sink: batches, repetitions with the same key, refusals told from failures."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from ottla.client.values import TopicPartition
from ottla.connect.errors import ConfigError, DataError, RetriableError
from ottla.connect.http import HttpSink
from ottla.connect.spi import Config, SinkBatch, SinkRecord


class Receiver(HTTPServer):
    """Answers with the codes it was given, then 200; keeps what it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.codes: list[int] = []
        self.requests: list[tuple[dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/take?x=1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((dict(self.headers), json.loads(body)))
        code = self.server.codes.pop(0) if self.server.codes else 200
        self.send_response(code)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"no" if code >= 300 else b"ok")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def a_sink(receiver: Receiver, **more: str) -> HttpSink:
    settings = {
        "http.url": receiver.url,
        "retry.backoff.ms": "1",
        **{name.replace("_", "."): each for name, each in more.items()},
    }
    return HttpSink(Config(settings, HttpSink.settings))


def write(sink: HttpSink, count: int) -> None:
    records = [SinkRecord("t", 2, i, {"id": i}) for i in range(count)]
    sink.write(SinkBatch(TopicPartition("t", 2), lambda: records, 0, count, None))
    sink.close()


def test_records_go_in_batches(receiver):
    write(a_sink(receiver, batch_size="2", http_headers="X-From: ottla", http_authorization="Bearer abc"), 5)
    assert [body for _, body in receiver.requests] == [
        [{"id": 0}, {"id": 1}],
        [{"id": 2}, {"id": 3}],
        [{"id": 4}],
    ]
    headers = receiver.requests[1][0]
    assert (headers["Idempotency-Key"], headers["X-From"], headers["Authorization"]) == (
        "t-2-2-4",
        "ottla",
        "Bearer abc",
    )


def test_single_records_go_as_they_are(receiver):
    write(a_sink(receiver, batch_size="1"), 2)
    assert [body for _, body in receiver.requests] == [{"id": 0}, {"id": 1}]


def test_a_failed_request_is_repeated_with_the_same_key(receiver):
    receiver.codes = [503, 429, 500]
    write(a_sink(receiver), 1)
    assert [headers["Idempotency-Key"] for headers, _ in receiver.requests] == ["t-2-0-1"] * 4


def test_a_receiver_that_stays_away_fails_the_step(receiver):
    receiver.codes = [503] * 9
    with pytest.raises(RetriableError, match="status 503 no, 3 times"):
        write(a_sink(receiver, max_retries="2"), 1)


def test_a_refused_record_is_an_error_of_the_record(receiver):
    receiver.codes = [422]
    with pytest.raises(DataError, match="refuses t-2-0-1: status 422"):
        write(a_sink(receiver), 1)


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="an address like https"):
        Config({"http.url": "somewhere"}, HttpSink.settings)
    with pytest.raises(ConfigError, match="NAME:VALUE"):
        HttpSink(Config({"http.url": "http://h", "http.headers": "x"}, HttpSink.settings))
