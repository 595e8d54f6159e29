"""The mirror's frame: what is packed comes back, anything else is an invalid record, and none is taken for a batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import errors
from ottla.storage.mirroring import validate_batches
from ottla.wire import batch as batches
from ottla.wire.mirror_frame import MAGIC, MirrorFrame, is_frame, pack, unpack
from ottla.wire.records import Record


@given(
    st.text(max_size=50),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.sampled_from([0, 1]),
    st.binary(),
)
def test_a_frame_comes_back(link, epoch, end, action, data):
    packed = pack(MirrorFrame(link, epoch, end, action, data))
    assert is_frame(packed)
    found = unpack(packed)
    assert found._replace(batches=bytes(found.batches)) == (link, epoch, end, action, data)


def test_a_frame_is_no_batch():
    packed = pack(MirrorFrame("A->B", 0, 0, 0, batches.build([Record(0, 1, None, b"v")])))
    with pytest.raises(errors.CorruptMessage):
        batches.check(packed)
    assert not is_frame(batches.build([Record(0, 1, None, b"v")]))


@given(st.binary(min_size=0, max_size=80))
def test_garbage_is_an_invalid_record(data):
    garbage = data[:16] + bytes([MAGIC]) + data[16:]
    try:
        unpack(garbage)
    except errors.InvalidRecord:
        return


@given(st.integers(0, 200), st.integers(0, 7), st.binary(max_size=10))
def test_damaged_batches_are_refused_as_such(at, bit, behind):
    data = bytearray(batches.build([Record(i, 1, b"k", b"v" * 20) for i in range(5)]))
    validate_batches(bytes(data), limit=1 << 20)
    data[12 + at % (len(data) - 12)] ^= 1 << bit  # not the offset, which is the sender's to say
    try:
        validate_batches(bytes(data) + behind, limit=1 << 20)
    except errors.ProtocolError:
        return
    assert not behind
    assert 12 <= 12 + at % (len(data) - 12) < 16  # the leader epoch is no part of the CRC
