"""JSON as text that can be sent: `"\\ud83d"` is valid JSON, but half a character, which no encoding takes."""

import json
import re
from collections.abc import Callable
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")


def dumps(value: Any, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    """Readable, not ASCII. Half a character stays the escape that it came as, so the value is the same."""
    return without_surrogates(json.dumps(value, ensure_ascii=False, indent=indent, default=default))


def without_surrogates(text: str) -> str:
    r"""Half a character becomes its escape, like `\ud83d`: the reader sees what was there."""
    return text if text.isascii() else _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
