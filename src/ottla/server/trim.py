"""Gives free memory back to the system. The C library keeps what was freed below something still in use: after a
burst of large requests that may be a hundred megabytes, for good."""

import resource
from collections.abc import Callable

from ottla.ports import Clock, Jobs, TimerHandle

EVERY_MS = 5000
GROWTH_BYTES = 16 << 20  # since the start; less is not worth a look


class Trimmer:
    def __init__(self, clock: Clock, jobs: Jobs, resident_bytes: Callable[[], int] | None = None) -> None:
        self._clock, self._jobs = clock, jobs
        self._resident_bytes = resident_bytes or resident_bytes_of_process
        self._timer: TimerHandle | None = None
        self._base_bytes = 0

    def start(self) -> None:
        self._base_bytes = self._resident_bytes()
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        self._timer = self._clock.call_later(EVERY_MS, self._on_timer)

    def _on_timer(self) -> None:
        if self._resident_bytes() < self._base_bytes + GROWTH_BYTES:
            self._arm()
        else:
            self._jobs.submit(trim, lambda _: self._arm())


def trim() -> None:
    """A few milliseconds, in a thread. Nothing where the C library is another one."""
    import ctypes  # not before it is needed: it takes its time to import

    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def resident_bytes_of_process() -> int:
    """0 where the system does not tell: then nothing is ever given back."""
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123 - pathlib is slower, and this is asked often
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0
