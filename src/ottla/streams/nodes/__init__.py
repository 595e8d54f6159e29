"""What the nodes of a topology do with a frame. Plain values and the user's functions: they travel to workers."""

from ottla.streams.nodes.aggregates import Aggregate, Count
from ottla.streams.nodes.base import BATCH, EVERY, Function, Node
from ottla.streams.nodes.joins import TableJoin
from ottla.streams.nodes.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapBatches,
    MapValues,
    Merge,
    Peek,
    SelectKey,
)
from ottla.streams.nodes.tables import TableFilter, TableMapValues, TableSource, ToStream
from ottla.streams.nodes.topics import Sink, Source
from ottla.streams.nodes.windows import WindowedCount

__all__ = [
    "BATCH",
    "EVERY",
    "Aggregate",
    "Count",
    "Filter",
    "FlatMap",
    "FlatMapValues",
    "Function",
    "Map",
    "MapBatches",
    "MapValues",
    "Merge",
    "Node",
    "Peek",
    "SelectKey",
    "Sink",
    "Source",
    "TableFilter",
    "TableJoin",
    "TableMapValues",
    "TableSource",
    "ToStream",
    "WindowedCount",
]
