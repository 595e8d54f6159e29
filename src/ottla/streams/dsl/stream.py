"""`Stream`: records, each by itself. Each method adds a node to the topology and returns the next object."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ottla.frozen import frozen_with_dict
from ottla.pipelines.state.spec import StoreSpec
from ottla.streams import nodes
from ottla.streams.dsl.builder import Builder, Function, Test
from ottla.streams.dsl.processing import added_process
from ottla.streams.errors import BadTopology
from ottla.streams.expressions import Expression
from ottla.streams.json_serde import json
from ottla.streams.nodes import INNER, LEFT, OUTER, JoinWindows
from ottla.streams.nodes.joins import together
from ottla.streams.serdes import Serde, int64, string

if TYPE_CHECKING:
    from ottla.streams.dsl.grouped import Grouped
    from ottla.streams.dsl.table import GlobalTable, Table

Joiner = Callable[[Any, Any], Any]


@frozen_with_dict
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

    def select_key(self, function: Function | Expression, key: Serde = string) -> "Stream":
        """By `function(key, value)`, or an expression over the value: `col.ward`."""
        return self._next("KSTREAM-KEY-SELECT", nodes.SelectKey(function), key=key, rekeyed=True)

    def peek(self, function: Function) -> "Stream":
        """`function(key, value)` for its side effects; a step that is done again calls it again."""
        return self._next("KSTREAM-PEEK", nodes.Peek(function))

    def print(self, label: str | None = None) -> "Stream":
        """Each record to the standard output of the worker, as `[label]: key, value`."""
        shown = label or self.builder.graph.nodes[self.number].name
        return self._next("KSTREAM-PRINTER", nodes.Print(shown))

    def map_batches(self, function: Function, key: Serde = string, value: Serde = json) -> "Stream":
        """Arrow batches with the columns key, value, timestamp: the door for polars, duckdb, numpy and models."""
        return self._next("KSTREAM-MAP", nodes.MapBatches(function), key=key, value=value, rekeyed=True)

    def split(self, *tests: Test) -> "tuple[Stream, ...]":
        """A stream for each test, with the records that no test before took; the last one has the rest."""
        return tuple(self._branches([(None, test) for test in tests], None).values())

    def branch(self, prefix: str = "", /, **tests: Test) -> "dict[str, Stream]":
        """As `split`, by name: `branch(high=col.pulse > 150, low=...)`. What no test takes is in "default"."""
        return self._branches([(prefix + name, test) for name, test in tests.items()], prefix + "default")

    def _branches(self, tests: list[tuple[str | None, Test]], rest: str | None) -> "dict[str, Stream]":
        graph = self.builder.graph
        number = graph.add("KSTREAM-BRANCH", nodes.Branch(tuple(test for _, test in tests)), [self.number])
        base = graph.nodes[number].name
        branches: dict[str, Stream] = {}
        for index, name in enumerate([*(name for name, _ in tests), rest]):
            graph.name("")  # Kafka Streams counts here too
            own = name or f"{base}{(index + 1) if index < len(tests) else 0}"
            child = graph.add("", nodes.BranchChild(index), [number], name=own)
            branches[own] = Stream(self.builder, child, self.key, self.value, self.rekeyed)
        return branches

    def merge(self, *others: "Stream") -> "Stream":
        parents = [self.number, *(other.number for other in others)]
        number = self.builder.graph.add("KSTREAM-MERGE", nodes.Merge(), parents)
        rekeyed = self.rekeyed or any(other.rekeyed for other in others)
        return Stream(self.builder, number, self.key, self.value, rekeyed)

    def process(
        self,
        processor: Callable[[], Any],
        *,
        stores: Iterable[Any] = (),
        outputs: Iterable[str] = (),
        key: Serde | None = None,
        value: Serde = json,
        name: str | None = None,
    ) -> Any:
        """Each record through a `Processor`; what it forwards goes on. With `outputs` a stream for each of these names:
        `forward(record, to=name)`. `stores` are `keyed_store(...)`, `window_store(...)`, or names of stores that
        another processor has."""
        return added_process(
            self, processor, stores, tuple(outputs), key or self.key, value, name, keeps_keys=False
        )

    def process_values(
        self,
        processor: Callable[[], Any],
        *,
        stores: Iterable[Any] = (),
        outputs: Iterable[str] = (),
        value: Serde = json,
        name: str | None = None,
    ) -> Any:
        """As `process`; keys stay as they are, so nothing is repartitioned."""
        return added_process(self, processor, stores, tuple(outputs), self.key, value, name, keeps_keys=True)

    # -- to other keys, tables and topics --------------------------------------------------------------

    def to(self, topic: str, key: Serde | None = None, value: Serde | None = None) -> None:
        self.builder.graph.add(
            "KSTREAM-SINK", nodes.Sink(topic, key or self.key, value or self.value), [self.number]
        )

    def dataframe(self, spark: Any, topic: str | None = None) -> Any:
        """A streaming DataFrame (key, value, timestamp, partition, offset) of these records. Those of a source are read
        where they are; others go through `topic`, which must be there and is filled while the application runs."""
        from ottla.streams.dataframes import read

        node = self.builder.graph.nodes[self.number].node
        if topic is not None:
            self.to(topic)
        elif isinstance(node, nodes.Source):
            topic = node.name
        else:
            raise BadTopology(
                "dataframe(spark, topic=...): records of a stream that is not a source need a topic"
            )
        return read(spark, self.builder.client, topic, self.key, self.value)

    def through(self, topic: str, key: Serde | None = None, value: Serde | None = None) -> "Stream":
        """To a topic of yours, and on from what is read there."""
        self.to(topic, key, value)
        key, value = key or self.key, value or self.value
        return Stream(self.builder, self.builder.source(topic, key, value), key, value)

    def repartition(self, name: str | None = None, partitions: int | None = None) -> "Stream":
        """Through an internal topic, by the keys as they are now."""
        return self.aligned(name or self.builder.graph.name("KSTREAM-REPARTITION"), partitions)

    def aligned(self, name: str, partitions: int | None = None, *, keeps_null: bool = False) -> "Stream":
        number = self.builder.repartition(
            self.number, name, self.key, self.value, partitions, keeps_null=keeps_null
        )
        return Stream(self.builder, number, self.key, self.value)

    def counted(self, name: str) -> "Stream":
        """Through an internal topic, as counts of keys."""
        before = nodes.CountByKey(self.key)
        number = self.builder.repartition(self.number, name, self.key, int64, before=before)
        return Stream(self.builder, number, self.key, int64)

    def to_table(self, name: str | None = None) -> "Table":
        """The latest value of each key."""
        from ottla.streams.dsl.table import Table

        graph = self.builder.graph
        own = graph.name("KSTREAM-TOTABLE")
        store = name or graph.name("KSTREAM-TOTABLE-STATE-STORE")
        stream = self.aligned(own) if self.rekeyed else self
        node = nodes.TableSource(self.key, self.value)
        number = graph.add("", node, [stream.number], name=own)
        table = Table(self.builder, number, self.key, self.value, node, unnamed=store)
        if name is not None:
            table.keep(name)
        return table

    def group_by_key(self, name: str | None = None) -> "Grouped":
        """`name` is that of the repartition topic, if one is needed; without it, that of the store."""
        from ottla.streams.dsl.grouped import Grouped

        return Grouped(self, name)

    def group_by(
        self, function: Function | Expression, key: Serde = string, name: str | None = None
    ) -> "Grouped":
        """By `function(key, value)`, or an expression over the value: `col.ward`."""
        return self.select_key(function, key).group_by_key(name)

    # -- joins -----------------------------------------------------------------------------------------------

    def join(
        self,
        other: "Stream | Table | GlobalTable",
        function: Joiner | None = None,
        value: Serde = json,
        *,
        within: "JoinWindows | int | None" = None,
        on: Function | None = None,
        name: str | None = None,
    ) -> "Stream":
        """With a table: with the row of the same key, as it is at that moment. With a global table: with the row that
        `on(key, value)` names. With a stream: with all records that are near in time (`within`, in milliseconds or as
        `JoinWindows`). What finds nothing is left out. Without `function(this, other)` fields are joined."""
        return self._join(INNER, other, function, value, within, on, name)

    def left_join(
        self,
        other: "Stream | Table | GlobalTable",
        function: Joiner | None = None,
        value: Serde = json,
        *,
        within: "JoinWindows | int | None" = None,
        on: Function | None = None,
        name: str | None = None,
    ) -> "Stream":
        """As `join`; for a record that finds nothing `function` gets None."""
        return self._join(LEFT, other, function, value, within, on, name)

    def outer_join(
        self,
        other: "Stream",
        function: Joiner | None = None,
        value: Serde = json,
        *,
        within: "JoinWindows | int | None" = None,
        name: str | None = None,
    ) -> "Stream":
        """As `join` with a stream; what finds nothing comes out from either side."""
        return self._join(OUTER, other, function, value, within, None, name)

    def _join(
        self,
        how: str,
        other: "Stream | Table | GlobalTable",
        function: Joiner | None,
        value: Serde,
        within: "JoinWindows | int | None",
        on: Function | None,
        name: str | None,
    ) -> "Stream":
        from ottla.streams.dsl.table import GlobalTable

        if isinstance(other, Stream):
            if within is None or on is not None:
                raise BadTopology(
                    "a stream is joined with a stream within a time: join(other, within=5_000), without on="
                )
            windows = JoinWindows(within, within) if isinstance(within, int) else within
            return _stream_join(self, other, how, function or together, value, windows, name)
        if within is not None or how == OUTER:
            raise BadTopology("a stream is joined with a table by key alone, inner or left: without within=")
        if isinstance(other, GlobalTable):
            return self._join_global(how, other, function, value, on)
        if on is not None:
            raise BadTopology(
                "a table is joined by the stream's key: select_key(...) first, or use a global table"
            )
        return self._join_table(how, other, function, value, name)

    def _join_table(
        self, how: str, table: "Table", function: Joiner | None, value: Serde, name: str | None
    ) -> "Stream":
        same_keys(self.key, table.key, "a stream and a table")
        graph, is_left = self.builder.graph, how == LEFT
        stream = self
        if self.rekeyed:
            stream = self.aligned(name or graph.nodes[self.number].name, keeps_null=is_left)
        node = nodes.TableJoin(self.key, table.lookup(), function, is_left)
        kind = "KSTREAM-LEFTJOIN" if is_left else "KSTREAM-JOIN"
        number = graph.add(kind, node, [stream.number], reads=[table.number], uses=table.stores())
        return Stream(self.builder, number, self.key, value)

    def _join_global(
        self, how: str, table: "GlobalTable", function: Joiner | None, value: Serde, on: Function | None
    ) -> "Stream":
        is_left = how == LEFT
        node = nodes.TableJoin(table.key, table.lookup(), function, is_left, on)
        kind = "KSTREAM-LEFTJOIN" if is_left else "KSTREAM-JOIN"
        return self._next(kind, node, value=value)

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


def same_keys(one: Serde, other: Serde, what: str) -> None:
    """Keys of different kinds have different bytes: they lie in different partitions and never meet."""
    if one.name != other.name:
        raise BadTopology(
            f"{what} are joined by keys of the same kind, but these are {one.name} and {other.name}: "
            "give one the other's keys with select_key(...) or map(...)"
        )


def _stream_join(
    left: Stream,
    right: Stream,
    how: str,
    function: Joiner,
    value: Serde,
    windows: JoinWindows,
    name: str | None,
) -> Stream:
    same_keys(left.key, right.key, "two streams")
    graph, keeps = left.builder.graph, how != INNER
    if left.rekeyed:
        left = left.aligned(f"{name}-left" if name else graph.nodes[left.number].name, keeps_null=keeps)
    if right.rekeyed:
        right = right.aligned(
            f"{name}-right" if name else graph.nodes[right.number].name, keeps_null=how == OUTER
        )
    windowed = [
        f"{name}-{side}-windowed" if name else graph.name("KSTREAM-WINDOWED") for side in ("this", "other")
    ]
    marks = ("OUTERTHIS" if how == OUTER else "JOINTHIS", "OUTEROTHER" if how != INNER else "JOINOTHER")
    counted = [graph.name(f"KSTREAM-{mark}") for mark in marks]
    suffixes = (
        "-outer-this-join" if how == OUTER else "-this-join",
        "-outer-other-join" if keeps else "-other-join",
    )
    joins = [name + suffix for suffix in suffixes] if name else counted
    merge = f"{name}-merge" if name else graph.name("KSTREAM-MERGE")
    stores = tuple(f"{base}-store" for base in joins)
    shared = "KSTREAM-OUTERSHARED"
    kind = "-outer-shared-join-store" if how == OUTER else "-left-shared-join-store"
    waiting = name + kind if name else counted[0].replace(f"KSTREAM-{marks[0]}", shared) + "-store"
    node = nodes.StreamJoin(
        left.key, left.value, right.value, function, windows, how, (stores[0], stores[1]), waiting
    )
    specs = node.specs()
    return _placed_join(left, right, node, specs, windowed, joins, merge, value)


def _placed_join(
    left: Stream,
    right: Stream,
    node: nodes.StreamJoin,
    specs: tuple[StoreSpec, ...],
    windowed: list[str],
    joins: list[str],
    merge: str,
    value: Serde,
) -> Stream:
    """Five nodes, as Kafka Streams shows them; the last one does the work."""
    graph, shared = left.builder.graph, tuple(spec.name for spec in specs[2:])
    parents = []
    for side, (stream, own, join) in enumerate(zip((left, right), windowed, joins, strict=True)):
        before = graph.add("", nodes.PassThrough(), [stream.number], name=own, uses=(specs[side].name,))
        uses = (specs[1 - side].name, *shared)
        parents.append(graph.add("", nodes.PassThrough(), [before], name=join, uses=uses))
    number = graph.add("", node, parents, specs, name=merge)
    graph.nodes[number].uses = ()
    return Stream(left.builder, number, left.key, value)
