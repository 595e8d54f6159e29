"""What all objects of an application share, and the types of what users pass in."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from ottla.frozen import frozen_with_dict
from ottla.pipelines.topology import INTERNAL, Repartition
from ottla.streams import nodes
from ottla.streams.errors import BadTopology
from ottla.streams.expressions import Expression
from ottla.streams.graph import Graph
from ottla.streams.nodes import BATCH, EVERY
from ottla.streams.serdes import Serde

_OWN_NAMES = ("KSTREAM-", "KTABLE-", "COGROUPKSTREAM-")  # not given by the user
Function = Callable[..., Any]
Test = Callable[[Any, Any], bool] | Expression


@frozen_with_dict
class Builder:
    """What all objects of an application share."""

    name: str
    graph: Graph
    client: Mapping[str, Any] = field(default_factory=dict)  # settings of clients

    def source(
        self, topic: str, key: Serde, value: Serde, name: str | None = None, node: str | None = None
    ) -> int:
        source = nodes.Source(topic, name or topic, key, value)
        self.refuse_second(source.name)
        return self.graph.add("KSTREAM-SOURCE", source, name=node)

    def internal(self, name: str, partitions: int | None = None) -> str:
        """A new repartition topic; how the nodes that write and read it call it."""
        internal = INTERNAL + name
        if any(other.name == internal for other in self.graph.repartitions):
            raise BadTopology(f"two repartition topics are called {name}; give one another name")
        self.graph.repartitions.append(Repartition(internal, partitions))
        return internal

    def refuse_second(self, topic: str) -> None:
        known = [placed.node.name for placed in self.graph.nodes if isinstance(placed.node, nodes.Source)]
        if topic in (*known, *(table.topic for table in self.graph.globals.values())):
            raise BadTopology(f"topic {topic} is read twice; read it once and use the stream or table twice")

    def repartition(
        self,
        parent: int,
        name: str,
        key: Serde,
        value: Serde,
        partitions: int | None = None,
        *,
        keeps_null: bool = False,
        before: nodes.Node | None = None,
    ) -> int:
        """Through an internal topic; the source behind it. Records without key stay behind unless a left or outer join
        wants them; `before` is a node that does more than that."""
        internal = self.internal(name, partitions)
        sink, test, source = (
            self.graph.name(kind) for kind in ("KSTREAM-SINK", "KSTREAM-FILTER", "KSTREAM-SOURCE")
        )
        if not name.startswith(_OWN_NAMES):
            sink, test, source = (f"{name}-repartition-{part}" for part in ("sink", "filter", "source"))
        node = before or (nodes.PassThrough() if keeps_null else nodes.HasKey())
        filtered = self.graph.add("KSTREAM-FILTER", node, [parent], name=test)
        self.graph.add("KSTREAM-SINK", nodes.Sink(internal, key, value), [filtered], name=sink)
        return self.source(internal, key, value, f"{self.name}-{name}-repartition", source)


def checked_emit(emit: str) -> str:
    if emit not in (BATCH, EVERY):
        raise BadTopology(f"emit={emit!r}; it is {BATCH!r} (one change for each key and step) or {EVERY!r}")
    return emit


def milliseconds(seconds: float, ms: int) -> int:
    return round(seconds * 1000) + ms
