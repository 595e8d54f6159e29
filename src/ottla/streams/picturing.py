"""A graph as a picture: Mermaid's text, or SVG."""

from html import escape
from typing import NamedTuple

from ottla.streams import nodes
from ottla.streams.graph import Graph, Placed

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 250, 40, 40, 30


def mermaid(graph: Graph) -> str:
    """For Markdown: GitHub and others draw it."""
    lines = ["flowchart TD"]
    for index, part in enumerate(graph.parts()):
        lines.append(f'  subgraph sub{index}["Sub-topology {index}"]')
        lines += [f"    n{placed.number}{_shape(placed)}" for placed in part]
        lines.append("  end")
    stores = {spec.name: placed.number for placed in graph.nodes for spec in placed.stores}
    for name, number in stores.items():
        lines += [f'  store_{_word(name)}[("{name}")]', f"  n{number} --- store_{_word(name)}"]
    for placed in graph.nodes:
        lines += [f"  n{parent} --> n{placed.number}" for parent in placed.parents]
        lines += [f"  n{other} -. store .-> n{placed.number}" for other in placed.reads]
    for topic, writers, readers in _topics(graph):
        shape = f'topic_{_word(topic)}(["{topic}"])'
        lines.append(f"  {shape}")
        lines += [f"  n{number} --> topic_{_word(topic)}" for number in writers]
        lines += [f"  topic_{_word(topic)} --> n{number}" for number in readers]
    return "\n".join(lines)


def svg(graph: Graph) -> str:
    boxes = _laid_out(graph)
    drawn = [_drawn(box) for box in boxes.values()]
    for placed in graph.nodes:
        lines = [(parent, "") for parent in placed.parents] + [(other, "4") for other in placed.reads]
        drawn += [_line(boxes[other], boxes[placed.number], dashes) for other, dashes in lines]
    for _, writers, readers in _topics(graph):
        drawn += [_line(boxes[a], boxes[b], "") for a in writers for b in readers]
    width = max(box.x for box in boxes.values()) + _WIDTH + _GAP_X
    height = max(box.y for box in boxes.values()) + _HEIGHT + _GAP_Y
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="monospace">'
    )
    arrow = (
        '<defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
        '<path d="M0,0 L7,3 L0,6 z"/></marker></defs>'
    )
    return "\n".join([head, arrow, *drawn, "</svg>"])


class Box(NamedTuple):
    placed: Placed
    x: int
    y: int


def _laid_out(graph: Graph) -> dict[int, Box]:
    """Each node one row below the lowest of its parents; internal topics count as parents."""
    through = {reader: writers for _, writers, readers in _topics(graph) for reader in readers}
    rows: dict[int, int] = {}
    for placed in graph.nodes:
        above = [*placed.parents, *through.get(placed.number, ())]
        rows[placed.number] = 1 + max((rows.get(number, -1) for number in above), default=-1)
    taken: dict[int, int] = {}
    boxes = {}
    for placed in graph.nodes:
        row = rows[placed.number]
        place = taken[row] = taken.get(row, -1) + 1
        boxes[placed.number] = Box(
            placed, _GAP_X + place * (_WIDTH + _GAP_X), _GAP_Y + row * (_HEIGHT + _GAP_Y)
        )
    return boxes


def _drawn(box: Box) -> str:
    fill = {"Source": "#dbeafe", "Sink": "#dcfce7"}.get(type(box.placed.node).__name__, "#f8fafc")
    below = ", ".join(spec.name for spec in box.placed.stores) or _topic(box.placed) or ""
    rectangle = f'<rect x="{box.x}" y="{box.y}" width="{_WIDTH}" height="{_HEIGHT}" rx="5"'
    return (
        f'{rectangle} fill="{fill}" stroke="#475569"/>'
        f'<text x="{box.x + 8}" y="{box.y + 17}" font-size="11">{escape(box.placed.name)}</text>'
        f'<text x="{box.x + 8}" y="{box.y + 32}" font-size="11" fill="#475569">{escape(below)}</text>'
    )


def _line(above: Box, below: Box, dashes: str) -> str:
    style = f' stroke-dasharray="{dashes}"' if dashes else ""
    ends = (
        f'x1="{above.x + _WIDTH // 2}" y1="{above.y + _HEIGHT}" x2="{below.x + _WIDTH // 2}" y2="{below.y}"'
    )
    return f'<line {ends} stroke="#475569" marker-end="url(#a)"{style}/>'


def _shape(placed: Placed) -> str:
    label = placed.name
    if isinstance(placed.node, nodes.Source | nodes.Sink):
        return f'[/"{label}"/]'
    return f'["{label}"]'


def _topic(placed: Placed) -> str | None:
    if isinstance(placed.node, nodes.Source):
        return placed.node.name
    return placed.node.topic if isinstance(placed.node, nodes.Sink) else None


def _topics(graph: Graph) -> list[tuple[str, list[int], list[int]]]:
    """Topics with the nodes that write and read them."""
    writers: dict[str, list[int]] = {}
    readers: dict[str, list[int]] = {}
    internal = {
        placed.node.topic: placed.node.name for placed in graph.nodes if isinstance(placed.node, nodes.Source)
    }
    for placed in graph.nodes:
        if isinstance(placed.node, nodes.Sink):
            writers.setdefault(internal.get(placed.node.topic, placed.node.topic), []).append(placed.number)
        elif isinstance(placed.node, nodes.Source):
            readers.setdefault(placed.node.name, []).append(placed.number)
    names = dict.fromkeys([*readers, *writers])
    return [(name, writers.get(name, []), readers.get(name, [])) for name in names]


def _word(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)
