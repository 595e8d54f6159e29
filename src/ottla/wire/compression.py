"""The five codecs of the protocol, each in the framing that Kafka reads and writes.

Decompression never produces more than `limit` bytes (plus one block) whatever the input claims. It goes straight
into a buffer that may be used again: fresh memory costs more than decompressing into it. The codec libraries are
imported when first used: a broker that only passes batches on never needs them.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from mmap import mmap

from ottla import errors
from ottla.ports import Buffer

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

_PIECE_BYTES = 64 * 1024  # how much a decompressor gets at a time
_STEP_BYTES = 256 * 1024  # how much a decompressor may give back at a time
_SCRATCH_BYTES_MAX = 2 << 20
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_LZ4_LEVEL_DEFAULT = 9  # Kafka's default, which stands for the fast compressor, not for high compression
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEADER_BYTES_MIN = 7  # magic, flags, block size, checksum
_LZ4_INDEPENDENT_BLOCKS, _LZ4_BLOCK_CHECKSUMS, _LZ4_CONTENT_SIZE = 0x20, 0x10, 0x08
_LZ4_CONTENT_CHECKSUM, _LZ4_DICTIONARY = 0x04, 0x01
_LZ4_BLOCK_BYTES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_LZ4_STORED = 0x8000_0000
_LZ4_BLOCK_FRAME = b"\x04\x22\x4d\x18\x60\x70\x73"  # the header of a frame of large blocks without checksums
_ZSTD_LEVEL_DEFAULT = 3
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50
_ZSTD_RLE = 1


class OverLimit(errors.CorruptMessage):
    """The data would decompress to more than is allowed."""


class Scratch:
    """Memory for decompressed data, used again for the next: what `unpack` gave before is overwritten."""

    __slots__ = ("_kept", "unpacked_bytes")

    def __init__(self) -> None:
        self._kept = bytearray()
        self.unpacked_bytes = (
            0  # since somebody set it to 0; of what was damaged, as much as it might have been
        )

    def room(self, size: int) -> memoryview:
        """At least so many bytes. More than is worth keeping is fresh each time, and mapped: then no time is spent on
        parts that are not used, nor with the interpreter's lock held."""
        if size > _SCRATCH_BYTES_MAX:
            return _fresh(size)
        if size > len(self._kept):
            self._kept = bytearray(size)
        return memoryview(self._kept)

    def drop(self) -> None:
        """Memory for other things; the next batch takes some again. What `unpack` gave before stays as it is."""
        self._kept = bytearray()


def _fresh(size: int) -> memoryview:
    return memoryview(bytearray(size) if size <= _SCRATCH_BYTES_MAX else mmap(-1, size))


Compress = Callable[[Buffer, int | None], bytes]
Unpack = Callable[[Buffer, int, Scratch], Buffer]


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """The data in the codec's framing; `level` as in Kafka's compression.<codec>.level."""
    return _of(codec)[0](data, level)


def decompress(codec: int, data: Buffer, *, limit: int) -> bytes:
    """All of the data, or CorruptMessage: damaged, cut short, followed by other bytes, or over the limit."""
    return bytes(unpack(codec, data, limit=limit))


def unpack(codec: int, data: Buffer, *, limit: int, scratch: Scratch | None = None) -> Buffer:
    """As `decompress`, without a copy: a view of the scratch memory, good until that is used again."""
    scratch = scratch or Scratch()
    before = scratch.unpacked_bytes
    scratch.unpacked_bytes = before + limit
    result = _of(codec)[1](data, limit, scratch)
    if len(result) > limit:
        raise OverLimit(f"The data decompresses to more than {limit} bytes")
    scratch.unpacked_bytes = before + len(result)
    return result


def _of(codec: int) -> tuple[Compress, Unpack]:
    try:
        return _CODECS[codec]
    except KeyError:
        raise errors.UnsupportedCompressionType(f"Unknown compression codec {codec}") from None


def _corrupt(codec: int, reason: object) -> errors.CorruptMessage:
    return errors.CorruptMessage(f"Corrupt {NAMES[codec]} data: {reason}")


def _copy(data: Buffer, _: int | None) -> bytes:
    return bytes(data)


def _as_it_is(data: Buffer, _limit: int, _scratch: Scratch) -> Buffer:
    return data


# gzip


def _gzip(data: Buffer, level: int | None) -> bytes:
    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
    return compressor.compress(data) + compressor.flush()


