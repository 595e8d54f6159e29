"""A sink that sends records to a web address, in batches. At least once: a request whose answer is lost is repeated.

Each request carries `Idempotency-Key: TOPIC-PARTITION-BEGIN-END`, the same again when it is repeated with the same
records, so a receiver that remembers keys can make it exactly once.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Sequence
from datetime import date, datetime
from datetime import time as clock_time
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from ottla.connect.errors import ConfigError, DataError, RetriableError
from ottla.connect.settings import HIGH, INT, LIST, PASSWORD, Setting
from ottla.connect.spi import Config, Sink, SinkBatch, SinkRecord

_RETRIED = frozenset({408, 425, 429})  # beside all from 500 on


def _is_address(value: str) -> str | None:
    parts = urlsplit(value)
    if parts.scheme in ("http", "https") and parts.hostname:
        return None
    return f"Invalid value {value} for configuration http.url: an address like https://host/path is needed"


class HttpSink(Sink):
    settings = (
        Setting("http.url", doc="where requests go", importance=HIGH, check=_is_address),
        Setting("http.method", default="POST", choices=("POST", "PUT", "PATCH")),
        Setting("http.headers", LIST, "", "NAME:VALUE, sent with every request"),
        Setting("http.authorization", PASSWORD, None, "the value of the header Authorization"),
        Setting("batch.size", INT, 500, "records of a request as a JSON array; 1: a record as it is", HIGH, least=1),
        Setting("max.retries", INT, 10, "how often a request is repeated before the step fails", least=0),
        Setting("retry.backoff.ms", INT, 200, "the first pause; it doubles up to 30 s", least=1),
        Setting("request.timeout.ms", INT, 30_000, "how long an answer is waited for", least=1),
    )  # fmt: skip

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        parts = urlsplit(config["http.url"])
        self._address = parts
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._headers = {"Content-Type": "application/json", **_headers(config["http.headers"])}
        authorization = config.password("http.authorization")
        if authorization:
            self._headers["Authorization"] = authorization
        self._connection: http.client.HTTPConnection | None = None

    def write(self, batch: SinkBatch) -> None:
        size = self.config["batch.size"]
        records = batch.records
        for begin in range(0, len(records), size):
            self._send(batch, records[begin : begin + size])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, batch: SinkBatch, records: Sequence[SinkRecord]) -> None:
        values = [record.value for record in records]
        shown = values[0] if self.config["batch.size"] == 1 else values
        body = json.dumps(shown, default=_plain, ensure_ascii=False).encode()
        key = f"{batch.where.topic}-{batch.where.partition}-{records[0].offset}-{records[-1].offset + 1}"
        for attempt in range(self.config["max.retries"] + 1):
            if attempt:
                time.sleep(min(30.0, self.config["retry.backoff.ms"] / 1000 * 2 ** (attempt - 1)))
            problem = self._request(body, key)
            if problem is None:
                return
        raise RetriableError(f"{self.config['http.url']}: {problem}, {self.config['max.retries'] + 1} times")

    def _request(self, body: bytes, key: str) -> str | None:
        """What went wrong and may go well later; None if the receiver has taken it."""
        try:
            connection = self._connected()
            connection.request(
                self.config["http.method"], self._path, body, {**self._headers, "Idempotency-Key": key}
            )
            answer = connection.getresponse()
            text = answer.read(2000).decode(errors="replace")
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return f"{type(error).__name__} {error}"
        if answer.status < 300:
            return None
        said = f"status {answer.status} {' '.join(text.split())[:200]}"
        if answer.status >= 500 or answer.status in _RETRIED:
            return said
        raise DataError(f"{self.config['http.url']} refuses {key}: {said}")

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            host, port = self._address.hostname or "", self._address.port
            timeout_s = self.config["request.timeout.ms"] / 1000
            if self._address.scheme == "https":
                context = ssl.create_default_context()
                self._connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
            else:
                self._connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        return self._connection


def _headers(listed: Sequence[str]) -> dict[str, str]:
    headers = {}
    for header_text in listed:
        name, separator, value = header_text.partition(":")
        if not separator:
            raise ConfigError(f"http.headers has {header_text!r}; NAME:VALUE is needed")
        headers[name.strip()] = value.strip()
    return headers


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | clock_time():
            return value.isoformat()
        case Decimal():
            return str(value)
    raise DataError(f"a {type(value).__name__} cannot be sent as JSON")
