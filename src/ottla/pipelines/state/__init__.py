"""Keyed state of a stream task: columns behind a table of keys, in memory or in mapped files.

Nothing here knows topics, Spark or the client: numpy, Arrow and files only. Names are imported when first used: a test
of a topology needs no files.
"""

from typing import TYPE_CHECKING

from ottla.lazy import names_of

if TYPE_CHECKING:
    from ottla.pipelines.state.files import TaskFiles as TaskFiles
    from ottla.pipelines.state.mapped import StateDiskFull as StateDiskFull
    from ottla.pipelines.state.spec import BadStore as BadStore
    from ottla.pipelines.state.spec import StoreChanged as StoreChanged
    from ottla.pipelines.state.spec import StoreSpec as StoreSpec
    from ottla.pipelines.state.store import BadChange as BadChange
    from ottla.pipelines.state.store import KeyedStore as KeyedStore
    from ottla.pipelines.state.store import StoreFull as StoreFull
    from ottla.pipelines.state.timers import Timers as Timers
    from ottla.pipelines.state.timers import timer_spec as timer_spec

_HOMES = {
    "BadChange": "ottla.pipelines.state.store",
    "BadStore": "ottla.pipelines.state.spec",
    "KeyedStore": "ottla.pipelines.state.store",
    "StateDiskFull": "ottla.pipelines.state.mapped",
    "StoreChanged": "ottla.pipelines.state.spec",
    "StoreFull": "ottla.pipelines.state.store",
    "StoreSpec": "ottla.pipelines.state.spec",
    "TaskFiles": "ottla.pipelines.state.files",
    "Timers": "ottla.pipelines.state.timers",
    "timer_spec": "ottla.pipelines.state.timers",
}

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

__getattr__ = names_of(__name__, _HOMES)
