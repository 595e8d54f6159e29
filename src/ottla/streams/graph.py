"""A topology as it is written down: nodes in order, what they read from, which stores they have."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.topology import Repartition
from ottla.streams.errors import BadTopology
from ottla.streams.nodes import AnyNode
from ottla.streams.serdes import Serde


@dataclass
class Placed:
    """A node in the graph. `parents` are numbers of other nodes; a join also `reads` the stores of other nodes.

    `stores` are its own; `uses` are the names of all that Kafka Streams connects with it.
    """

    number: int
    name: str
    node: AnyNode
    parents: tuple[int, ...] = ()
    stores: tuple[StoreSpec, ...] = ()
    reads: tuple[int, ...] = ()
    uses: tuple[str, ...] = ()


class GlobalSource(NamedTuple):
    """A topic that every worker holds whole; `names` are those of its nodes in Kafka Streams."""

    topic: str
    key: Serde
    value: Serde
    names: tuple[str, str]


@dataclass
class Graph:
    nodes: list[Placed] = field(default_factory=list)
    repartitions: list[Repartition] = field(default_factory=list)
    globals: dict[str, GlobalSource] = field(default_factory=dict)  # by store: what every worker has whole
    counter: int = 0

    def name(self, kind: str) -> str:
        """As Kafka Streams names nodes and stores: the kind, and a number in ten digits."""
        self.counter += 1
        return f"{kind}-{self.counter - 1:010}"

    def add(
        self,
        kind: str,
        node: AnyNode,
        parents: Iterable[int] = (),
        stores: Iterable[StoreSpec] = (),
        reads: Iterable[int] = (),
        *,
        name: str | None = None,
        uses: Iterable[str] = (),
    ) -> int:
        placed = Placed(len(self.nodes), name or self.name(kind), node, tuple(parents), (), tuple(reads))
        if any(placed.name == other.name for other in self.nodes):
            raise BadTopology(f"two nodes are called {placed.name}; give one another name")
        self.nodes.append(placed)
        for store in stores:
            self.keep(placed.number, store)
        placed.uses = (*placed.uses, *uses)
        return placed.number

    def keep(self, number: int, store: StoreSpec) -> None:
        """A store for a node."""
        if any(store.name == other.name for placed in self.nodes for other in placed.stores):
            raise BadTopology(f"two stores are called {store.name}; give one another name")
        placed = self.nodes[number]
        placed.stores, placed.uses = (*placed.stores, store), (*placed.uses, store.name)

    def parts(self) -> list[list[Placed]]:
        """The sub-topologies: nodes that are joined by anything but an internal topic."""
        part_of = list(range(len(self.nodes)))
        for placed in self.nodes:
            for other in (*placed.parents, *placed.reads):
                low, high = sorted((part_of[placed.number], part_of[other]))
                part_of = [low if part == high else part for part in part_of]
        return [
            [self.nodes[number] for number, of in enumerate(part_of) if of == part]
            for part in sorted(set(part_of))
        ]
