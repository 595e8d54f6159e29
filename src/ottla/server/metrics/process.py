"""Figures of this process, as the system tells them. Reads files: not for the event loop."""

import os
import resource
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessFigures(NamedTuple):
    cpu_seconds: float
    resident_bytes: int
    virtual_bytes: int
    start_seconds: float
    open_files: int
    files_max: int
    memory_max_bytes: int
    disk_read_bytes: int
    disk_write_bytes: int


def figures() -> ProcessFigures:
    """Zeros where there is no /proc."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    fields = _read("/proc/self/stat").rpartition(")")[2].split()  # from the third one on
    virtual, resident, started = (
        (int(fields[20]), int(fields[21]) * resource.getpagesize(), int(fields[19]) / _TICKS)
        if len(fields) > 21
        else (0, 0, 0.0)
    )
    disk = _numbers("/proc/self/io")
    return ProcessFigures(
        usage.ru_utime + usage.ru_stime,
        resident,
        virtual,
        _numbers("/proc/stat").get("btime", 0) + started,
        _open_files(),
        limit,
        usage.ru_maxrss * 1024,
        disk.get("read_bytes", 0),
        disk.get("write_bytes", 0),
    )


def _open_files() -> int:
    try:
        return sum(1 for _ in os.scandir("/proc/self/fd")) - 1  # but for the one that lists
    except OSError:
        return 0


def _numbers(path: str) -> dict[str, int]:
    """Lines of a name and a number."""
    pairs = (line.replace(":", " ").split() for line in _read(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _read(path: str) -> str:
    try:
        with open(path) as file:  # noqa: PTH123 - pathlib is not needed elsewhere on the way to a broker
            return file.read()
    except OSError:
        return ""
