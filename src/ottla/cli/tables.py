"""Output: tables for people, JSON for programs."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; numbers to the right; no trailing blanks. None shows as `-`."""
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
    numeric = [bool(cells) and all(_is_number(row[i]) for row in cells) for i in range(len(columns))]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [list(columns), *cells]
    ]
    return "\n".join(lines)


def show(arguments: Any, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table, or with --json a list of objects named by the columns in small letters."""
    rows = list(rows)
    if arguments.json:
        names = [name.lower().replace("-", "_").replace(" ", "_") for name in columns]
        show_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print(headed(columns, rows))


def headed(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table whose first line stands out on a terminal."""
    head, *lines = table(columns, rows).splitlines()
    return "\n".join([painted(head, BOLD), *lines])


BOLD, RED, GREEN = 1, 31, 32


def painted(text: str, colour: int) -> str:
    """In colour on a terminal; plain in a pipe, or where NO_COLOR is set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\033[{colour}m{text}\033[0m"


def show_json(value: object) -> None:
    print(json.dumps(value, default=_plain))


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, (list, tuple)):
        return ",".join(map(str, cell)) or "-"
    if isinstance(cell, bytes):
        return cell.hex()
    return str(cell)


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit() or text == "-"


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).decode(errors="replace")
    return list(value) if isinstance(value, (set, frozenset, tuple)) else str(value)
