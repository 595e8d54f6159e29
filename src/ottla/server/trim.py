"""Gives free memory back to the system. The C library keeps what was freed below something still in use, and learns
to keep more with every large buffer: after a burst of large requests that may be hundreds of megabytes, for good."""

import resource
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from ottla.ports import Clock, Jobs

EVERY_MS = 5000
GROWTH_BYTES = 8 << 20  # since the start; less is not worth a look
MAPPED_FROM_BYTES = 4 << 20  # larger buffers go back at once; smaller ones are used again, which is quicker
KEPT_BYTES = 8 << 20  # at the end of the heap of a thread
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h


class Trimmer:
    def __init__(
        self,
        clock: Clock,
        jobs: Jobs,
        drop_buffers: Callable[[], None],
        resident_bytes: Callable[[], int] | None = None,
    ) -> None:
        """`drop_buffers` lets go of memory that is only kept to be used again."""
        self._clock, self._jobs, self._drop_buffers = clock, jobs, drop_buffers
        self._resident_bytes = resident_bytes or resident_bytes_of_process
        self._base_bytes = 0
        self._is_set = False

    def start(self) -> None:
        self._base_bytes = self._resident_bytes()
        self._arm()

    def _arm(self) -> None:
        self._clock.call_later(EVERY_MS, self._on_timer)

    def _on_timer(self) -> None:
        if not self._is_set or self._resident_bytes() >= self._base_bytes + GROWTH_BYTES:
            self._drop_buffers()
            self._jobs.submit(trim if self._is_set else set_thresholds, lambda _: self._arm())
            self._is_set = True
        else:
            self._arm()


def share_heap() -> None:
    """Before there are threads: each would get a heap of its own, and keep `KEPT_BYTES` of what it once needed."""
    with suppress(ImportError, AttributeError):  # no compiler when this was installed, or a kernel of before
        from ottla.wire import _kernel

        _kernel.share_heap()


def set_thresholds() -> None:
    map_buffers_from(MAPPED_FROM_BYTES)
    library = _c_library()
    if hasattr(library, "mallopt"):
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def map_buffers_from(size: int) -> None:
    """From now on, buffers of this size and more are apart from the heap: what is not used of them takes no memory."""
    library = _c_library()
    if hasattr(library, "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, size)


def trim() -> None:
    """A few milliseconds, in a thread."""
    library = _c_library()
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


@cache
def _c_library() -> Any:
    import ctypes  # not at the start: it takes its time to import

    return ctypes.CDLL(None)


def resident_bytes_of_process() -> int:
    """0 where the system does not tell: then nothing is ever given back."""
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123 - pathlib is slower, and this is asked often
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0
