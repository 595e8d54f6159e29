"""`Stream`, `Table` and what lies between: each method adds a node to the topology and returns the next object."""

from ottla.streams.dsl.builder import Builder
from ottla.streams.dsl.cogrouped import Cogrouped
from ottla.streams.dsl.grouped import Grouped, GroupedTable
from ottla.streams.dsl.stream import Stream
from ottla.streams.dsl.table import GlobalTable, Table
from ottla.streams.dsl.windows import (
    SessionWindowed,
    Windowed,
    WindowedTable,
    hopping,
    session,
    sliding,
    tumbling,
    within,
)

__all__ = [
    "Builder",
    "Cogrouped",
    "GlobalTable",
    "Grouped",
    "GroupedTable",
    "SessionWindowed",
    "Stream",
    "Table",
    "Windowed",
    "WindowedTable",
    "hopping",
    "session",
    "sliding",
    "tumbling",
    "within",
]
