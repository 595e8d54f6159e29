"""Memory for reads is used again, but never while a view of it is left."""

from ottla.config.log import LogConfig
from ottla.storage.buffers import POOLED_BYTES_MIN, ReadBuffers
from ottla.storage.files import FileCache
from ottla.storage.log import LastRun, Location, Log
from ottla.storage.memory import MemoryDisk
from ottla.wire.batch import build
from ottla.wire.records import Record

MB = 1 << 20


def fill(view, byte):
    view[:] = bytes([byte]) * len(view)


def test_a_buffer_is_used_again_once_no_view_of_it_is_left():
    buffers = ReadBuffers()
    view = buffers.take(MB)
    memory = view.obj
    del view
    assert buffers.take(MB).obj is memory
    assert buffers.kept_bytes == MB


def test_what_is_still_held_is_never_overwritten():
    buffers = ReadBuffers(4 * MB)
    held = []
    for number in range(20):  # more than are kept
        view = buffers.take(MB)
        fill(view, number)
        held.append(view[10:-10])  # as an answer holds a part of it
    assert [set(bytes(view)) for view in held] == [{number} for number in range(20)]
    assert buffers.kept_bytes <= 4 * MB


def test_a_part_of_a_part_holds_the_buffer():
    buffers = ReadBuffers()
    part = buffers.take(MB)[100:200][10:20]
    fill(part, 7)
    fill(buffers.take(MB), 9)
    assert bytes(part) == bytes([7]) * 10


def test_larger_buffers_push_out_smaller_ones_and_the_bound_holds():
    buffers = ReadBuffers(4 * MB)
    for size in (MB, 2 * MB, 3 * MB, 4 * MB):
        buffers.take(size)
        assert buffers.kept_bytes <= 4 * MB
    memory = buffers.take(4 * MB).obj
    assert buffers.take(MB).obj is memory
    assert len(buffers.take(5 * MB)) == 5 * MB
    assert buffers.kept_bytes == 4 * MB


def test_what_was_read_from_a_log_stays_as_it_was_while_others_read():
    log = Log.open(
        Location(MemoryDisk(), "t-0", FileCache()),
        LogConfig(),
        LastRun(clean=False),
        now_ms=0,
        report=lambda line: None,
    )
    values = [bytes([number]) * POOLED_BYTES_MIN for number in range(40)]
    ends = [
        log.append(build([Record(0, 0, b"", value)]), leader_epoch=0, now_ms=0).next_offset
        for value in values
    ]
    first = log.read(0, max_bytes=MB, up_to=ends[3])
    before = bytes(first.data)
    for offset in range(4, 40):
        taken = log.read(offset, max_bytes=MB, up_to=ends[-1])
        assert values[offset] in bytes(taken.data)
    assert bytes(first.data) == before


def test_free_buffers_are_dropped_and_the_others_stay():
    buffers = ReadBuffers()
    held = buffers.take(1 << 20)
    buffers.take(2 << 20)
    assert buffers.kept_bytes == 3 << 20
    buffers.drop_free()
    assert buffers.kept_bytes == 1 << 20
    held[:3] = b"abc"
    again = buffers.take(1 << 20)
    again[:3] = b"xyz"
    assert bytes(held[:3]) == b"abc"
