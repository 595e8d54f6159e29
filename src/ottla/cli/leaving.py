"""SIGTERM ends a consumer as Ctrl-C does: it leaves its group, so that the others take over its partitions at once.
And the reader of what a command prints may leave before it.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def leave_on_sigterm() -> None:
    """The exit raises through the consumer's `with`. Only the main thread may ask for signals."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Around prints of a command whose work is something else: it goes on when nobody reads them (`| head`)."""
    try:
        yield
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
