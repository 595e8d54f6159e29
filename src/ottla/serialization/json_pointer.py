"""Where a JSON pointer (RFC 6901) leads inside a JSON Schema."""

from typing import Any

Schema = Any  # a dict or a bool
_DIGITS_MAX = 18  # no list is longer, and Python reads no number of thousands of digits


def pointed(document: Schema, pointer: str) -> Schema:
    """A pointer that leads nowhere gives True, the schema that accepts everything."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and _is_index(name, len(document)):
            document = document[int(name)]
        else:
            return True
    return document


def _is_index(name: str, length: int) -> bool:
    return name.isdecimal() and len(name) <= _DIGITS_MAX and int(name) < length
