"""What all objects of an application share, and the types of what users pass in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.topology import Repartition
from ottla.streams import nodes
from ottla.streams.errors import BadTopology
from ottla.streams.expressions import Expression
from ottla.streams.graph import Graph
from ottla.streams.nodes import BATCH, EVERY
from ottla.streams.serdes import Serde

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


def checked_emit(emit: str) -> str:
    if emit not in (BATCH, EVERY):
        raise BadTopology(f"emit={emit!r}; it is {BATCH!r} (one change for each key and step) or {EVERY!r}")
    return emit
