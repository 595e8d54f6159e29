"""`Cogrouped`: several streams into one table."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.frozen import frozen_with_dict
from ottla.streams import nodes
from ottla.streams.dsl.builder import checked_emit
from ottla.streams.dsl.stream import same_keys
from ottla.streams.dsl.table import Table
from ottla.streams.dsl.windows import SessionWindowed, SlidingWindowed, Windowed, WindowedTable
from ottla.streams.errors import BadTopology
from ottla.streams.json_serde import json
from ottla.streams.nodes import BATCH, Sessions, Sliding
from ottla.streams.serdes import Serde

if TYPE_CHECKING:
    from ottla.streams.dsl.grouped import Grouped


@frozen_with_dict
class Cogrouped:
    """Each stream with its `function(key, value, aggregate)`."""

    parts: "tuple[tuple[Grouped, Callable[[Any, Any, Any], Any]], ...]"
    windows: Any = None

    def cogroup(self, grouped: "Grouped", function: Callable[[Any, Any, Any], Any]) -> "Cogrouped":
        same_keys(self.parts[0][0].stream.key, grouped.stream.key, "two streams of a cogroup")
        return Cogrouped((*self.parts, (grouped, function)), self.windows)

    def window(self, windows: Any) -> "Cogrouped":
        return Cogrouped(self.parts, windows)

    def aggregate(
        self,
        initial: Callable[[], Any],
        merger: Callable[[Any, Any, Any], Any] | None = None,
        *,
        value: Serde = json,
        name: str | None = None,
        emit: str = BATCH,
    ) -> Table:
        """The first aggregate is `initial()`; sessions also need a `merger(key, aggregate, other)`."""
        checked_emit(emit)
        first = self.parts[0][0]
        graph = first.stream.builder.graph
        store = name or graph.name("COGROUPKSTREAM-AGGREGATE-STATE-STORE")
        streams = [
            grouped.aligned(store if at == 0 else f"{store}-{at}")
            for at, (grouped, _) in enumerate(self.parts)
        ]
        folding = nodes.Folding(value, initial, nodes.ByStream(tuple(function for _, function in self.parts)))
        key = streams[0].key
        inner, out = self._inner(store, key, folding, merger, emit)
        parents = [
            graph.add("COGROUPKSTREAM-AGGREGATE", nodes.PassThrough(), [stream.number], uses=(store,))
            for stream in streams
        ]
        spec = folding.spec(store, windowed=isinstance(inner, nodes.WindowedAggregate))
        node = nodes.Cogroup(inner, len(streams))
        number = graph.add("COGROUPKSTREAM-MERGE", node, parents, [spec])
        graph.nodes[number].uses = ()
        kind = Table if self.windows is None else WindowedTable
        return kind(first.stream.builder, number, out, value, node, store=store)

    def _inner(
        self, store: str, key: Serde, folding: nodes.Folding, merger: Any, emit: str
    ) -> tuple[nodes.Aggregate | nodes.Closing, Serde]:
        if self.windows is None:
            return nodes.Aggregate(store, key, folding, emit), key
        if isinstance(self.windows, Sessions):
            if merger is None:
                raise BadTopology("sessions that meet become one: aggregate(initial, merger)")
            node = nodes.SessionAggregate(store, key, folding, merger, self.windows, emit)
            return node, SessionWindowed(self.parts[0][0], self.windows).key(key)
        kind = SlidingWindowed if isinstance(self.windows, Sliding) else Windowed
        windowed = kind(self.parts[0][0], self.windows)
        return windowed.node(store, key, folding, emit), windowed.key(key)
