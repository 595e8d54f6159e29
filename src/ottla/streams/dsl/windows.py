"""Windows, and what is aggregated by key and window."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.frozen import frozen_with_dict
from ottla.pipelines.aggregate import Windows
from ottla.streams import nodes, reductions
from ottla.streams.dsl.builder import checked_emit, milliseconds
from ottla.streams.dsl.reducing import Reduce, Reductions, nothing, plus_one, reducing, zero
from ottla.streams.dsl.table import Table
from ottla.streams.errors import BadTopology
from ottla.streams.json_serde import json
from ottla.streams.nodes import BATCH, JoinWindows, Sessions, Sliding
from ottla.streams.nodes.aggregates import Folding, Keeping, MergingTwo, reducing_one_by_one
from ottla.streams.reductions import Reduction
from ottla.streams.serdes import Serde, int64
from ottla.streams.windowed_serdes import SessionSerde, WindowedSerde

if TYPE_CHECKING:
    from ottla.streams.dsl.grouped import Grouped


class WindowedTable(Table):
    """Keys are `Windowed(key, start, end)`."""

    def final(self, *, max_records: int | None = None, name: str | None = None) -> Table:
        """Each window once, when it has closed: its end and grace have passed. With `App(clock="wall")` windows also
        close when nothing more comes. With `max_records`, holding back more of them is an error."""
        origin = self._origin()
        grace = closing_ms(origin)
        simple = isinstance(self.node, nodes.Closing) and not isinstance(origin, nodes.SlidingAggregate)
        # Rows can be taken from the window's store once: a second `final()` of the table holds them back itself.
        if not simple or max_records is not None or not self.node.closes:  # type: ignore[union-attr]
            return self.suppressed(
                grace, until_closed=True, max_records=max_records, on_full="fail", name=name
            )
        origin.closes = False  # type: ignore[union-attr]
        graph = self.builder.graph
        node = nodes.Final(origin)  # type: ignore[arg-type]
        number = graph.add("KTABLE-SUPPRESS", node, [self.number], name=name)
        return Table(self.builder, number, self.key, self.value, node, (self,))

    def _origin(self) -> nodes.AnyNode:
        """The node whose windows these are."""
        table: Table = self
        while table.parents:
            table = table.parents[0]
        return table.node

    def _derived(self, kind: str, node: nodes.Derived, value: Serde, name: str | None) -> Table:
        plain = super()._derived(kind, node, value, name)
        return WindowedTable(**{field: getattr(plain, field) for field in plain.__dataclass_fields__})


def closing_ms(node: nodes.AnyNode) -> int:
    """How long after its end a window takes records."""
    inner = node.aggregate if isinstance(node, nodes.Cogroup) else node
    if isinstance(inner, nodes.SessionAggregate):
        return inner.windows.gap_ms + inner.windows.grace_ms
    if isinstance(inner, nodes.WindowedAggregate):
        return inner.windows.grace_ms
    raise BadTopology("final() needs a table with windows")


@frozen_with_dict
class Windowed(Reductions[WindowedTable]):
    """A stream by key and window."""

    grouped: "Grouped"
    windows: Any

    def count(self, name: str | None = None, emit: str = BATCH) -> WindowedTable:
        return self.reduced({"n": reductions.count()}, name, emit, single=True)

    def aggregate(
        self,
        initial: Callable[[], Any],
        function: Callable[[Any, Any, Any], Any],
        *,
        value: Serde = json,
        name: str | None = None,
        emit: str = BATCH,
    ) -> WindowedTable:
        """`function(key, value, aggregate)`."""
        return self._kept("KSTREAM-AGGREGATE", Folding(value, initial, function), value, name, emit)

    def reduce(
        self, function: Callable[[Any, Any], Any], *, name: str | None = None, emit: str = BATCH
    ) -> WindowedTable:
        """`function(aggregate, value)`."""
        value = self.grouped.stream.value
        return self._kept("KSTREAM-REDUCE", Folding(value, nothing, Reduce(function)), value, name, emit)

    def reduced(
        self, of: dict[str, Reduction], name: str | None, emit: str, *, single: bool = False
    ) -> WindowedTable:
        keeping, value = reducing(self.grouped.stream.value, of, single=single)
        return self._kept("KSTREAM-AGGREGATE", keeping, value, name, emit)

    def _kept(self, kind: str, keeping: Any, value: Serde, name: str | None, emit: str) -> WindowedTable:
        checked_emit(emit)
        graph = self.grouped.stream.builder.graph
        store = name or graph.name(f"{kind}-STATE-STORE")
        own = graph.name(kind)
        stream = self.grouped.aligned(store)
        node = self.node(store, stream.key, keeping, emit)
        spec = keeping.spec(store, windowed=not isinstance(node, nodes.SessionAggregate))
        number = graph.add("", node, [stream.number], [spec], name=own)
        return WindowedTable(
            stream.builder, number, self.key(stream.key), value, node, store=store, stored=node.value
        )

    def node(self, store: str, key: Serde, keeping: Keeping, emit: str) -> nodes.Closing:
        return nodes.WindowedAggregate(store, key, keeping, self.windows, emit)

    def key(self, inner: Serde) -> Serde:
        return WindowedSerde(inner, self.windows.size_ms)


class SlidingWindowed(Windowed):
    """Windows that end with each record: value by value."""

    def count(self, name: str | None = None, emit: str = BATCH) -> WindowedTable:
        return self.aggregate(zero, plus_one, value=int64, name=name, emit=emit)

    def reduced(
        self, of: dict[str, Reduction], name: str | None, emit: str, *, single: bool = False
    ) -> WindowedTable:
        return self._kept("KSTREAM-AGGREGATE", reducing_one_by_one(json, of, single), json, name, emit)

    def node(self, store: str, key: Serde, keeping: Keeping, emit: str) -> nodes.Closing:
        return nodes.SlidingAggregate(store, key, keeping, self.windows, emit)  # type: ignore[arg-type]


class SessionWindowed(SlidingWindowed):
    """Windows that end when a key is silent."""

    def count(self, name: str | None = None, emit: str = BATCH) -> WindowedTable:
        return self._sessions("KSTREAM-AGGREGATE", Folding(int64, zero, plus_one), _added, int64, name, emit)

    def aggregate(
        self,
        initial: Callable[[], Any],
        function: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any] | None = None,
        *,
        value: Serde = json,
        name: str | None = None,
        emit: str = BATCH,
    ) -> WindowedTable:
        """`merger(key, aggregate, other)` makes one aggregate of two sessions'."""
        if merger is None:
            raise BadTopology("sessions that meet become one: aggregate(initial, function, merger)")
        return self._sessions(
            "KSTREAM-AGGREGATE", Folding(value, initial, function), merger, value, name, emit
        )

    def reduce(
        self, function: Callable[[Any, Any], Any], *, name: str | None = None, emit: str = BATCH
    ) -> WindowedTable:
        value, reduce = self.grouped.stream.value, Reduce(function)
        folding = Folding(value, nothing, reduce)
        return self._sessions("KSTREAM-REDUCE", folding, _Merged(reduce), value, name, emit)

    def reduced(
        self, of: dict[str, Reduction], name: str | None, emit: str, *, single: bool = False
    ) -> WindowedTable:
        folding = reducing_one_by_one(json, of, single)
        return self._sessions("KSTREAM-AGGREGATE", folding, MergingTwo(of), json, name, emit)

    def _sessions(
        self, kind: str, folding: Folding, merger: Any, value: Serde, name: str | None, emit: str
    ) -> WindowedTable:
        table = self._kept(kind, folding, value, name, emit)
        table.node.merger = merger  # type: ignore[union-attr]
        return table

    def node(self, store: str, key: Serde, keeping: Keeping, emit: str) -> nodes.Closing:
        return nodes.SessionAggregate(store, key, keeping, _added, self.windows, emit)  # type: ignore[arg-type]

    def key(self, inner: Serde) -> Serde:
        return SessionSerde(inner)


