"""What the nodes of a topology do with a frame. Plain values and the user's functions: they travel to workers."""

from ottla.streams.nodes.aggregates import Aggregate, Columns, Folding, Reducing
from ottla.streams.nodes.base import (
    BATCH,
    EVERY,
    AnyNode,
    Function,
    Node,
    PassThrough,
    SeparateNode,
)
from ottla.streams.nodes.cogroups import ByStream, Cogroup
from ottla.streams.nodes.combining import CountByKey
from ottla.streams.nodes.joins import INNER, LEFT, OUTER, TableJoin, TableMerge, TableTableJoin
from ottla.streams.nodes.sessions import SessionAggregate, Sessions
from ottla.streams.nodes.sliding import Sliding, SlidingAggregate
from ottla.streams.nodes.stateless import (
    Branch,
    BranchChild,
    Filter,
    FlatMap,
    FlatMapValues,
    HasKey,
    Map,
    MapBatches,
    MapValues,
    Merge,
    Peek,
    Print,
    SelectKey,
)
from ottla.streams.nodes.stream_joins import JoinWindows, StreamJoin
from ottla.streams.nodes.suppress import Suppress
from ottla.streams.nodes.tables import (
    Derived,
    Regroup,
    TableAggregate,
    TableFilter,
    TableMapValues,
    TableSource,
    ToStream,
)
from ottla.streams.nodes.topics import Sink, Source
from ottla.streams.nodes.windows import Closing, Final, WindowedAggregate

__all__ = [
    "BATCH",
    "EVERY",
    "INNER",
    "LEFT",
    "OUTER",
    "Aggregate",
    "AnyNode",
    "Branch",
    "BranchChild",
    "ByStream",
    "Closing",
    "Cogroup",
    "Columns",
    "CountByKey",
    "Derived",
    "Filter",
    "Final",
    "FlatMap",
    "FlatMapValues",
    "Folding",
    "Function",
    "HasKey",
    "JoinWindows",
    "Map",
    "MapBatches",
    "MapValues",
    "Merge",
    "Node",
    "PassThrough",
    "Peek",
    "Print",
    "Reducing",
    "Regroup",
    "SelectKey",
    "SeparateNode",
    "SessionAggregate",
    "Sessions",
    "Sink",
    "Sliding",
    "SlidingAggregate",
    "Source",
    "StreamJoin",
    "Suppress",
    "TableAggregate",
    "TableFilter",
    "TableJoin",
    "TableMapValues",
    "TableMerge",
    "TableSource",
    "TableTableJoin",
    "ToStream",
    "WindowedAggregate",
]
