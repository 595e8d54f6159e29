"""One connection's conversation without I/O: requests to bytes, bytes to frames, frames to responses."""

import struct
from typing import Any

from ottla import errors
from ottla.client.errors import ConnectionLost, NotSupported
from ottla.wire import codec
from ottla.wire.codec_source import read_uvarint
from ottla.wire.messages import APIS
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.schema import Message

_REQUEST = struct.Struct(">ihhih")
_INT32 = struct.Struct(">i")
SMALL_BYTES = 64 * 1024


class Frames:
    """Cuts what arrives into frames. A large frame is received into a buffer of its own and never copied."""

    def __init__(self, frame_bytes_max: int, small_bytes: int = SMALL_BYTES) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._small = bytearray(small_bytes)
        self._filled = 0
        self._frame: bytearray | None = None  # the large frame under way
        self._received = 0

    def buffer(self) -> memoryview:
        """Where the next bytes go."""
        if self._frame is not None:
            return memoryview(self._frame)[self._received :]
        return memoryview(self._small)[self._filled :]

    def first_bytes(self, count: int) -> bytes:
        """What has arrived of the first frame, with the `count` bytes that are new in the buffer."""
        return bytes(self._small[: self._filled + count][:5])

    def received(self, count: int) -> list[memoryview]:
        """Takes note of `count` bytes in the buffer; the frames that are whole now."""
        if self._frame is None:
            self._filled += count
            return self._cut()
        self._received += count
        if self._received < len(self._frame):
            return []
        frame, self._frame = self._frame, None
        return [memoryview(frame)]

    def _cut(self) -> list[memoryview]:
        frames: list[memoryview] = []
        position = 0
        while self._filled - position >= 4:
            size = self._size_at(position)
            end = position + 4 + size
            if end > self._filled:
                if 4 + size > len(self._small):
                    self._begin_large(position + 4, size)
                    return frames
                break
            frames.append(memoryview(bytes(self._small[position + 4 : end])))
            position = end
        if position:
            rest = self._small[position : self._filled]
            self._small[: len(rest)] = rest
            self._filled = len(rest)
        return frames

    def _size_at(self, position: int) -> int:
        (size,) = _INT32.unpack_from(self._small, position)
        if not 0 <= size <= self._frame_bytes_max:
            raise ConnectionLost(
                f"a frame of {size} bytes was announced; is this a Kafka port, and TLS on both sides?"
            )
        return int(size)

    def _begin_large(self, start: int, size: int) -> None:
        self._frame = bytearray(size)
        self._received = self._filled - start
        self._frame[: self._received] = self._small[start : self._filled]
        self._filled = 0


class Dialogue:
    """Correlation ids and versions: which request is answered by what, in which form."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id.encode()
        self._next_id = 0
        self._waiting: dict[int, tuple[type[Message], int]] = {}
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}

    def learn(self, answer: ApiVersionsResponse) -> None:
        """What the broker serves, from its ApiVersions answer."""
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        self.features = {feature.name: feature.max_version_level for feature in answer.finalized_features}

    def version_for(self, request: type[Message], at_least: int = 0, at_most: int = 32767) -> int:
        """The newest version that both sides know."""
        name = request.__name__.removesuffix("Request")
        if request.API_KEY not in self.versions:
            raise NotSupported(f"the broker does not serve {name}")
        low, high = self.versions[request.API_KEY]
        version = min(high, request.VERSIONS[1], at_most)
        if version < max(low, request.VERSIONS[0], at_least):
            raise NotSupported(
                f"{name}: the broker serves versions {low} to {high}, "
                f"this needs {max(request.VERSIONS[0], at_least)} to {min(request.VERSIONS[1], at_most)}"
            )
        return version

    def request(self, message: Message, version: int, *, answered: bool = True) -> tuple[int, bytearray]:
        """The frame to send, and the id under which its answer will come."""
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        out = bytearray(_REQUEST.size)
        out += self._client_id
        if version >= type(message).FLEXIBLE_FROM:
            out.append(0)
        codec.write(message, version, out)
        _REQUEST.pack_into(
            out, 0, len(out) - 4, message.API_KEY, version, self._next_id, len(self._client_id)
        )
        if answered:
            self._waiting[self._next_id] = (type(message), version)
        return self._next_id, out

    def response(self, frame: memoryview) -> tuple[int, Any]:
        """The id and the message of an answer. Answers that do not fit end the connection."""
        if len(frame) < 4:
            raise ConnectionLost("the broker's answer has no header")
        (correlation_id,) = _INT32.unpack_from(frame)
        if correlation_id not in self._waiting:
            raise ConnectionLost(f"the broker answers request {correlation_id}, which was not asked")
        request, version = self._waiting.pop(correlation_id)
        api = APIS[request.API_KEY]
        position = 4
        if request is ApiVersionsRequest:
            version = _api_versions_form(frame, version)
        elif version >= api.flexible_from:
            position = _skip_tags(frame, position)
        message, _ = codec.read(api.response(), version, frame, position)
        return correlation_id, message


def check(response: Any) -> None:
    """Raises the error that a response carries at its top, if any."""
    if response.error_code:
        raise errors.error_for(response.error_code, getattr(response, "error_message", None) or None)


def _api_versions_form(frame: memoryview, version: int) -> int:
    """A broker that does not know our version says so in the form of version 0."""
    (error_code,) = struct.unpack_from(">h", frame, 4)
    return 0 if error_code == errors.UnsupportedVersion.code else version


def _skip_tags(frame: memoryview, position: int) -> int:
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
    return position
