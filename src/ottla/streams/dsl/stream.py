"""`Stream`: records, each by itself. Each method adds a node to the topology and returns the next object."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.streams import nodes
from ottla.streams.dsl.builder import Builder, Function, Test
from ottla.streams.dsl.processing import added_process
from ottla.streams.expressions import Expression
from ottla.streams.serdes import Serde, json, string

if TYPE_CHECKING:
    from ottla.streams.dsl.grouped import Grouped
    from ottla.streams.dsl.table import Table


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

    def repartition(self, name: str, partitions: int | None = None) -> "Stream":
        """Through an internal topic, by the keys as they are now."""
        number = self.builder.repartition(self.number, name, self.key, self.value, partitions)
        return Stream(self.builder, number, self.key, self.value)

    def group_by_key(self) -> "Grouped":
        from ottla.streams.dsl.grouped import Grouped

        return Grouped(self)

    def group_by(self, function: Function, key: Serde = string) -> "Grouped":
        """By `function(key, value)`."""
        from ottla.streams.dsl.grouped import Grouped

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


def _together(value: Any, row: Any) -> Any:
    """Without a function of the user's: the fields of both, the record's first."""
    return {**(row or {}), **value} if isinstance(value, dict) else [value, row]
