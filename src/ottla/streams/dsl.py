"""`Stream`, `Table` and what lies between: each method adds a node to the topology and returns the next object."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ottla.pipelines.aggregate import Windows
from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.topology import Repartition
from ottla.streams import nodes
from ottla.streams.errors import BadTopology
from ottla.streams.expressions import Expression
from ottla.streams.graph import Graph
from ottla.streams.nodes import BATCH, EVERY
from ottla.streams.serdes import Serde, WindowedSerde, int64, json, string

Function = Callable[..., Any]
Test = Callable[[Any, Any], bool] | Expression


@dataclass(frozen=True)
class Builder:
    """What all objects of an application share."""

    name: str
    graph: Graph

    def source(self, topic: str, key: Serde, value: Serde, name: str | None = None) -> int:
        node = nodes.Source(topic, name or topic, key, value)
        if any(
            getattr(placed.node, "name", None) == node.name
            for placed in self.graph.nodes
            if isinstance(placed.node, nodes.Source)
        ):
            raise BadTopology(f"topic {topic} is read twice; read it once and use the stream twice")
        return self.graph.add("KSTREAM-SOURCE", node)

    def repartition(
        self, parent: int, name: str, key: Serde, value: Serde, partitions: int | None = None
    ) -> int:
        """Through an internal topic; the source behind it."""
        self.graph.repartitions.append(Repartition(name, partitions))
        self.graph.add("KSTREAM-SINK", nodes.Sink(name, key, value), [parent])
        return self.source(name, key, value, f"{self.name}-{name}-repartition")


@dataclass(frozen=True)
class Stream:
    """Records, each by itself. `key` and `value` are the serdes that fit them now."""

    builder: Builder
    number: int
    key: Serde
    value: Serde
    rekeyed: bool = False  # keys may lie in other partitions than those they belong to

    # -- one record after the other ------------------------------------------------------------------

    def filter(self, test: Test) -> "Stream":
        """Those for which `test(key, value)` holds, or an expression over the value: `col.pulse > 150`."""
        return self._next("KSTREAM-FILTER", nodes.Filter(test))

    def filter_not(self, test: Test) -> "Stream":
        return self._next("KSTREAM-FILTER", nodes.Filter(test, keep=False))

    def map_values(self, function: Function | Expression, value: Serde = json) -> "Stream":
        """`function(value)`; the key stays, so nothing is repartitioned."""
        return self._next("KSTREAM-MAPVALUES", nodes.MapValues(function), value=value)

    def flat_map_values(self, function: Callable[[Any], Iterable[Any]], value: Serde = json) -> "Stream":
        return self._next("KSTREAM-FLATMAPVALUES", nodes.FlatMapValues(function), value=value)

    def map(self, function: Function, key: Serde = string, value: Serde = json) -> "Stream":
        """`function(key, value)` gives a pair."""
        return self._next("KSTREAM-MAP", nodes.Map(function), key=key, value=value, rekeyed=True)

    def flat_map(self, function: Function, key: Serde = string, value: Serde = json) -> "Stream":
        """`function(key, value)` gives pairs."""
        return self._next("KSTREAM-FLATMAP", nodes.FlatMap(function), key=key, value=value, rekeyed=True)

    def select_key(self, function: Function, key: Serde = string) -> "Stream":
        return self._next("KSTREAM-KEY-SELECT", nodes.SelectKey(function), key=key, rekeyed=True)

    def peek(self, function: Function) -> "Stream":
        """`function(key, value)` for its side effects; a step that is done again calls it again."""
        return self._next("KSTREAM-PEEK", nodes.Peek(function))

    def map_batches(self, function: Function, key: Serde = string, value: Serde = json) -> "Stream":
        """Arrow batches with the columns key, value, timestamp: the door for polars, duckdb, numpy and models."""
        return self._next("KSTREAM-MAP", nodes.MapBatches(function), key=key, value=value, rekeyed=True)

    def split(self, *tests: Test) -> "tuple[Stream, ...]":
        """A stream for each test, with the records that no test before took; the last one has the rest."""
        left, found = self, []
        for test in tests:
            found.append(left.filter(test))
            left = left.filter_not(test)
        return (*found, left)

    def merge(self, *others: "Stream") -> "Stream":
        parents = [self.number, *(other.number for other in others)]
        number = self.builder.graph.add("KSTREAM-MERGE", nodes.Merge(), parents)
        rekeyed = self.rekeyed or any(other.rekeyed for other in others)
        return Stream(self.builder, number, self.key, self.value, rekeyed)

    # -- to other keys, tables and topics --------------------------------------------------------------

    def to(self, topic: str, key: Serde | None = None, value: Serde | None = None) -> None:
        self.builder.graph.add(
            "KSTREAM-SINK", nodes.Sink(topic, key or self.key, value or self.value), [self.number]
        )

    def repartition(self, name: str, partitions: int | None = None) -> "Stream":
        """Through an internal topic, by the keys as they are now."""
        number = self.builder.repartition(self.number, name, self.key, self.value, partitions)
        return Stream(self.builder, number, self.key, self.value)

    def group_by_key(self) -> "Grouped":
        return Grouped(self)

    def group_by(self, function: Function, key: Serde = string) -> "Grouped":
        """By `function(key, value)`."""
        return Grouped(self.select_key(function, key))

    def join(
        self, table: "Table", function: Callable[[Any, Any], Any] | None = None, value: Serde = json
    ) -> "Stream":
        """With the table's row of the same key, as it is at that moment; records without one are left out."""
        return self._join(table, function, value, left=False)

    def left_join(
        self, table: "Table", function: Callable[[Any, Any], Any] | None = None, value: Serde = json
    ) -> "Stream":
        """As `join`; without a row, `function` gets None."""
        return self._join(table, function, value, left=True)

    def _join(self, table: "Table", function: Function | None, value: Serde, *, left: bool) -> "Stream":
        aligned = (
            self.repartition(f"{table.store}-join-{len(self.builder.graph.nodes)}") if self.rekeyed else self
        )
        node = nodes.TableJoin(table.store_of(), self.key, table.stored, function or _together, left)
        number = self.builder.graph.add("KSTREAM-JOIN", node, [aligned.number], reads=[table.origin])
        return Stream(self.builder, number, self.key, value)

    def _next(
        self,
        kind: str,
        node: nodes.Node,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        rekeyed: bool = False,
    ) -> "Stream":
        number = self.builder.graph.add(kind, node, [self.number])
        return Stream(self.builder, number, key or self.key, value or self.value, self.rekeyed or rekeyed)


