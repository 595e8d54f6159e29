"""Keyed state of a stream task: columns behind a table of keys, in memory or in mapped files.

Nothing here knows topics, Spark or the client: numpy, Arrow and files only.
"""

from ottla.pipelines.state.files import TaskFiles
from ottla.pipelines.state.mapped import StateDiskFull
from ottla.pipelines.state.spec import BadStore, StoreChanged, StoreSpec
from ottla.pipelines.state.store import BadChange, KeyedStore, StoreFull
from ottla.pipelines.state.timers import Timers, timer_spec

__all__ = [
    "BadChange",
    "BadStore",
    "KeyedStore",
    "StateDiskFull",
    "StoreChanged",
    "StoreFull",
    "StoreSpec",
    "TaskFiles",
    "Timers",
    "timer_spec",
]
