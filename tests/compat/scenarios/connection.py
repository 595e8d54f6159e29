"""Connections by raw bytes: versions nobody has, broken frames, pipelining."""

from __future__ import annotations

import struct

from tests.compat.answers import Session
from tests.compat.raw import Closed, Raw


def api_versions(s: Session) -> None:
    for version in s.versions("api_versions"):
        body = {"client_software_name": "a-client", "client_software_version": "1.0"}
        s.note(f"v{version}", s.ask("api_versions", body, version)["error_code"])
    for name in ("", "-", "a b", "a!", "-a", "a-"):
        for version in s.versions("api_versions", 3):
            body = {"client_software_name": name, "client_software_version": "1"}
            s.note(f"v{version} name {name!r}", s.ask("api_versions", body, version)["error_code"])


def an_api_versions_request_from_the_future(s: Session) -> None:
    with s.connect() as raw:
        raw.send_frame(_header(18, 99, 7) + b"\0garbage")
        frame = raw.receive_frame()
    correlation, error, count = struct.unpack_from(">ihi", frame)
    keys = [struct.unpack_from(">hhh", frame, 10 + 6 * i) for i in range(count)]
    s.note(
        "answer",
        {"correlation": correlation, "error": error, "own range": [each for each in keys if each[0] == 18]},
    )


def what_nobody_serves_closes_the_connection(s: Session) -> None:
    """The bytes behind the header are anybody's guess, so nothing can follow them."""
    frames = {
        "unknown key": _header(999, 0) + b"\0\0",
        "negative key": _header(-1, 0),
        "removed key": _header(4, 0),
        "version too high": _header(3, 99) + b"\0\0\0\0",
        "version too low": _header(1, 0) + b"\0" * 30,
        "negative version": _header(3, -1) + b"\0\0\0\0",
        "produce 2": _header(0, 2) + b"\0" * 30,
        "no header": b"",
        "half a header": b"\0\3\0",
        "header without a client id": struct.pack(">hhi", 3, 1, 5),
        "client id beyond the frame": struct.pack(">hhih", 3, 1, 5, 30_000),
        "body cut short": _header(3, 1) + b"\0\0",
        "absurd count": _header(3, 1) + struct.pack(">i", 2**31 - 1),
        "absurd string": _header(3, 1) + struct.pack(">ih", 1, 32_000) + b"a",
        "overlong varint": _header(3, 9) + b"\0" + b"\xff" * 12,
    }
    for note, frame in frames.items():
        with s.connect() as raw:
            raw.send_frame(frame)
            s.note(note, _outcome(raw))


def bytes_behind_a_request_are_not_looked_at(s: Session) -> None:
    """librdkafka leaves three behind when it asks for all topics."""
    for version in s.versions("metadata", 1):
        with s.connect() as raw:
            raw.send_frame(raw.frame("metadata", version, {"topics": []}) + b"abc")
            s.note(f"v{version}", _outcome(raw))


def frames_of_wrong_length(s: Session) -> None:
    for note, size in {"negative": -1, "absurd": 2**31 - 1, "zero": 0}.items():
        with s.connect() as raw:
            raw.send_bytes(struct.pack(">i", size) + b"x" * 20)
            s.note(note, _outcome(raw))


def http_on_the_wrong_port(s: Session) -> None:
    with s.connect() as raw:
        raw.send_bytes(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        s.note("outcome", _outcome(raw))


def answers_keep_the_order_of_the_requests(s: Session) -> None:
    name = s.topic("pipeline")
    with s.connect() as raw:
        frames = [raw.frame("metadata", 1, {"topics": [{"name": name}]}) for _ in range(20)]
        raw.send_bytes(b"".join(struct.pack(">i", len(each)) + each for each in frames))
        answers = [struct.unpack_from(">i", raw.receive_frame())[0] for _ in range(20)]
    s.note("in order", answers == sorted(answers))


def a_frame_that_arrives_byte_by_byte(s: Session) -> None:
    with s.connect() as raw:
        frame = raw.frame("api_versions", 0)
        for byte in struct.pack(">i", len(frame)) + frame:
            raw.send_bytes(bytes([byte]))
        s.note("answered", raw.receive("api_versions", 0)["error_code"])


def a_client_without_a_name(s: Session) -> None:
    with s.connect(client_id=None) as raw:
        for version in s.versions("metadata", 1):
            s.note(f"v{version}", raw.call("metadata", version, {"topics": []})["topics"])


def _header(key: int, version: int, correlation: int = 1) -> bytes:
    return struct.pack(">hhih", key, version, correlation, 1) + b"c"


def _outcome(raw: Raw) -> str:
    try:
        raw.receive_frame()
    except Closed:
        return "closed"
    except TimeoutError:
        return "silent"
    return "answered"
