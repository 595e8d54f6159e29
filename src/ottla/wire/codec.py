"""Messages to and from bytes, by code that `codec_source` compiles for each class and version.

Reading trusts nothing: whatever does not fit raises `Malformed`. A length beyond the end of the buffer
yields a short slice and a position behind the end, which the last check of `read` catches; a count beyond
it runs into the end of the buffer at the first missing element, as every element takes at least a byte.

There are three ways to read and to write: all at once; all at once with a bound on the number of array elements,
as a byte on the wire may become an object a hundred times as large; and in steps of about a millisecond, as a
generator, so that others can have their turn in between.
"""

import struct
from collections.abc import Generator
from typing import TypeVar

from ottla.ports import Buffer
from ottla.wire.codec_source import BOUNDED, IN_STEPS, STEP_ELEMENTS, has_arrays, reader, writer
from ottla.wire.codec_source import Malformed as Malformed
from ottla.wire.codec_source import TooManyElements as TooManyElements
from ottla.wire.gather import Gather as Gather
from ottla.wire.schema import Message

M = TypeVar("M", bound=Message)

_DAMAGE = (struct.error, IndexError, UnicodeDecodeError, OverflowError)  # what reading damaged bytes raises


class Count:
    """Of array elements, while a message is read or written."""

    __slots__ = ("left", "step_at")

    def __init__(self, elements_max: int) -> None:
        self.left = elements_max
        self.step_at = elements_max - STEP_ELEMENTS  # how many are left when the step is over


def read(cls: type[M], version: int, buffer: Buffer, position: int = 0) -> tuple[M, int]:
    """The message at `position`, and where it ends."""
    try:
        message, end = reader(cls, version)(buffer, position)
    except _DAMAGE as error:
        raise _malformed(cls, version, error) from error
    _check_end(cls, version, buffer, end)
    return message, end


def read_bounded(
    cls: type[M], version: int, buffer: Buffer, position: int = 0, *, elements_max: int
) -> tuple[M, int, int]:
    """As `read`, and how many array elements there are; TooManyElements if these are more than allowed."""
    count = Count(elements_max)
    try:
        message, end = reader(cls, version, BOUNDED)(buffer, position, count)
    except _DAMAGE as error:
        raise _malformed(cls, version, error) from error
    _check_end(cls, version, buffer, end)
    return message, end, elements_max - count.left


def read_in_steps(
    cls: type[M], version: int, buffer: Buffer, position: int = 0, *, elements_max: int
) -> Generator[None, None, tuple[M, int, int]]:
    """As `read_bounded`; yields after each step."""
    count = Count(elements_max)
    reading = reader(cls, version, IN_STEPS)
    try:
        message, end = (
            (yield from reading(buffer, position, count))
            if has_arrays(cls, version)
            else reading(buffer, position, count)
        )
    except _DAMAGE as error:
        raise _malformed(cls, version, error) from error
    _check_end(cls, version, buffer, end)
    return message, end, elements_max - count.left


def write(message: Message, version: int, into: bytearray | None = None) -> bytearray:
    out = bytearray() if into is None else into
    writer(type(message), version)(message, out)
    return out


def write_bounded(message: Message, version: int, into: bytearray, *, elements_max: int) -> None:
    """TooManyElements if there are more than that; `into` then has the beginning."""
    writer(type(message), version, BOUNDED)(message, into, Count(elements_max))


def write_in_steps(message: Message, version: int, into: bytearray) -> Generator[None, None, None]:
    """Yields after each step."""
    writing = writer(type(message), version, IN_STEPS)(message, into, Count(1 << 62))
    if has_arrays(type(message), version):
        yield from writing


def _malformed(cls: type[Message], version: int, error: Exception) -> Malformed:
    return Malformed(f"{cls.__name__} v{version}: {error}")


def _check_end(cls: type[Message], version: int, buffer: Buffer, end: int) -> None:
    if end > len(buffer):
        raise Malformed(f"{cls.__name__} v{version} ends {end - len(buffer)} bytes behind its frame")