@dataclass(frozen=True)
class Grouped:
    """A stream by keys that belong together."""

    stream: Stream

    def count(self, name: str | None = None, emit: str = BATCH) -> "Table":
        store = self._store(name, (("n", "int64"),))
        node = nodes.Count(store.name, self.stream.key, _emit(emit))
        return self._table(node, store, int64)

    def aggregate(
        self,
        initial: Callable[[], Any],
        function: Callable[[Any, Any, Any], Any],
        *,
        value: Serde = json,
        name: str | None = None,
        emit: str = BATCH,
    ) -> "Table":
        """`function(key, value, aggregate)` gives the next aggregate; the first one is `initial()`."""
        store = self._store(name, (("value", "bytes"),))
        node = nodes.Aggregate(store.name, self.stream.key, value, initial, function, _emit(emit))
        return self._table(node, store, value)

    def reduce(
        self, function: Callable[[Any, Any], Any], *, name: str | None = None, emit: str = BATCH
    ) -> "Table":
        """`function(aggregate, value)`; the first value of a key is its first aggregate."""
        return self.aggregate(_nothing, _Reducing(function), value=self.stream.value, name=name, emit=emit)

    def window(self, windows: Windows) -> "Windowed":
        """By key and window: `tumbling(seconds=10)` or `hopping(...)`."""
        return Windowed(self, windows)

    def _store(self, name: str | None, columns: tuple[tuple[str, str], ...]) -> StoreSpec:
        chosen = name or f"KSTREAM-AGGREGATE-STATE-STORE-{len(self.stream.builder.graph.nodes):010}"
        return StoreSpec(chosen, columns, timestamped=True)

    def _table(self, node: nodes.Node, store: StoreSpec, value: Serde) -> "Table":
        stream = self.stream.repartition(store.name) if self.stream.rekeyed else self.stream
        number = stream.builder.graph.add("KSTREAM-AGGREGATE", node, [stream.number], [store])
        # A count's rows are numbers of the store, not values of a `bytes` column.
        joinable = store.name if not isinstance(node, nodes.Count) else None
        return Table(stream.builder, number, stream.key, value, number, store.name, value, joinable)