def _gunzip(data: Buffer, limit: int, _scratch: Scratch) -> Buffer:
    """The library gives back new memory in any case."""
    out = bytearray()
    pieces = _pieces(data)
    rest = next(pieces, b"")
    if not rest:
        raise _corrupt(GZIP, "cut short")
    try:
        while rest:  # members may follow one another
            member = zlib.decompressobj(31)
            while not member.eof:
                piece = member.decompress(rest, _STEP_BYTES)
                out += piece
                if len(out) > limit:
                    return out
                rest = member.unconsumed_tail or (b"" if member.eof or piece else next(pieces, b""))
                if not (rest or piece or member.eof):
                    raise _corrupt(GZIP, "cut short")
            rest = member.unused_data or next(pieces, b"")
    except zlib.error as error:
        raise _corrupt(GZIP, error) from None
    return out


def _pieces(data: Buffer) -> Iterator[bytes]:
    """The input in slices, so that what a decompressor hands back unused is never much."""
    view = memoryview(data)
    return (bytes(view[start : start + _PIECE_BYTES]) for start in range(0, len(view), _PIECE_BYTES))


# snappy: Java writes blocks in the framing of its xerial library, librdkafka one raw block


def _snappy(data: Buffer, _: int | None) -> bytes:
    import cramjam

    out = bytearray(_XERIAL_HEADER)
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big") + block
    return bytes(out)


def _unsnappy(data: Buffer, limit: int, scratch: Scratch) -> Buffer:
    import cramjam

    blocks = [(block, _snappy_length(block)) for block in _snappy_blocks(memoryview(data))]
    total = sum(length for _, length in blocks)
    if total > limit:
        raise OverLimit(f"The data decompresses to more than {limit} bytes")
    room = scratch.room(total)
    position = 0
    for block, length in blocks:
        try:
            written = cramjam.snappy.decompress_raw_into(block, room[position : position + length])
        except cramjam.DecompressionError as error:
            raise _corrupt(SNAPPY, error) from None
        if written != length:
            raise _corrupt(SNAPPY, "a block has another length than it claims")
        position += length
    return room[:total]


def _snappy_blocks(view: memoryview) -> Iterator[memoryview]:
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield view
        return
    position = 0
    while position < len(view):
        # Streams may follow one another.
        if bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > len(view):
                raise _corrupt(SNAPPY, "cut short")
            continue
        start = position + 4
        position = start + int.from_bytes(view[position:start], "big")
        if position > len(view):
            raise _corrupt(SNAPPY, "cut short")
        yield view[start:position]


def _snappy_length(block: memoryview) -> int:
    """What the block claims to decompress to; the library would reserve as much without asking."""
    length = 0
    for shift, byte in zip(range(0, 35, 7), block, strict=False):
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return length
    raise _corrupt(SNAPPY, "no length")


# lz4: the frame format; Kafka reads independent blocks only


def _lz4(data: Buffer, level: int | None) -> bytes:
    import cramjam

    frame = cramjam.lz4.Compressor(
        level=0 if level is None or level == _LZ4_LEVEL_DEFAULT else max(level, 0),
        content_checksum=False,
        block_linked=False,
    )
    frame.compress(bytes(data))
    return bytes(frame.finish())


def _unlz4(data: Buffer, limit: int, scratch: Scratch) -> Buffer:
    import cramjam

    view = memoryview(data)
    block_bytes_max = _lz4_block_bytes_max(view)
    largest = sum(len(block) - 4 if stored else block_bytes_max for block, stored in _lz4_blocks(view))
    room = scratch.room(min(largest, limit))
    try:
        return room[: cramjam.lz4.decompress_into(data, room)]
    except cramjam.DecompressionError as error:
        if largest > len(room):  # damaged, or is there just no room?
            _check_lz4_limit(view, block_bytes_max, limit)
        raise _corrupt(LZ4, error) from None


def _lz4_block_bytes_max(view: memoryview) -> int:
    """What a block of the frame holds at most."""
    if len(view) < _LZ4_HEADER_BYTES_MIN or bytes(view[:4]) != _LZ4_MAGIC:
        raise _corrupt(LZ4, "not a frame")
    if not view[4] & _LZ4_INDEPENDENT_BLOCKS:
        raise _corrupt(LZ4, "linked blocks are not supported")
    found = _LZ4_BLOCK_BYTES.get(view[5] >> 4 & 7)
    if found is None:
        raise _corrupt(LZ4, "unknown block size")
    return found


