"""What the core asks of the world: time and disk. The shell and the simulator each bring their own."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Wall-clock milliseconds for records, and one heap of timers. `advance` in tests moves both."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int:
        """Never goes back; for deadlines and session time-outs."""
        ...

    def stopwatch_ms(self) -> float:
        """Exact, from any beginning: for how long something took."""
        ...

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimerHandle: ...

    def call_soon(self, callback: Callable[[], None]) -> None:
        """After what runs now, before anything else waits: for wake-ups that must not nest."""
        ...


class Jobs(Protocol):
    """Slow work, away from the event loop: syncing, deleting, opening."""

    def submit(self, job: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """`done` is called on the loop with what the job returned, or the exception it ended with."""
        ...


class File(Protocol):
    """An open file. Positions are explicit: nobody shares a cursor. Every error is an OSError."""

    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """One gathered write at the end; the position where it starts. All of it or an OSError
        (then what was half written is cut off again, if the disk still lets us)."""
        ...

    def write_at(self, position: int, data: Buffer) -> None: ...

    def read(self, position: int, length: int) -> bytes:
        """Fewer bytes only at the end of the file."""
        ...

    def read_into(self, position: int, view: memoryview) -> int:
        """How many bytes were read; fewer than the view has only at the end of the file."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Slow: the shell calls it in a thread."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """Folders and files below one root; paths are relative, with `/`."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def exists(self, path: str) -> bool: ...

    def list(self, folder: str) -> list[str]:
        """Names in a folder, sorted; empty when there is no such folder."""
        ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def make_folder(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Files and folders; replaces a file that is there. Durable after `sync_folder`."""
        ...

    def remove(self, path: str) -> None:
        """A file, or a folder with all that is in it; nothing when it is not there."""
        ...

    def read_whole(self, path: str) -> bytes: ...

    def write_whole(self, path: str, data: Buffer) -> None:
        """Atomic and durable: written aside, synced, renamed."""
        ...

    def sync_folder(self, path: str) -> None: ...

    def free_bytes(self) -> int: ...

    def total_bytes(self) -> int: ...
