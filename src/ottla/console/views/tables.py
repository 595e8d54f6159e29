"""Filter, sort and page of a table, from the page's parameters."""

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import re2  # type: ignore[import-untyped,unused-ignore]

from ottla.console import words
from ottla.console.context import BadRequest, Context
from ottla.console.model import Pager

T = TypeVar("T")
ROWS = 200


def matcher(text: str) -> Callable[[str], bool]:
    """A part of the name; between slashes a pattern in RE2's language, which always ends in time."""
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        return pattern(text[1:-1])
    wanted = text.lower()
    return lambda name: wanted in name.lower()


def pattern(text: str) -> Callable[[str], bool]:
    if len(text) > 1000:
        raise BadRequest("the pattern is longer than 1000 characters")
    options = re2.Options()
    options.max_mem = 8 << 20
    options.log_errors = False
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        raise BadRequest(f"/{text}/ is not a pattern of RE2: {error}") from None
    return lambda name: compiled.search(name) is not None


def ordered(rows: list[T], sort: str, keys: dict[str, Callable[[T], object]]) -> list[T]:
    """By a column of `keys`, largest first with a minus in front; what has no value goes last."""
    name = sort.lstrip("-")
    if name not in keys:
        return rows
    key = keys[name]
    there = [row for row in rows if key(row) is not None]
    rest = [row for row in rows if key(row) is None]
    there.sort(key=key, reverse=sort.startswith("-"))  # type: ignore[arg-type]
    return there + rest


def rows_max(context: Context, shown_max: int) -> int:
    """How many rows of a table without pages are shown; CSV has all of them."""
    return sys.maxsize if context.query.get("format") == "csv" else shown_max


def paged(
    context: Context, path: str, rows: Sequence[T], size: int = ROWS
) -> tuple[Sequence[T], Pager | None]:
    """The rows of one page; all of them for CSV, which has no link to the next page."""
    page = context.number("page", 1, 1, 1_000_000)
    if context.query.get("format") == "csv":
        return rows, None
    pages = max(1, -(-len(rows) // size))
    page = min(page, pages)
    if pages == 1:
        return rows, None
    begin = (page - 1) * size
    text = f"{begin + 1:,} to {min(begin + size, len(rows)):,} of {len(rows):,}"
    query = {name: value for name, value in context.query.items() if name != "format"}
    before = words.address(path, {**query, "page": page - 1}) if page > 1 else None
    after = words.address(path, {**query, "page": page + 1}) if page < pages else None
    return rows[begin : begin + size], Pager(text, before, after)
