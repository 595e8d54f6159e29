"""Memory for large reads, used again and again.

Fresh memory of this size comes from the kernel, which zeroes it page by page: that costs more than the read.
"""

POOLED_BYTES_MIN = 128 << 10  # what is smaller comes from the heap anyway
_STEP_BYTES = 1 << 20


class ReadBuffers:
    """Keeps at most `kept_bytes_max` of memory.

    A buffer is free when no view of it exists any more. An answer that is still being sent holds one, and so
    does a caller that keeps what it read: nothing has to be given back."""

    def __init__(self, kept_bytes_max: int = 16 << 20) -> None:
        self._kept_bytes_max = kept_bytes_max
        self._buffers: list[bytearray] = []
        self.kept_bytes = 0

    def take(self, size: int) -> memoryview:
        """Its contents are undefined."""
        for buffer in self._buffers:
            if len(buffer) >= size and _is_free(buffer):
                return memoryview(buffer)[:size]
        return memoryview(self._add(size))[:size]

    def drop_free(self) -> None:
        """Memory for other things; the next reads take some again."""
        self._buffers = [buffer for buffer in self._buffers if not _is_free(buffer)]
        self.kept_bytes = sum(map(len, self._buffers))

    def _add(self, size: int) -> bytearray:
        buffer = bytearray(-(-size // _STEP_BYTES) * _STEP_BYTES)  # other reads can use it too
        if len(buffer) <= self._kept_bytes_max:
            self._make_room(len(buffer))
            if self.kept_bytes + len(buffer) <= self._kept_bytes_max:
                self._buffers.append(buffer)
                self.kept_bytes += len(buffer)
        return buffer

    def _make_room(self, size: int) -> None:
        """Free ones are too small for what is read now: they go, the oldest first."""
        stay = []
        for buffer in self._buffers:
            if self.kept_bytes + size > self._kept_bytes_max and _is_free(buffer):
                self.kept_bytes -= len(buffer)
            else:
                stay.append(buffer)
        self._buffers = stay


def _is_free(buffer: bytearray) -> bool:
    """A bytearray does not change its size while there are views of it."""
    try:
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)  # within what is allocated: nothing moves
    return True
