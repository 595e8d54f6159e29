"""`Grouped`: a stream by keys that belong together, to be aggregated; `GroupedTable`: the same of a table."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.frozen import frozen_with_dict
from ottla.pipelines.aggregate import Windows
from ottla.pipelines.state.spec import StoreSpec
from ottla.streams import nodes, reductions
from ottla.streams.change_serde import ChangeSerde
from ottla.streams.dsl.builder import Builder, checked_emit
from ottla.streams.dsl.reducing import Reduce, Reductions, nothing, plus_one, reducing, zero
from ottla.streams.dsl.stream import Stream
from ottla.streams.dsl.table import Table
from ottla.streams.dsl.windows import SessionWindowed, SlidingWindowed, Windowed
from ottla.streams.json_serde import json
from ottla.streams.nodes import BATCH, Sessions, Sliding
from ottla.streams.nodes.aggregates import Keeping
from ottla.streams.reductions import Reduction
from ottla.streams.serdes import Serde, int64

if TYPE_CHECKING:
    from ottla.streams.dsl.cogrouped import Cogrouped


@frozen_with_dict
class Grouped(Reductions[Table]):
    """A stream by keys that belong together. `name` is that of the repartition topic, if one is needed."""

    stream: Stream
    name: str | None = None

    def count(self, name: str | None = None, emit: str = BATCH) -> Table:
        """With `emit="batch"` what goes through a repartition topic is counts of keys, not records."""
        if self.stream.rekeyed and emit == BATCH:
            return self._count_of_counts(name)
        return self.reduced({"n": reductions.count()}, name, emit, single=True)

    def _count_of_counts(self, name: str | None) -> Table:
        graph = self.stream.builder.graph
        store = name or graph.name("KSTREAM-AGGREGATE-STATE-STORE")
        own = graph.name("KSTREAM-AGGREGATE")
        stream = self.stream.counted(self.name or store)
        of = {"n": Reduction(reductions.COUNT, partial=True)}
        keeping = nodes.Columns(of, (("n", "int64"),), single=True)
        return self._placed(store, own, stream, keeping, int64, BATCH)

    def aggregate(
        self,
        initial: Callable[[], Any],
        function: Callable[[Any, Any, Any], Any],
        *,
        value: Serde = json,
        name: str | None = None,
        emit: str = BATCH,
    ) -> Table:
        """`function(key, value, aggregate)` gives the next aggregate; the first one is `initial()`."""
        return self.kept("KSTREAM-AGGREGATE", nodes.Folding(value, initial, function), value, name, emit)

    def reduce(
        self, function: Callable[[Any, Any], Any], *, name: str | None = None, emit: str = BATCH
    ) -> Table:
        """`function(aggregate, value)`; the first value of a key is its first aggregate."""
        value = self.stream.value
        return self.kept("KSTREAM-REDUCE", nodes.Folding(value, nothing, Reduce(function)), value, name, emit)

    def window(self, windows: Windows | Sliding | Sessions) -> "Windowed":
        """By key and window: `tumbling(seconds=10)`, `hopping(...)`, `sliding(...)`, `session(...)`."""
        if isinstance(windows, Sessions):
            return SessionWindowed(self, windows)
        return SlidingWindowed(self, windows) if isinstance(windows, Sliding) else Windowed(self, windows)

    def cogroup(self, function: Callable[[Any, Any, Any], Any]) -> "Cogrouped":
        """Several streams into one table: `a.cogroup(f).cogroup(b, g).aggregate(initial)`."""
        from ottla.streams.dsl.cogrouped import Cogrouped

        return Cogrouped(((self, function),))

    # -- how ---------------------------------------------------------------------------------------------------

    def reduced(
        self, of: dict[str, Reduction], name: str | None, emit: str, *, single: bool = False
    ) -> Table:
        keeping, value = reducing(self.stream.value, of, single=single)
        return self.kept("KSTREAM-AGGREGATE", keeping, value, name, emit)

    def kept(self, kind: str, keeping: Keeping, value: Serde, name: str | None, emit: str) -> Table:
        checked_emit(emit)
        graph = self.stream.builder.graph
        store = name or graph.name(f"{kind}-STATE-STORE")
        own = graph.name(kind)
        return self._placed(store, own, self.aligned(store), keeping, value, emit)

    def _placed(
        self, store: str, own: str, stream: Stream, keeping: Keeping, value: Serde, emit: str
    ) -> Table:
        graph = stream.builder.graph
        node = nodes.Aggregate(store, stream.key, keeping, emit)
        number = graph.add("", node, [stream.number], [keeping.spec(store)], name=own)
        return Table(stream.builder, number, stream.key, value, node, store=store, stored=keeping.value)

    def aligned(self, store: str) -> Stream:
        return self.stream.aligned(self.name or store) if self.stream.rekeyed else self.stream


@frozen_with_dict
class GroupedTable:
    """The rows of a table by groups: a row that changes leaves its group and comes to another."""

    builder: Builder
    number: int
    key: Serde
    value: Serde
    name: str | None = None

    def count(self, name: str | None = None, emit: str = BATCH) -> Table:
        return self._table("KTABLE-AGGREGATE", zero, plus_one, _minus_one, int64, name, emit)

    def reduce(
        self,
        adder: Callable[[Any, Any], Any],
        subtractor: Callable[[Any, Any], Any],
        *,
        name: str | None = None,
        emit: str = BATCH,
    ) -> Table:
        """`adder(aggregate, value)` for a row that comes, `subtractor(aggregate, value)` for one that goes."""
        both = (Reduce(adder), Reduce(subtractor))
        return self._table("KTABLE-REDUCE", nothing, *both, self.value, name, emit)

    def aggregate(
        self,
        initial: Callable[[], Any],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
        *,
        value: Serde = json,
        name: str | None = None,
        emit: str = BATCH,
    ) -> Table:
        """Both get key, value and aggregate."""
        return self._table("KTABLE-AGGREGATE", initial, adder, subtractor, value, name, emit)

    def _table(
        self, kind: str, initial: Any, add: Any, subtract: Any, value: Serde, name: str | None, emit: str
    ) -> Table:
        checked_emit(emit)
        graph = self.builder.graph
        sink, source, own = (graph.name(prefix) for prefix in ("KSTREAM-SINK", "KSTREAM-SOURCE", kind))
        store = name or graph.name(f"{kind}-STATE-STORE")
        topic, changes = self.name or store, ChangeSerde(self.value)
        internal = self.builder.internal(topic)
        graph.add("", nodes.Sink(internal, self.key, changes), [self.number], name=sink)
        read = self.builder.source(
            internal, self.key, changes, f"{self.builder.name}-{topic}-repartition", source
        )
        node = nodes.TableAggregate(store, self.key, value, initial, add, subtract, emit)
        spec = StoreSpec(store, (("value", "bytes"),), timestamped=True)
        number = graph.add("", node, [read], [spec], name=own)
        return Table(self.builder, number, self.key, value, node, store=store)


def _minus_one(_: Any, __: Any, count: int) -> int:
    return count - 1
