"""Errors of a disk that pass by themselves: it is full, or there are too many open files."""

import errno

_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def is_shortage(error: BaseException | None) -> bool:
    """Whether the disk is full: the log stays sound and works again when there is room. Other errors are failures."""
    return isinstance(error, OSError) and error.errno in _PASSING
