"""A tiny client that says exactly what a scenario wants said, in every version, right or wrong.

Messages are written as plain dicts with the protocol's field names. A field that a version does not
have is left out, so that one dict serves all versions; times are integer milliseconds under their
protocol names without the suffix. Answers come back as plain dicts too.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import select
import socket
import struct
import time
import typing
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any

import kio.index
import kio.serial
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

KEYS = {name: key for key, name in api_key_map.items()}
Plain = Any  # dicts, lists, strings, numbers, bytes
PATIENCE_S = 120  # of a busy machine; nothing waits so long where all is well


class Closed(Exception):
    """The server closed the connection instead of answering."""


class Raw:
    """One connection. Not thread-safe; answers are expected in order."""

    def __init__(self, bootstrap: str, client_id: str | None = "raw", timeout_s: float = PATIENCE_S) -> None:
        host, port = bootstrap.split(",")[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._correlation = 0

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, api: str, version: int, body: Mapping[str, Plain] | None = None) -> dict[str, Plain]:
        self.send(api, version, body)
        return self.receive(api, version)

    def send(self, api: str, version: int, body: Mapping[str, Plain] | None = None) -> None:
        self.send_frame(self.frame(api, version, body))

    def frame(self, api: str, version: int, body: Mapping[str, Plain] | None = None) -> bytes:
        """The request's bytes without the length, for scenarios that damage them first."""
        self._correlation += 1
        kind = kio.index.load_request_schema(KEYS[api], version)
        header = kind.__header_schema__
        buffer = io.BytesIO()
        fields = {
            "request_api_key": KEYS[api],
            "request_api_version": version,
            "correlation_id": self._correlation,
            "client_id": self._client_id,
        }
        kio.serial.entity_writer(header)(buffer, build(header, fields))
        kio.serial.entity_writer(kind)(buffer, build(kind, body or {}))
        return buffer.getvalue()

    def receive(self, api: str, version: int) -> dict[str, Plain]:
        kind = kio.index.load_response_schema(KEYS[api], version)
        frame = self.receive_frame()
        header, header_size = kio.serial.entity_reader(kind.__header_schema__)(frame, 0)
        if header.correlation_id != self._correlation:
            raise AssertionError(f"answer {header.correlation_id} to request {self._correlation}")
        answer, size = kio.serial.entity_reader(kind)(frame, header_size)
        if (behind := len(frame) - header_size - size) != 0:
            raise AssertionError(f"{behind} bytes behind the {api} v{version} response")
        plain_answer: dict[str, Plain] = plain(answer)
        return plain_answer

    def send_frame(self, frame: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise Closed from error

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def wait_for_answer(self, timeout_s: float = PATIENCE_S) -> bool:
        """True once an answer begins to arrive, False if none does; it is left to be received."""
        return bool(select.select([self._socket], [], [], timeout_s)[0])

    def is_closed_by_server(self, timeout_s: float = PATIENCE_S) -> bool:
        """True once the server has closed; False if it stays open, silent, for the given time."""
        self._socket.settimeout(timeout_s)
        try:
            while self._socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                chunk = self._socket.recv(count - len(data))
            except ConnectionError as error:
                raise Closed from error
            if not chunk:
                raise Closed
            data += chunk
        return data


def ask_until(ask: Callable[[], Plain], holds: Callable[[Plain], bool], what: str) -> Plain:
    """The first answer for which it holds. Servers settle by themselves; how fast, the machine decides."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds(answer := ask()):
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}; the last answer: {answer}"
    return answer


def versions(bootstrap: str) -> dict[str, range]:
    """What the server advertises, by API name; names kio does not know are left out."""
    with Raw(bootstrap) as raw:
        answer = raw.call("api_versions", 0)
    return {
        api_key_map[each["api_key"]]: range(each["min_version"], each["max_version"] + 1)
        for each in answer["api_keys"]
        if each["api_key"] in api_key_map
    }


def served(bootstrap: str, api: str) -> list[int]:
    """The advertised versions of an API that exist in the schemas (Produce 0-2 are advertised only)."""
    return [v for v in versions(bootstrap).get(api, range(0)) if v in schema_name_map[api]]


def build(kind: type[Any], fields: Mapping[str, Plain]) -> Any:
    """A message of this class from a dict; what the class does not have is dropped."""
    known = _field_types(kind)  # type: ignore[arg-type]
    values = {name: _convert(known[name], value) for name, value in fields.items() if name in known}
    return kind(**{**_zeros(kind), **values})  # type: ignore[arg-type]


def plain(value: Any) -> Plain:
    """Dicts and lists of a message, error codes by name, times in milliseconds, ids as text."""
    if dataclasses.is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, ErrorCode):
        return value.name.upper()
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes | memoryview | bytearray):
        return bytes(value)
    return value


@cache
def _field_types(kind: type[Any]) -> dict[str, tuple[Any, str]]:
    hints = typing.get_type_hints(kind)
    return {
        each.name: (hints[each.name], each.metadata.get("kafka_type", ""))
        for each in dataclasses.fields(kind)
    }


@cache
def _zeros(kind: type[Any]) -> dict[str, Any]:
    """The protocol's implicit defaults, for fields whose schema names none."""
    return {
        each.name: _zero(*_field_types(kind)[each.name])  # type: ignore[arg-type]
        for each in dataclasses.fields(kind)
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
    }


def _zero(hint: Any, kafka_type: str) -> Any:
    if isinstance(hint, UnionType):
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    if dataclasses.is_dataclass(hint):
        return build(typing.cast("type[Any]", hint), {})
    if kafka_type.startswith("timedelta"):
        return datetime.timedelta()
    return {"string": "", "bytes": b"", "records": b"", "bool": False, "uuid": None}.get(kafka_type, 0)


def _convert(known: tuple[Any, str], value: Plain) -> Any:
    hint, kafka_type = known
    if value is None:
        return None
    if isinstance(hint, UnionType):
        hint = next(each for each in typing.get_args(hint) if each is not type(None))
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return tuple(_convert((inner, kafka_type), each) for each in value)
    if dataclasses.is_dataclass(hint):
        return build(typing.cast("type[Any]", hint), value)
    if kafka_type.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if kafka_type.startswith("datetime"):
        return datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)
    if kafka_type == "uuid":
        return uuid.UUID(value) if isinstance(value, str) else value
    if kafka_type == "error_code":
        return ErrorCode(value)
    return value


__all__ = ["KEYS", "Closed", "EntityType", "Raw", "ask_until", "build", "plain", "served", "versions"]
