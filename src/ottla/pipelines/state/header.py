"""What the files of a stream task say of themselves, and whether to believe them. Bytes and values only."""

import json
import struct
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

MAGIC = b"OTTLASTA"
FORMAT = 1
DIRTY, CLEAN, SYNCED = 0, 1, 2
MARK_AT = len(MAGIC)  # one byte, written by itself: changing it is atomic
_FIXED = struct.Struct(">8sB3xII")  # magic, mark, length and checksum of the text behind
TEXT_MAX = 1 << 24


@dataclass(frozen=True)
class Header:
    """`positions` are the changelog offsets up to which each store has read, `sizes` the bytes of each file.

    The mark is CLEAN while nothing is being changed, SYNCED if the disk has it all: then another boot may trust it.
    """

    identity: str
    boot: str
    token: bytes = b""
    positions: Mapping[str, int] = field(default_factory=dict)
    saved_at_ms: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    mark: int = DIRTY

    def to_bytes(self) -> bytes:
        text = json.dumps(
            {
                "format": FORMAT,
                "byteorder": sys.byteorder,
                "identity": self.identity,
                "boot": self.boot,
                "token": self.token.hex(),
                "positions": dict(self.positions),
                "saved_at_ms": self.saved_at_ms,
                "sizes": dict(self.sizes),
            }
        ).encode()
        return _FIXED.pack(MAGIC, self.mark, len(text), zlib.crc32(text)) + text


def read_header(data: bytes) -> Header | None:
    """None: not a header, a torn one, or one of another format or kind of machine."""
    if len(data) < _FIXED.size:
        return None
    magic, mark, length, checksum = _FIXED.unpack_from(data)
    text = data[_FIXED.size : _FIXED.size + length]
    if magic != MAGIC or len(text) != length or zlib.crc32(text) != checksum:
        return None
    fields = json.loads(text)
    if fields.pop("format") != FORMAT or fields.pop("byteorder") != sys.byteorder:
        return None
    return Header(**{**fields, "token": bytes.fromhex(fields["token"])}, mark=mark)


def why_unusable(
    header: Header | None,
    *,
    identity: str,
    boot: str,
    sizes: Mapping[str, int],
    now_ms: int,
    delete_retention_ms: int,
    committed: bytes = b"",
) -> str | None:
    """The reason in words, or None: the files may be used, and the changelog read from their positions on.

    Files with the `committed` token are current: nothing was written to the changelog since, so their age is no matter.
    """
    if header is None:
        return "there is no state in this version's format"
    if header.mark == DIRTY:
        return "a step was not finished"
    if header.identity != identity:
        return "it is the state of another cluster, topic or topology"
    if header.boot != boot and header.mark != SYNCED:
        return "the machine was restarted, and the disk may not have everything"
    if header.sizes != sizes:
        return "files are missing or of another size"
    if committed and header.token == committed:
        return None
    # A deletion stays in the changelog for delete.retention.ms. Half of it leaves room for clocks and long reads.
    if 2 * abs(now_ms - header.saved_at_ms) > delete_retention_ms:
        return "it is so old that the changelog may have forgotten deletions"
    return None