@dataclass(frozen=True)
class Windowed:
    grouped: Grouped
    windows: Windows

    def count(self, name: str | None = None) -> "WindowedCounts":
        return WindowedCounts(self, name)


@dataclass(frozen=True)
class WindowedCounts:
    """Counts by key and window; keys of what comes out are pairs of a key and the window's start in milliseconds."""

    windowed: Windowed
    name: str | None
    is_final: bool = False

    def final(self) -> "WindowedCounts":
        """Each window once, when it has closed: its end and grace have passed. With `App(clock="wall")` windows also
        close when nothing more comes."""
        return replace(self, is_final=True)

    def to_stream(self) -> Stream:
        grouped, windows = self.windowed.grouped, self.windowed.windows
        name = self.name or f"KSTREAM-AGGREGATE-STATE-STORE-{len(grouped.stream.builder.graph.nodes):010}"
        node = nodes.WindowedCount(name, grouped.stream.key, windows, self.is_final)
        stream = grouped.stream.repartition(name) if grouped.stream.rekeyed else grouped.stream
        number = stream.builder.graph.add("KSTREAM-AGGREGATE", node, [stream.number], [node.aggregate.spec])
        # The next topic is partitioned by key and window together, as in Kafka Streams.
        return Stream(stream.builder, number, WindowedSerde(stream.key), int64, rekeyed=True)


def tumbling(*, seconds: float = 0, ms: int = 0, grace: float = 0) -> Windows:
    """Windows side by side; `grace` in seconds is how much later than the stream's time records may come."""
    return Windows(int(seconds * 1000) + ms, grace_ms=int(grace * 1000))


def hopping(*, seconds: float = 0, ms: int = 0, advance: float, grace: float = 0) -> Windows:
    """Windows that overlap: one begins every `advance` seconds."""
    return Windows(int(seconds * 1000) + ms, int(advance * 1000), int(grace * 1000))


@dataclass(frozen=True)
class Table:
    """The latest value of each key, as a flow of changes. `origin` is the node that keeps its rows."""

    builder: Builder
    number: int
    key: Serde
    value: Serde
    origin: int
    store: str
    stored: Serde
    joinable: str | None

    def filter(self, test: Callable[[Any, Any], bool]) -> "Table":
        return self._derived("KTABLE-FILTER", nodes.TableFilter(test), self.value)

    def map_values(self, function: Callable[[Any], Any], value: Serde = json) -> "Table":
        return self._derived("KTABLE-MAPVALUES", nodes.TableMapValues(function), value)

    def to_stream(self) -> Stream:
        number = self.builder.graph.add("KTABLE-TOSTREAM", nodes.ToStream(), [self.number])
        return Stream(self.builder, number, self.key, self.value)

    def store_of(self) -> str:
        """The store to look rows up in; a table that was filtered or mapped has none of its own."""
        if self.joinable is None or self.number != self.origin:
            raise BadTopology(
                f"a stream can be joined with a table that was read or aggregated under a name; {self.store} was "
                "counted, filtered or mapped since: write it to a topic and read that as a table"
            )
        return self.joinable

    def _derived(self, kind: str, node: nodes.Node, value: Serde) -> "Table":
        number = self.builder.graph.add(kind, node, [self.number])
        return Table(
            self.builder, number, self.key, value, self.origin, self.store, self.stored, self.joinable
        )


@dataclass(frozen=True)
class _Reducing:
    function: Callable[[Any, Any], Any]

    def __call__(self, _: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else self.function(aggregate, value)


def _nothing() -> None:
    return None


def _together(value: Any, row: Any) -> Any:
    """Without a function of the user's: the fields of both, the record's first."""
    return {**(row or {}), **value} if isinstance(value, dict) else [value, row]


def _emit(emit: str) -> str:
    if emit not in (BATCH, EVERY):
        raise BadTopology(f"emit={emit!r}; it is {BATCH!r} (one change for each key and step) or {EVERY!r}")
    return emit
