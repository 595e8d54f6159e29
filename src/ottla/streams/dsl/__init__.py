"""`Stream`, `Table` and what lies between: each method adds a node to the topology and returns the next object."""

from ottla.streams.dsl.builder import Builder
from ottla.streams.dsl.grouped import Grouped
from ottla.streams.dsl.stream import Stream
from ottla.streams.dsl.table import Table
from ottla.streams.dsl.windows import Windowed, WindowedCounts, hopping, tumbling

__all__ = ["Builder", "Grouped", "Stream", "Table", "Windowed", "WindowedCounts", "hopping", "tumbling"]
