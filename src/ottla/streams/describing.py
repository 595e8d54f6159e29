"""A graph in the words of Kafka Streams."""

from ottla.streams import nodes
from ottla.streams.graph import Graph, Placed


def describe(graph: Graph) -> str:
    lines = ["Topologies:"]
    children: dict[int, list[str]] = {}
    for placed in graph.nodes:
        for parent in placed.parents:
            children.setdefault(parent, []).append(placed.name)
    parents = {placed.number: placed.name for placed in graph.nodes}
    for index, part in enumerate(graph.parts()):
        lines.append(f"   Sub-topology: {index}")
        for placed in part:
            kind, told = _told(placed)
            lines.append(f"    {kind}: {placed.name} ({told})")
            if kind != "Sink":
                lines.append(f"      --> {', '.join(children.get(placed.number, [])) or 'none'}")
            if placed.parents:
                lines.append(f"      <-- {', '.join(parents[parent] for parent in placed.parents)}")
    return "\n".join(lines)


def _told(placed: Placed) -> tuple[str, str]:
    if isinstance(placed.node, nodes.Source):
        return "Source", f"topics: [{placed.node.name}]"
    if isinstance(placed.node, nodes.Sink):
        return "Sink", f"topic: {placed.node.topic}"
    return "Processor", f"stores: [{', '.join(store.name for store in placed.stores)}]"
