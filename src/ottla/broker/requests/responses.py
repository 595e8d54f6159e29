"""Responses as buffers for the socket."""

from collections.abc import Generator

from ottla.wire import codec
from ottla.wire.frames import response_header, seal
from ottla.wire.schema import Api, Message

ELEMENTS_AT_ONCE = 1_000  # array elements that are read or written in one step: about a millisecond
BYTE_UNITS = 30  # of work: a byte that is not of a record takes about 30 nanoseconds


def encode(
    api: Api,
    version: int,
    correlation_id: int,
    response: Message,
    elements_max: int = ELEMENTS_AT_ONCE,
) -> codec.Gather:
    """Records stay where they were read to: they are not copied into the frame.

    TooManyElements if it takes too long to do it at once."""
    frame = codec.Gather(response_header(api, version, correlation_id))
    codec.write_bounded(response, version, frame, elements_max=elements_max)
    seal(frame, frame.spliced_bytes)
    return frame


def encode_in_steps(
    api: Api, version: int, correlation_id: int, response: Message
) -> Generator[None, None, codec.Gather]:
    frame = codec.Gather(response_header(api, version, correlation_id))
    yield from codec.write_in_steps(response, version, frame)
    seal(frame, frame.spliced_bytes)
    return frame


def work_units(frame: codec.Gather) -> int:
    """What it took to write an answer. Records are only passed on: they counted when they were read."""
    return BYTE_UNITS * len(frame)
