"""`Table`: the latest value of each key, as a flow of changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.frozen import frozen_with_dict
from ottla.pipelines.state.spec import StoreSpec
from ottla.streams import nodes
from ottla.streams.dsl.builder import Builder, Function, Test
from ottla.streams.dsl.stream import Joiner, Stream, same_keys
from ottla.streams.errors import BadTopology
from ottla.streams.json_serde import json
from ottla.streams.nodes import BATCH, EVERY, INNER, LEFT, OUTER
from ottla.streams.nodes.joins import together
from ottla.streams.nodes.lookups import FilterLookup, JoinLookup, Lookup, MapLookup, StoreLookup
from ottla.streams.serdes import Serde, string

if TYPE_CHECKING:
    from ottla.streams.dsl.grouped import GroupedTable

_NEEDS = {INNER: (True, True), LEFT: (True, False), OUTER: (False, False)}


@dataclass
class Table:
    """The latest value of each key. `store` holds its rows, if somebody needs them; without one they are made from the
    rows of its `parents` when a join asks. `unnamed` is the store's name if it gets one on demand."""

    builder: Builder
    number: int
    key: Serde
    value: Serde
    node: nodes.AnyNode
    parents: "tuple[Table, ...]" = ()
    store: str | None = None
    unnamed: str | None = None
    how: tuple[str, Joiner] | None = field(default=None)  # of a join
    stored: Serde | None = None  # reads the store, if that is not `value`

    # -- tables from tables ----------------------------------------------------------------------------

    def filter(self, test: Test, name: str | None = None) -> "Table":
        """Rows for which `test(key, value)` holds, or an expression over the value. `name` keeps them in a store."""
        return self._filter(test, True, name)

    def filter_not(self, test: Test, name: str | None = None) -> "Table":
        return self._filter(test, False, name)

    def _filter(self, test: Test, keep: bool, name: str | None) -> "Table":
        sends_olds = self.enable_olds(force=False)
        node = nodes.TableFilter(test, keep, self.key, self.value, sends_olds)
        return self._derived("KTABLE-FILTER", node, self.value, name)

    def map_values(
        self, function: Callable[[Any], Any], value: Serde = json, name: str | None = None
    ) -> "Table":
        node = nodes.TableMapValues(function, self.key, value)
        return self._derived("KTABLE-MAPVALUES", node, value, name)

    def _derived(self, kind: str, node: nodes.Derived, value: Serde, name: str | None) -> "Table":
        number = self.builder.graph.add(kind, node, [self.number])
        table = Table(self.builder, number, self.key, value, node, (self,))
        if name is not None:
            table.keep(name)
        return table

    # -- joins -----------------------------------------------------------------------------------------------

    def join(
        self,
        other: "Table",
        function: Joiner | None = None,
        value: Serde = json,
        *,
        on: Function | None = None,
        name: str | None = None,
    ) -> "Table":
        """Rows of both with the same key; with `on(value)`, with the row of `other` that it names."""
        return self._join(INNER, other, function, value, on, name)

    def left_join(
        self,
        other: "Table",
        function: Joiner | None = None,
        value: Serde = json,
        *,
        on: Function | None = None,
        name: str | None = None,
    ) -> "Table":
        return self._join(LEFT, other, function, value, on, name)

    def outer_join(
        self, other: "Table", function: Joiner | None = None, value: Serde = json, *, name: str | None = None
    ) -> "Table":
        return self._join(OUTER, other, function, value, None, name)

    def _join(
        self,
        how: str,
        other: "Table",
        function: Joiner | None,
        value: Serde,
        on: Function | None,
        name: str | None,
    ) -> "Table":
        joiner = function or together
        if on is not None:
            from ottla.streams.dsl.foreign import foreign_join

            return foreign_join(self, other, how, joiner, value, on, name)
        same_keys(self.key, other.key, "two tables")
        graph = self.builder.graph
        merge = graph.name("KTABLE-MERGE")
        if how != INNER:
            self.enable_olds(force=True)
        if how == OUTER:
            other.enable_olds(force=True)
        sides = []
        for is_left, mine, theirs in ((True, self, other), (False, other, self)):
            node = nodes.TableTableJoin(
                self.key, theirs.lookup(), joiner, how, is_left, takes_every=mine.emit == BATCH
            )
            kind = "KTABLE-JOINTHIS" if is_left else "KTABLE-JOINOTHER"
            sides.append(graph.add(kind, node, [mine.number], reads=[theirs.number], uses=theirs.stores()))
        emit = BATCH if BATCH in (self.emit, other.emit) else EVERY
        node_ = nodes.TableMerge(self.key, value, name, emit)
        specs = [] if name is None else [_spec(name)]
        number = graph.add("", node_, sides, specs, name=merge)
        return Table(self.builder, number, self.key, value, node_, (self, other), name, how=(how, joiner))

    # -- to other keys, streams and topics -----------------------------------------------------------------

    def group_by(
        self, function: Function, key: Serde = string, value: Serde = json, name: str | None = None
    ) -> "GroupedTable":
        """By `function(key, value)`, which gives a pair of the group's key and the value that goes into the group."""
        from ottla.streams.dsl.grouped import GroupedTable

        self.enable_olds(force=True)
        number = self.builder.graph.add("KTABLE-SELECT", nodes.Regroup(function), [self.number])
        return GroupedTable(self.builder, number, key, value, name)

    def to_stream(self, select_key: Function | None = None, key: Serde = string) -> Stream:
        """The changes' new values; a row that goes is a record without value."""
        number = self.builder.graph.add("KTABLE-TOSTREAM", nodes.ToStream(), [self.number])
        stream = Stream(self.builder, number, self.key, self.value)
        return stream if select_key is None else stream.select_key(select_key, key)

    def to(self, topic: str, key: Serde | None = None, value: Serde | None = None) -> None:
        self.to_stream().to(topic, key, value)

    def suppress(
        self,
        *,
        seconds: float = 0,
        ms: int = 0,
        max_records: int | None = None,
        on_full: str = "emit",
        name: str | None = None,
    ) -> "Table":
        """Holds changes back: the last one of each key comes out that long after the first one came. With more than
        `max_records` of them the oldest come early, or with `on_full="fail"` it is an error."""
        limit = round(seconds * 1000) + ms
        return self.suppressed(limit, until_closed=False, max_records=max_records, on_full=on_full, name=name)

    def suppressed(
        self, limit_ms: int, *, until_closed: bool, max_records: int | None, on_full: str, name: str | None
    ) -> "Table":
        if on_full not in ("emit", "fail"):
            raise BadTopology(f"on_full={on_full!r}; it is 'emit' or 'fail'")
        graph = self.builder.graph
        own = name or graph.name("KTABLE-SUPPRESS")
        store = f"{name}-store" if name else graph.name("KTABLE-SUPPRESS-STATE-STORE")
        self.enable_olds(force=True)
        node = nodes.Suppress(store, self.key, self.value, limit_ms, until_closed, max_records, on_full)
        number = graph.add("", node, [self.number], [node.spec()], name=own)
        return Table(self.builder, number, self.key, self.value, node, (self,))

    # -- where rows are --------------------------------------------------------------------------------------

    @property
    def emit(self) -> str:
        """Whether every change of a step flows on or the last one of each key, as its aggregate or join has it."""
        if isinstance(self.node, nodes.Derived):
            return self.parents[0].emit
        node = self.node.aggregate if isinstance(self.node, nodes.Cogroup) else self.node
        return getattr(node, "emit", EVERY)

    def keep(self, name: str) -> None:
        """Keeps the rows in a store of that name."""
        self.store = name
        self.node.store = name  # type: ignore[union-attr]
        self.builder.graph.keep(self.number, _spec(name))

    def enable_olds(self, *, force: bool) -> bool:
        """Whether changes carry old values from now on; a table from a topic has them only if its rows are kept, which
        `force` sees to. When Kafka Streams sends tombstones depends on it."""
        node = self.node
        if isinstance(node, nodes.TableSource):
            if self.store is None and force and self.unnamed is not None:
                self.keep(self.unnamed)
            return self.store is not None
        if isinstance(node, nodes.Derived) and self.store is None:
            sends = self.parents[0].enable_olds(force=force)
            if isinstance(node, nodes.TableFilter):
                node.sends_olds = node.sends_olds or sends
            return sends
        if self.how is not None:
            for parent in self.parents:
                parent.enable_olds(force=True)
        return True

    def lookup(self) -> Lookup:
        """How a join finds a row of this table."""
        if self.store is None and isinstance(self.node, nodes.TableSource) and self.unnamed is not None:
            self.keep(self.unnamed)
        node = self.node.aggregate if isinstance(self.node, nodes.Cogroup) else self.node
        if hasattr(node, "traced"):
            node.traced = True
        if self.store is not None:
            return StoreLookup(self.store, self.stored or self.value)
        node = self.node
        if isinstance(node, nodes.TableFilter):
            node.is_looked_up = True
            return FilterLookup(self.parents[0].lookup(), node.test, node.keep)
        if isinstance(node, nodes.TableMapValues):
            return MapLookup(self.parents[0].lookup(), node.function)
        if self.how is not None:
            how, joiner = self.how
            left, right = (parent.lookup() for parent in self.parents)
            return JoinLookup(left, right, joiner, _NEEDS[how])
        raise BadTopology(
            "a table that was suppressed has no rows to look up; write it to a topic and read that as a table"
        )

    def stores(self) -> tuple[str, ...]:
        """Those that a lookup reads."""
        if self.store is not None:
            return (self.store,)
        return tuple(name for parent in self.parents for name in parent.stores())


@frozen_with_dict
class GlobalTable:
    """A topic that every worker holds whole, as far as it has read it: joins need no repartitioning."""

    builder: Builder
    topic: str
    key: Serde
    value: Serde
    store: str

    def lookup(self) -> Lookup:
        return StoreLookup(self.store, self.value)


def _spec(name: str) -> StoreSpec:
    return StoreSpec(name, (("value", "bytes"),), timestamped=True)