@frozen_with_dict
class _Merged:
    reduce: Callable[[Any, Any, Any], Any]

    def __call__(self, key: Any, aggregate: Any, other: Any) -> Any:
        return self.reduce(key, other, aggregate)


def _added(_: Any, one: int, other: int) -> int:
    return one + other


def tumbling(*, seconds: float = 0, ms: int = 0, grace: float = 0, grace_ms: int = 0) -> Windows:
    """Windows side by side; `grace` is how much later than the stream's time records may come."""
    return Windows(milliseconds(seconds, ms), grace_ms=milliseconds(grace, grace_ms))


def hopping(
    *,
    seconds: float = 0,
    ms: int = 0,
    advance: float = 0,
    advance_ms: int = 0,
    grace: float = 0,
    grace_ms: int = 0,
) -> Windows:
    """Windows that overlap: one begins every `advance` seconds."""
    return Windows(
        milliseconds(seconds, ms), milliseconds(advance, advance_ms), milliseconds(grace, grace_ms)
    )


def sliding(*, seconds: float = 0, ms: int = 0, grace: float = 0, grace_ms: int = 0) -> Sliding:
    """Two records are in one window if they are that far apart at most."""
    return Sliding(milliseconds(seconds, ms), milliseconds(grace, grace_ms))


def session(*, gap: float = 0, gap_ms: int = 0, grace: float = 0, grace_ms: int = 0) -> Sessions:
    """A key's session ends when that long nothing comes."""
    return Sessions(milliseconds(gap, gap_ms), milliseconds(grace, grace_ms))


def within(
    *,
    seconds: float = 0,
    ms: int = 0,
    before_ms: int | None = None,
    after_ms: int | None = None,
    grace: float = 0,
    grace_ms: int = 0,
) -> JoinWindows:
    """For a join of streams: how far records may be apart; `before_ms` and `after_ms` if the sides differ."""
    both = milliseconds(seconds, ms)
    before, after = (both if side is None else side for side in (before_ms, after_ms))
    return JoinWindows(before, after, milliseconds(grace, grace_ms))