def _lz4_blocks(view: memoryview) -> Iterator[tuple[memoryview, bool]]:
    """Each block with the four bytes of its length before it, and whether it is stored as it is. The frame is whole,
    and nothing follows it."""
    flags = view[4]
    position = (
        _LZ4_HEADER_BYTES_MIN
        + (8 if flags & _LZ4_CONTENT_SIZE else 0)
        + (4 if flags & _LZ4_DICTIONARY else 0)
    )
    checksum_bytes = 4 if flags & _LZ4_BLOCK_CHECKSUMS else 0
    while size := _little(view, position, 4, LZ4):
        end = position + 4 + (size & ~_LZ4_STORED)
        yield view[position:end], size & _LZ4_STORED != 0
        position = end + checksum_bytes
    position += 4 + (4 if flags & _LZ4_CONTENT_CHECKSUM else 0)
    if position != len(view):
        raise _corrupt(LZ4, "cut short" if position > len(view) else "bytes after the frame")


def _check_lz4_limit(view: memoryview, block_bytes_max: int, limit: int) -> None:
    """Unpack block after block, each as a frame of its own, until there are more bytes than allowed."""
    import cramjam

    room = _fresh(block_bytes_max)
    size = 0
    for block, stored in _lz4_blocks(view):
        try:
            size += (
                len(block) - 4
                if stored
                else cramjam.lz4.decompress_into(_LZ4_BLOCK_FRAME + bytes(block) + bytes(4), room)
            )
        except cramjam.DecompressionError as error:
            raise _corrupt(LZ4, error) from None
        if size > limit:
            raise OverLimit(f"The data decompresses to more than {limit} bytes")


# zstd


def _zstd(data: Buffer, level: int | None) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL_DEFAULT if level is None else level).compress(data)


def _unzstd(data: Buffer, limit: int, scratch: Scratch) -> Buffer:
    import zstandard

    _check_zstd_frames(memoryview(data))
    room = scratch.room(min(4 * len(data), limit) + _STEP_BYTES)
    size = 0
    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
            while size <= limit and (written := reader.readinto(room[size:])):
                size += written
                if size == len(room) and size <= limit:
                    room = _grown(room, limit + _STEP_BYTES)
    except zstandard.ZstdError as error:
        raise _corrupt(ZSTD, error) from None
    return room[:size]


def _grown(room: memoryview, size_max: int) -> memoryview:
    """A new one: it doubles. From the first large one on there is room for everything, as what is not used of it takes
    no memory."""
    size = min(2 * len(room), size_max)
    larger = _fresh(size if size <= _SCRATCH_BYTES_MAX else size_max)
    larger[: len(room)] = room
    return larger


def _check_zstd_frames(view: memoryview) -> None:
    """Walk the frames' blocks to the very end: the library takes a frame cut short for a finished one."""
    if not view:
        raise _corrupt(ZSTD, "no frame")
    position = 0
    while position < len(view):
        position = _zstd_frame_end(view, position)


def _zstd_frame_end(view: memoryview, position: int) -> int:
    magic = _little(view, position, 4, ZSTD)
    if magic & 0xFFFFFFF0 == _ZSTD_SKIPPABLE_MAGIC:
        position += 8 + _little(view, position + 4, 4, ZSTD)
    elif magic != _ZSTD_MAGIC:
        raise _corrupt(ZSTD, "not a frame")
    else:
        descriptor = _little(view, position + 4, 1, ZSTD)
        single_segment = descriptor >> 5 & 1
        content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
        dictionary_id_bytes = (0, 1, 2, 4)[descriptor & 3]
        position += 5 + (1 - single_segment) + dictionary_id_bytes + content_size_bytes
        last = 0
        while not last:
            block = _little(view, position, 3, ZSTD)
            last = block & 1
            position += 3 + (1 if block >> 1 & 3 == _ZSTD_RLE else block >> 3)
        position += 4 * (descriptor >> 2 & 1)  # checksum
    if position > len(view):
        raise _corrupt(ZSTD, "cut short")
    return position


def _little(view: memoryview, position: int, size: int, codec: int) -> int:
    if position + size > len(view):
        raise _corrupt(codec, "cut short")
    return int.from_bytes(view[position : position + size], "little")


_CODECS: dict[int, tuple[Compress, Unpack]] = {
    NONE: (_copy, _as_it_is),
    GZIP: (_gzip, _gunzip),
    SNAPPY: (_snappy, _unsnappy),
    LZ4: (_lz4, _unlz4),
    ZSTD: (_zstd, _unzstd),
}
