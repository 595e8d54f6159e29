"""What a mirror sends in a Produce request's records: whole batches of the source, and what it believes of the target.

The frame stands where one batch would stand, and looks like a batch of an unknown magic: a broker or topic that does
not know it refuses it. A tagged field would be ignored there, and the batches appended under other offsets.

    expected end   int64   where the sender believes that the target's log ends
    length         int32   of all that follows
    link epoch     int32
    magic          int8    0x6d
    action         int8    0: append, 1: promote
    link           int16 and so many bytes
    batches        as the source has them
"""

import struct
from typing import NamedTuple

from ottla import errors
from ottla.ports import Buffer

MAGIC = 0x6D
APPEND, PROMOTE = 0, 1
_HEADER = struct.Struct(">qiibbh")
_MAGIC_AT = 16
_LENGTH_STARTS_AT = 12


class MirrorFrame(NamedTuple):
    link: str
    link_epoch: int
    expected_end: int
    action: int = APPEND
    batches: Buffer = b""


def is_frame(records: Buffer) -> bool:
    return len(records) >= _HEADER.size and records[_MAGIC_AT] == MAGIC


def pack(frame: MirrorFrame) -> bytes:
    link = frame.link.encode()
    length = _HEADER.size - _LENGTH_STARTS_AT + len(link) + len(frame.batches)
    header = _HEADER.pack(frame.expected_end, length, frame.link_epoch, MAGIC, frame.action, len(link))
    return b"".join((header, link, frame.batches))


def unpack(records: Buffer) -> MirrorFrame:
    view = memoryview(records)
    try:
        expected_end, length, link_epoch, magic, action, size = _HEADER.unpack_from(view)
        begin = _HEADER.size + size
        if magic != MAGIC or size < 0 or begin > len(view) or length + _LENGTH_STARTS_AT != len(view):
            raise errors.InvalidRecord("the mirror's frame is not whole")
        if action not in (APPEND, PROMOTE) or expected_end < 0:
            raise errors.InvalidRecord(f"the mirror's frame asks for {action} at {expected_end}")
        link = bytes(view[_HEADER.size : begin]).decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise errors.InvalidRecord(f"the mirror's frame cannot be read: {error}") from None
    return MirrorFrame(link, link_epoch, expected_end, action, view[begin:])
