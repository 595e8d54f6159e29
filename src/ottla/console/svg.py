"""Lines as SVG: sparklines in tables, and what a chart shows without JavaScript."""

from collections.abc import Sequence

from ottla.console.markup import Markup, tag
from ottla.console.model import Points

WIDTH, HEIGHT = 120, 24


def sparkline(values: Sequence[float], width: int = WIDTH, height: int = HEIGHT) -> Markup:
    """The last values, oldest first, from zero up. Colours are the style sheet's."""
    line = _path([(float(i), value) for i, value in enumerate(values)], width, height)
    return _drawing([line], width, height, "spark")


def lines(series: Sequence[tuple[str, Points]], width: int = 640, height: int = 160) -> Markup:
    """Several lines on one scale."""
    top = max((value for _, points in series for _, value in points), default=0.0)
    return _drawing([_path(points, width, height, top) for _, points in series], width, height, "plot")


def _drawing(paths: list[str], width: int, height: int, kind: str) -> Markup:
    shapes = [
        tag("path", d=path, class_=f"line line-{i}", fill="none", vector_effect="non-scaling-stroke")
        for i, path in enumerate(paths)
        if path
    ]
    if kind == "spark" and paths[0]:
        area = f"{paths[0]} L{width} {height} L0 {height} Z"
        shapes.insert(0, tag("path", d=area, class_="area"))
    return tag(
        "svg",
        *shapes,
        class_=kind,
        viewBox=f"0 0 {width} {height}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def _path(points: Points, width: int, height: int, top: float | None = None) -> str:
    if len(points) < 2:
        return ""
    begin, end = points[0][0], points[-1][0]
    highest = max(value for _, value in points) if top is None else top
    across = width / max(end - begin, 1e-9)
    up = (height - 3) / highest if highest > 0 else 0.0
    steps = [f"{(at - begin) * across:.1f} {height - 1.5 - max(value, 0.0) * up:.1f}" for at, value in points]
    return "M" + " L".join(steps)
