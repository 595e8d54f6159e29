"""Responses as buffers for the socket."""

from ottla.ports import Buffer
from ottla.wire import codec
from ottla.wire.frames import response_header, seal
from ottla.wire.schema import Api, Message


def encode(api: Api, version: int, correlation_id: int, response: Message) -> list[Buffer]:
    """Records stay where they were read to: they are not copied into the frame."""
    frame = codec.Gather(response_header(api, version, correlation_id))
    codec.write(response, version, frame)
    seal(frame, frame.spliced_bytes)
    return frame.buffers()
