"""Copies with a checksum, made durable before they count."""

import os
import zlib
from collections.abc import Callable
from pathlib import Path

from ottla.backup.manifest import BadBackup, Kept
from ottla.durable import sync_all

_CHUNK_BYTES = 1 << 20

Progress = Callable[[int], None]


def copy_file(source: Path, target: Path, size: int, progress: Progress) -> Kept:
    """The first `size` bytes, with the file's times: retention of logs without timestamps goes by them."""
    crc32, remaining = 0, size
    with source.open("rb") as reader, target.open("xb") as writer:
        while remaining and (chunk := reader.read(min(remaining, _CHUNK_BYTES))):
            writer.write(chunk)
            crc32 = zlib.crc32(chunk, crc32)
            remaining -= len(chunk)
            progress(len(chunk))
        writer.flush()
        sync_all(writer.fileno())
        status = os.fstat(reader.fileno())
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    if remaining:
        raise BadBackup(f"{source} has become shorter: {size - remaining} bytes instead of {size}")
    return Kept(size, crc32)


def checksum(path: Path, progress: Progress = lambda _: None) -> Kept:
    crc32 = size = 0
    with path.open("rb") as reader:
        while chunk := reader.read(_CHUNK_BYTES):
            crc32, size = zlib.crc32(chunk, crc32), size + len(chunk)
            progress(len(chunk))
    return Kept(size, crc32)


def sync_folders(home: Path) -> None:
    """The names in it and in all folders below."""
    for path in [home, *(folder for folder in home.rglob("*") if folder.is_dir())]:
        sync_names(path)


def sync_names(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        sync_all(fd)
    finally:
        os.close(fd)
