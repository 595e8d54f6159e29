"""A graph in the words of Kafka Streams: what `topology.describe()` prints there."""

from ottla.pipelines.topology import INTERNAL
from ottla.streams import nodes
from ottla.streams.graph import Graph, Placed


def describe(graph: Graph) -> str:
    children: dict[int, list[str]] = {}
    for placed in graph.nodes:
        for parent in placed.parents:
            children.setdefault(parent, []).append(placed.name)
    names = {placed.number: placed.name for placed in graph.nodes}
    parts = []
    for index, part in enumerate(graph.parts()):
        lines = [f"  Sub-topology: {index}"]
        sizes = _sizes(part)
        for placed in sorted(part, key=lambda placed: (-sizes[placed.number], placed.name)):
            kind, details = _kind_and_details(placed)
            lines.append(f"    {kind}: {placed.name} ({details})")
            if kind != "Sink":
                lines.append(f"      --> {', '.join(sorted(children.get(placed.number, []))) or 'none'}")
            if kind != "Source":
                lines.append(f"      <-- {', '.join(names[parent] for parent in placed.parents)}")
        parts.append("\n".join(lines) + "\n\n")
    return "Topologies:\n " + "".join(parts)


def _sizes(part: list[Placed]) -> dict[int, int]:
    """By which Kafka Streams sorts: how many nodes are reached from a node, counted on every way."""
    sizes = {placed.number: 1 for placed in part}
    for placed in reversed(part):
        for parent in placed.parents:
            sizes[parent] += sizes[placed.number]
    return sizes


def topic_name(placed: Placed) -> str | None:
    """Of a source or sink; an internal topic without the application's name."""
    if not isinstance(placed.node, nodes.Source | nodes.Sink):
        return None
    topic = placed.node.topic
    return f"{topic.removeprefix(INTERNAL)}-repartition" if topic.startswith(INTERNAL) else topic


def _kind_and_details(placed: Placed) -> tuple[str, str]:
    if isinstance(placed.node, nodes.Source):
        return "Source", f"topics: [{topic_name(placed)}]"
    if isinstance(placed.node, nodes.Sink):
        return "Sink", f"topic: {topic_name(placed)}"
    return "Processor", f"stores: [{', '.join(sorted(placed.uses))}]"
