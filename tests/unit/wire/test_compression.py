"""Every codec, its limits, and everyone else's way of writing it."""

import contextlib
import gzip
import random
import subprocess
import sys
import tracemalloc

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptMessage, UnsupportedCompressionType
from ottla.wire import compression
from ottla.wire.compression import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD, OverLimit, compress, decompress

COMPRESSED = (GZIP, SNAPPY, LZ4, ZSTD)
LARGE = random.Random(7).randbytes(200_000) + b"ottla " * 100_000
LIMIT = 1 << 20


def streamed_zstd(data):
    """As Java writes it: without the content's size in front."""
    compressor = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return compressor.compress(data) + compressor.flush()


@pytest.mark.parametrize("codec", range(5), ids=NAMES)
@pytest.mark.parametrize("data", [b"", b"x", b"ottla" * 50, LARGE], ids=len)
def test_what_goes_in_comes_out(codec, data):
    assert decompress(codec, compress(codec, data), limit=len(data)) == data
    assert decompress(codec, memoryview(compress(codec, memoryview(data))), limit=LIMIT) == data


@pytest.mark.parametrize("codec", COMPRESSED, ids=NAMES.__getitem__)
def test_a_level_is_taken(codec):
    for level in (1, 9):
        assert decompress(codec, compress(codec, LARGE, level), limit=LIMIT) == LARGE


def test_lz4_tries_harder_at_a_higher_level_and_frames_are_read_by_the_other_library():
    text = b"".join(b"pulse %d of %d; " % (i * 7919 % 97, i * 104_729 % 1013) for i in range(20_000))
    sizes = [len(compress(LZ4, text, level)) for level in (None, 3, 12)]
    assert sizes == sorted(set(sizes), reverse=True)
    for level in (None, -1, 9, 12, 17):
        assert lz4.frame.decompress(compress(LZ4, text, level)) == text


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (GZIP, gzip.compress(LARGE)),
        (GZIP, gzip.compress(LARGE[:70_000]) + gzip.compress(LARGE[70_000:])),
        (SNAPPY, bytes(cramjam.snappy.compress_raw(LARGE))),
        (SNAPPY, compress(SNAPPY, LARGE[:70_000]) + compress(SNAPPY, LARGE[70_000:])),
        (LZ4, lz4.frame.compress(LARGE, block_linked=False, content_checksum=True, block_checksum=True)),
        (LZ4, lz4.frame.compress(LARGE, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
        (ZSTD, streamed_zstd(LARGE)),
        (ZSTD, zstandard.compress(LARGE[:70_000]) + streamed_zstd(LARGE[70_000:])),
        (ZSTD, b"\x5f\x2a\x4d\x18\x03\0\0\0abc" + zstandard.compress(LARGE)),
    ],
)
def test_other_ways_to_write_it_are_read(codec, data):
    assert decompress(codec, data, limit=len(LARGE)) == LARGE


@pytest.mark.parametrize("codec", COMPRESSED, ids=NAMES.__getitem__)
def test_one_byte_over_the_limit_is_refused(codec):
    with pytest.raises(OverLimit):
        decompress(codec, compress(codec, LARGE), limit=len(LARGE) - 1)


def test_no_codec_has_the_limit_as_well():
    with pytest.raises(OverLimit):
        decompress(NONE, b"123", limit=2)


