"""Errors of a disk that pass by themselves: it is full, or there are too many open files."""

import errno

_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def is_shortage(error: BaseException | None) -> bool:
    """What is there is sound, and when there is room again the work goes on; any other error is a failure."""
    return isinstance(error, OSError) and error.errno in _PASSING
