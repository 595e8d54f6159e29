"""Calls that would hold up an event loop fail the test that makes them on one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from blockbuster import BlockBuster, BlockBusterFunction

# Where the loop may wait all the same, and why.
ALLOWED = (
    ("ottla/server/node.py", "_release"),  # nobody is served any more: its threads end with it
    ("ottla/server/node.py", "_start"),  # nobody is served yet
    ("ottla/server/tls.py", "server_context"),  # key stores are small, and read when they are set
    ("ottla/client/loop/security.py", "tls_context"),  # the same
    ("ottla/storage/pending.py", "write"),  # makes the folder of a partition that was not written to before
    ("ottla/storage/segment.py", "open_for_append"),  # the same
    ("ottla/client/loop/connection.py", "_our_version"),  # read once, from one small file
    ("ottla/server/staging.py", "hold"),  # links of one moment: no append may come between two of them
    ("tests/unit/server/test_connection.py", "on_request"),  # a handler that is slow on purpose
)
# The first are answered from memory, mostly: not worth a thread. A lock would be noticed only when somebody holds it:
# such a test would fail now and then.
LEFT_OUT = ("os.stat", "os.access", "os.getcwd", "os.readlink", "os.path.", "threading.Lock.")


@contextmanager
def refused_on_loops() -> Iterator[None]:
    """For code of ours, wherever it is called from."""
    watch = BlockBuster(scanned_modules=["ottla"])
    for name in ("fsync", "fdatasync"):
        watch.functions[f"os.{name}"] = BlockBusterFunction(os, name, scanned_modules=["ottla"])
    watch.functions = {
        name: function for name, function in watch.functions.items() if not name.startswith(LEFT_OUT)
    }
    for function in watch.functions.values():
        for file, caller in ALLOWED:
            function.can_block_in(file, caller)
    watch.activate()
    try:
        yield
    finally:
        watch.deactivate()