@pytest.mark.parametrize("codec", COMPRESSED, ids=NAMES.__getitem__)
def test_a_bomb_takes_no_more_memory_than_the_limit_and_a_block(codec):
    bomb = compress(codec, bytes(64 << 20))
    decompress(codec, compress(codec, b"warm"), limit=LIMIT)
    tracemalloc.start()
    try:
        with pytest.raises(OverLimit):
            decompress(codec, bomb, limit=LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 4 * LIMIT
    finally:
        tracemalloc.stop()


def test_a_snappy_block_that_only_claims_to_be_large_is_refused_before_it_is_believed():
    with pytest.raises(OverLimit):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\0" * 20, limit=LIMIT)


@pytest.mark.parametrize("codec", COMPRESSED, ids=NAMES.__getitem__)
@pytest.mark.parametrize("size", [0, 40, 200_000])
def test_data_cut_short_is_corrupt_wherever_the_cut_is(codec, size):
    whole = compress(codec, LARGE[:size])
    for cut in {1, 2, 3, 5, len(whole) // 2, len(whole) - 1, len(whole)}:
        with pytest.raises(CorruptMessage):
            decompress(codec, whole[: len(whole) - cut], limit=LIMIT)


@pytest.mark.parametrize("codec", COMPRESSED, ids=NAMES.__getitem__)
@pytest.mark.parametrize("extra", [b"!", b"\0\0\0\0!", bytes(70_000)], ids=len)
def test_bytes_after_the_data_are_corrupt(codec, extra):
    with pytest.raises(CorruptMessage):
        decompress(codec, compress(codec, LARGE) + extra, limit=LIMIT)


@pytest.mark.parametrize("codec", COMPRESSED, ids=NAMES.__getitem__)
@given(data=st.binary(max_size=50))
def test_noise_is_corrupt_or_is_data_but_never_another_error(codec, data):
    with contextlib.suppress(CorruptMessage):
        assert len(decompress(codec, data, limit=100)) <= 100


@pytest.mark.parametrize("codec", COMPRESSED, ids=NAMES.__getitem__)
@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_is_corrupt_or_other_data_but_never_another_error(codec, at, bit):
    data = bytearray(compress(codec, b"ottla and vltava " * 20))
    data[at % len(data)] ^= 1 << bit
    with contextlib.suppress(CorruptMessage):
        assert len(decompress(codec, data, limit=4000)) <= 4000


def test_linked_lz4_blocks_are_refused_as_by_java():
    linked = lz4.frame.compress(LARGE, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB)
    with pytest.raises(CorruptMessage, match="linked"):
        decompress(LZ4, linked, limit=LIMIT)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_an_unknown_codec_is_not_supported(codec):
    with pytest.raises(UnsupportedCompressionType):
        decompress(codec, b"", limit=LIMIT)
    with pytest.raises(UnsupportedCompressionType):
        compress(codec, b"")


def test_codec_libraries_are_imported_when_first_used():
    program = "import sys, ottla.wire.batch; print({'cramjam', 'lz4', 'zstandard'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "set()\n"


BLOCK_SIZES = st.sampled_from(
    (lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX256KB, lz4.frame.BLOCKSIZE_MAX4MB)
)
REPEATED = st.builds(lambda part, times: part * times, st.binary(max_size=40), st.integers(0, 5_000))


@given(
    REPEATED,
    BLOCK_SIZES,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3),
    st.integers(0, 4),
    st.integers(0, 300_000),
)
def test_a_damaged_lz4_frame_is_unpacked_as_by_the_other_library_or_refused(
    data, block_size, with_size, with_checksum, with_block_checksums, changes, cut, limit
):
    frame = bytearray(
        lz4.frame.compress(
            data,
            block_size=block_size,
            block_linked=False,
            store_size=with_size,
            content_checksum=with_checksum,
            block_checksum=with_block_checksums,
        )
    )
    for at, value in changes:
        frame[at % len(frame)] = value
    del frame[len(frame) - cut :]
    try:
        unpacked = compression.decompress(compression.LZ4, bytes(frame), limit=limit)
    except CorruptMessage:
        assert changes or cut or len(data) > limit
        return
    assert len(unpacked) <= limit
    assert unpacked == lz4.frame.decompress(bytes(frame))
    if not changes and not cut:
        assert unpacked == data


@pytest.mark.parametrize("codec", range(1, 5), ids=NAMES[1:])
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_every_size_fits_exactly_and_scratch_memory_is_used_again(codec, size):
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    packed = compression.compress(codec, data)
    scratch = compression.Scratch()
    for _ in range(2):
        assert bytes(compression.unpack(codec, packed, limit=size, scratch=scratch)) == data
    assert len(scratch.room(0)) <= 2 << 20
    if size:
        with pytest.raises(compression.OverLimit):
            compression.unpack(codec, packed, limit=size - 1, scratch=scratch)
