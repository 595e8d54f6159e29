"""PostgreSQL's text form of arrays: `{1,NULL,"a,\\"b\\""}`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connect.errors import DataError


def parse_array(text: str, parse: Callable[[str], Any]) -> list[Any]:
    """Lists in lists for more than one dimension. Bounds (`[0:1]={...}`) do not matter and are dropped."""
    begin = text.find("=") + 1 if text.startswith("[") else 0
    stack: list[list[Any]] = [[]]
    at, end = begin, len(text)
    while at < end:
        match text[at]:
            case "{":
                stack.append([])
                at += 1
            case "}":
                complete = stack.pop()
                stack[-1].append(complete)
                at += 1
            case ",":
                at += 1
            case '"':
                word, at = _quoted(text, at + 1)
                stack[-1].append(parse(word))
            case _:
                stop = at
                while stop < end and text[stop] not in ",}":
                    stop += 1
                word = text[at:stop]
                stack[-1].append(None if word == "NULL" else parse(word))
                at = stop
    if len(stack) != 1 or len(stack[0]) != 1:
        raise DataError(f"not an array of PostgreSQL: {text[:100]}")
    array: list[Any] = stack[0][0]
    return array


def _quoted(text: str, at: int) -> tuple[str, int]:
    letters = []
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
        letters.append(text[at])
        at += 1
    return "".join(letters), at + 1
