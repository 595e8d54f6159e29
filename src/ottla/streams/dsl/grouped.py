"""`Grouped`: a stream by keys that belong together, to be aggregated."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.aggregate import Windows
from ottla.pipelines.state.spec import StoreSpec
from ottla.streams import nodes
from ottla.streams.dsl.builder import checked_emit
from ottla.streams.dsl.stream import Stream
from ottla.streams.dsl.table import Table
from ottla.streams.dsl.windows import Windowed
from ottla.streams.nodes import BATCH
from ottla.streams.serdes import Serde, int64, json


@dataclass(frozen=True)
class Grouped:
    """A stream by keys that belong together."""

    stream: Stream

    def count(self, name: str | None = None, emit: str = BATCH) -> Table:
        store = self._store(name, (("n", "int64"),))
        node = nodes.Count(store.name, self.stream.key, checked_emit(emit))
        return self._table(node, store, int64)

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
        store = self._store(name, (("value", "bytes"),))
        node = nodes.Aggregate(store.name, self.stream.key, value, initial, function, checked_emit(emit))
        return self._table(node, store, value)

    def reduce(
        self, function: Callable[[Any, Any], Any], *, name: str | None = None, emit: str = BATCH
    ) -> Table:
        """`function(aggregate, value)`; the first value of a key is its first aggregate."""
        return self.aggregate(_nothing, _Reducing(function), value=self.stream.value, name=name, emit=emit)

    def window(self, windows: Windows) -> Windowed:
        """By key and window: `tumbling(seconds=10)` or `hopping(...)`."""
        return Windowed(self, windows)

    def _store(self, name: str | None, columns: tuple[tuple[str, str], ...]) -> StoreSpec:
        chosen = name or f"KSTREAM-AGGREGATE-STATE-STORE-{len(self.stream.builder.graph.nodes):010}"
        return StoreSpec(chosen, columns, timestamped=True)

    def _table(self, node: nodes.Node, store: StoreSpec, value: Serde) -> Table:
        stream = self.stream.repartition(store.name) if self.stream.rekeyed else self.stream
        number = stream.builder.graph.add("KSTREAM-AGGREGATE", node, [stream.number], [store])
        # A count's rows are numbers of the store, not values of a `bytes` column.
        joinable = store.name if not isinstance(node, nodes.Count) else None
        return Table(stream.builder, number, stream.key, value, number, store.name, value, joinable)


@dataclass(frozen=True)
class _Reducing:
    function: Callable[[Any, Any], Any]

    def __call__(self, _: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else self.function(aggregate, value)


def _nothing() -> None:
    return None
