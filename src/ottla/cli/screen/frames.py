"""What is on the screen: a table that fits, sorted, with the rows that are in view. Pure functions."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.cli.tables import BOLD, RED

GREEN, YELLOW, REVERSE = 32, 33, 7
UNITS = ("", "K", "M", "G", "T", "P")


class Column(NamedTuple):
    name: str
    kind: str = "text"  # text, count, rate, bytes, seconds, trouble


class View(NamedTuple):
    """What the user chose."""

    sort: int  # of the columns
    descending: bool = True
    top: int = 0  # the first row that is shown


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[object]],
    view: View,
    width: int,
    height: int,
    *,
    colour: bool,
) -> list[str]:
    """`height` lines at most, each at most `width` wide."""
    ordered = sorted(rows, key=lambda row: sort_key(row[view.sort]), reverse=view.descending)
    shown = ordered[view.top : view.top + max(height - 1, 0)]
    texts = [[cell_text(value, column) for value, column in zip(row, columns, strict=True)] for row in shown]
    heads = [_head(column, at, view) for at, column in enumerate(columns)]
    widths = [max(len(heads[at]), *(len(row[at]) for row in texts), 1) for at in range(len(columns))]
    # The first column is a name: it gives way when the terminal is narrow.
    rest = sum(widths[1:]) + 2 * (len(widths) - 1)
    widths[0] = max(min(widths[0], width - rest), 8)
    lines = [painted(_line(heads, columns, widths)[:width], REVERSE, colour)]
    for row, values in zip(texts, shown, strict=True):
        line = _line(row, columns, widths)[:width]
        lines.append(painted(line, RED, colour) if _is_trouble(values, columns) else line)
    return lines


def sort_key(value: Any) -> tuple[int, Any]:
    """What is not known comes last when the largest come first."""
    return (0, 0) if value is None else (1, value)


def cell_text(value: object, column: Column) -> str:
    if value is None:
        return "-"
    match column.kind:
        case "count" | "trouble":
            return f"{value:,}"
        case "rate" if isinstance(value, int | float):
            return short(value)
        case "bytes" if isinstance(value, int | float):
            return f"{short(value, 1024)}B"
        case "seconds" if isinstance(value, int | float):
            return duration(value)
        case _:
            return printable(str(value))


def printable(text: str) -> str:
    """Names come from others: no codes of theirs reach the terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def short(value: float, base: int = 1000) -> str:
    sign, value = ("-", -value) if value < 0 else ("", value)
    for unit in UNITS:
        if value < base or unit == UNITS[-1]:
            break
        value /= base
    digits = 0 if value >= 100 or value == int(value) else 1
    return f"{sign}{value:.{digits}f}{unit}"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f}s"
    if seconds < 7200:
        return f"{seconds / 60:.0f}m"
    return f"{seconds / 3600:.0f}h" if seconds < 172_800 else f"{seconds / 86_400:.0f}d"


def painted(text: str, code: int, colour: bool) -> str:
    return f"\033[{code}m{text}\033[0m" if colour else text


def bold(text: str, colour: bool) -> str:
    return painted(text, BOLD, colour)


def _head(column: Column, at: int, view: View) -> str:
    return column.name + (("v" if view.descending else "^") if at == view.sort else "")


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    parts = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        cut = cell if len(cell) <= width else f"{cell[: width - 1]}~"
        parts.append(cut.ljust(width) if column.kind == "text" else cut.rjust(width))
    return "  ".join(parts)


def _is_trouble(values: Sequence[object], columns: Sequence[Column]) -> bool:
    return any(column.kind == "trouble" and value for value, column in zip(values, columns, strict=True))
