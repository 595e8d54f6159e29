"""Frames on a connection: their length, and the headers of requests and responses."""

import struct
from dataclasses import dataclass

from ottla.ports import Buffer
from ottla.wire.codec_source import Malformed, read_uvarint, write_uvarint
from ottla.wire.schema import Api

LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")
_STRING = struct.Struct(">h")
PRODUCE, API_VERSIONS = 0, 18
TAGS_MAX = 1_000  # in the header of a request; clients send none
CONTROLLED_SHUTDOWN_V0 = (7, 0)  # the one request of header version 0: it has no client id


@dataclass(slots=True)
class RequestHeader:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header up to the client id, which all versions from 1 on share; tags follow in flexible ones."""
    try:
        api_key, api_version, correlation_id = _REQUEST.unpack_from(frame, 0)
        if (api_key, api_version) == CONTROLLED_SHUTDOWN_V0:
            return RequestHeader(api_key, api_version, correlation_id, None), 8
        (length,) = _STRING.unpack_from(frame, 8)
        end = 10 + max(length, 0)
        if end > len(frame):
            raise Malformed("the client id ends behind the frame")
        client_id = str(frame[10:end], "utf-8") if length >= 0 else None
    except (struct.error, UnicodeDecodeError) as error:
        raise Malformed(f"request header: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), end


def skip_tags(buffer: Buffer, position: int) -> int:
    """Where the tagged fields end: nobody needs those of the headers."""
    try:
        count, position = read_uvarint(buffer, position)
        if count > TAGS_MAX:
            raise Malformed(f"a header with {count} tagged fields")
        for _ in range(count):
            _, position = read_uvarint(buffer, position)
            size, position = read_uvarint(buffer, position)
            position += size
    except IndexError as error:
        raise Malformed("tagged fields end behind the frame") from error
    if position > len(buffer):
        raise Malformed("tagged fields end behind the frame")
    return position


def response_header(api: Api, version: int, correlation_id: int) -> bytearray:
    """Room for the frame's length, then the header. ApiVersions always has the oldest header: clients send it
    before they know what the broker speaks."""
    header = bytearray(LENGTH.size)
    header += LENGTH.pack(correlation_id)
    if version >= api.flexible_from and api.key != API_VERSIONS:
        header.append(0)
    return header


def request_header(api: Api, version: int, correlation_id: int, client_id: str | None) -> bytearray:
    """Room for the frame's length, then the header."""
    header = bytearray(LENGTH.size)
    header += _REQUEST.pack(api.key, version, correlation_id)
    if client_id is None:
        header += _STRING.pack(-1)
    else:
        name = client_id.encode()
        header += _STRING.pack(len(name)) + name
    if version >= api.flexible_from:
        write_uvarint(header, 0)
    return header


def seal(frame: bytearray, more_bytes: int = 0) -> bytearray:
    """Writes the length in front once the frame is whole; `more_bytes` follow in buffers of their own."""
    LENGTH.pack_into(frame, 0, len(frame) - LENGTH.size + more_bytes)
    return frame
