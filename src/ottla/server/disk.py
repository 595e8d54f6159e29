"""The real disk behind the Disk port, and the threads for what may not run on the event loop."""

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol, TypeVar

from ottla.durable import sync_all, sync_data
from ottla.ports import Buffer, Jobs

T = TypeVar("T")
_VECTOR_MAX = 1024


class OsFile:
    _fd = -1  # until it is open

    def __init__(self, path: str, flags: int) -> None:
        self._fd = os.open(path, flags | os.O_RDWR | os.O_CLOEXEC, 0o644)
        self._end = os.fstat(self._fd).st_size

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def append(self, buffers: Sequence[Buffer]) -> int:
        start = self._end
        wanted = sum(map(len, buffers))
        try:
            written = os.pwritev(self._fd, buffers, start)
            if written < wanted:  # a short write: rare, and the rest is tried once more in one piece
                rest = memoryview(b"".join(buffers))[written:]
                while rest:
                    done = os.pwrite(self._fd, rest, start + written)
                    written += done
                    rest = rest[done:]
        except OSError:
            os.ftruncate(self._fd, start)
            raise
        self._end = start + wanted
        return start

    def write_at(self, position: int, data: Buffer) -> None:
        rest = memoryview(data)
        while rest:
            done = os.pwrite(self._fd, rest, position)
            position += done
            rest = rest[done:]
        self._end = max(self._end, position)

    def read(self, position: int, length: int) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        got = len(data)
        while got < length and (more := os.pread(self._fd, length - got, position + got)):
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def read_into(self, position: int, view: memoryview) -> int:
        got = 0
        while got < len(view) and (more := os.preadv(self._fd, (view[got:],), position + got)):
            got += more
        return got

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._end = size

    def sync(self) -> None:
        sync_data(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()


class OsDisk:
    """Paths are relative to `root`."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)  # noqa: PTH100 - plain strings: this is on the hot path

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def open(self, path: str, *, create: bool = False) -> OsFile:
        return OsFile(self._at(path), os.O_CREAT if create else 0)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._at(path))  # noqa: PTH110

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._at(folder)))  # noqa: PTH208
        except FileNotFoundError:
            return []

    def size(self, path: str) -> int:
        return os.stat(self._at(path)).st_size  # noqa: PTH116

    def modified_ms(self, path: str) -> int:
        return os.stat(self._at(path)).st_mtime_ns // 1_000_000  # noqa: PTH116

    def make_folder(self, path: str) -> None:
        os.makedirs(self._at(path), exist_ok=True)  # noqa: PTH103

    def rename(self, old: str, new: str) -> None:
        os.rename(self._at(old), self._at(new))  # noqa: PTH104

    def remove(self, path: str) -> None:
        at = self._at(path)
        if os.path.isdir(at) and not os.path.islink(at):  # noqa: PTH112, PTH114
            import shutil  # brings codecs along, and a start removes nothing

            shutil.rmtree(at)
        else:
            with suppress(FileNotFoundError):
                os.unlink(at)  # noqa: PTH108

    def read_whole(self, path: str) -> bytes:
        with open(self._at(path), "rb") as file:  # noqa: PTH123
            return file.read()

    def write_whole(self, path: str, data: Buffer) -> None:
        at = self._at(path)
        with open(at + ".tmp", "wb") as file:  # noqa: PTH123
            file.write(data)
            file.flush()
            sync_all(file.fileno())
        os.rename(at + ".tmp", at)  # noqa: PTH104
        self.sync_folder(path.rpartition("/")[0])

    def sync_folder(self, path: str) -> None:
        fd = os.open(self._at(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_all(fd)
        finally:
            os.close(fd)

    def free_bytes(self) -> int:
        usage = os.statvfs(self.root)
        return usage.f_bavail * usage.f_frsize

    def total_bytes(self) -> int:
        usage = os.statvfs(self.root)
        return usage.f_blocks * usage.f_frsize


class ClosableJobs(Jobs, Protocol):
    def close(self) -> None: ...


class ThreadJobs:
    """A few threads: syncing and deleting wait for the disk, not for the processor."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 4) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ottla-disk")

    def submit(self, job: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        self._pool.submit(self._run, [(job, done)])

    def _run(self, tasks: list[tuple[Callable[[], T], Callable[[T | Exception], None]]]) -> None:
        """The traceback of an error refers to this frame and to its callers. None of them may refer to the error,
        by way of `done` for one: it would be a cycle, and what the job held would wait for the collector."""
        job, done = tasks.pop()
        try:
            result: T | Exception = job()
        except Exception as error:
            result = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(done, result)
        del job, done, result

    def close(self) -> None:
        """Waits for what is under way."""
        self._pool.shutdown(wait=True)
