"""A topology as it is written down: nodes in order, what they read from, which stores they have."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.topology import Repartition
from ottla.streams.errors import BadTopology
from ottla.streams.nodes import Node


@dataclass(frozen=True)
class Placed:
    """A node in the graph. `parents` are numbers of other nodes; a join also `reads` the store of another node."""

    number: int
    name: str
    node: Node
    parents: tuple[int, ...] = ()
    stores: tuple[StoreSpec, ...] = ()
    reads: tuple[int, ...] = ()


@dataclass
class Graph:
    nodes: list[Placed] = field(default_factory=list)
    repartitions: list[Repartition] = field(default_factory=list)

    def add(
        self,
        kind: str,
        node: Node,
        parents: Iterable[int] = (),
        stores: Iterable[StoreSpec] = (),
        reads: Iterable[int] = (),
    ) -> int:
        """Named as Kafka Streams names its nodes: the kind, and the number in ten digits."""
        number = len(self.nodes)
        names = [store.name for placed in self.nodes for store in placed.stores]
        for store in stores:
            if store.name in names:
                raise BadTopology(f"two stores are called {store.name}; give one another name")
        self.nodes.append(
            Placed(number, f"{kind}-{number:010}", node, tuple(parents), tuple(stores), tuple(reads))
        )
        return number

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
