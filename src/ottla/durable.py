"""What makes files durable, where systems differ.

macOS has no fdatasync, and its fsync leaves data in the drive's cache, which a power cut empties: F_FULLFSYNC is the
call that waits for the medium. File systems without it (network shares) get the plain fsync. macOS has no
posix_fallocate either.
"""

import errno
import os
import sys
from contextlib import suppress

with suppress(ImportError):  # Windows, where no broker runs
    import fcntl

_F_FULLFSYNC = 51  # of macOS; Python knows the name only there
_NOT_SUPPORTED = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY, errno.ENOSYS)
_ZEROS = bytes(1 << 20)


def sync_data(fd: int, platform: str = sys.platform) -> None:
    """The file's bytes and its size."""
    if platform == "darwin":
        _sync_to_medium(fd)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_all(fd: int, platform: str = sys.platform) -> None:
    """Times and rights too; of a folder, its names."""
    if platform == "darwin":
        _sync_to_medium(fd)
    else:
        os.fsync(fd)


def allocate(fd: int, size: int) -> None:
    """Disk space for the first `size` bytes, or an OSError now rather than in the middle of a write."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
        return
    position = os.fstat(fd).st_size
    while position < size:  # bytes that exist already stay
        position += os.pwrite(fd, _ZEROS[: size - position], position)


def _sync_to_medium(fd: int) -> None:
    try:
        fcntl.fcntl(fd, _F_FULLFSYNC)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
        os.fsync(fd)
