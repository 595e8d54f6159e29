"""Values without a registry: JSON, and XML as text. Both refuse what is none, in words, before it is in a topic."""

import json
import re
from typing import Any
from xml.etree import ElementTree

from ottla.serialization.framing import BadValue
from ottla.serialization.types import to_plain

_ENCODING = re.compile(r"""\s*<\?xml[^>]*\bencoding\s*=\s*["']([A-Za-z][\w.-]*)["']""")


class JsonSerializer:
    """Anything that JSON has; dataclasses and pydantic models as objects."""

    def __call__(self, value: Any, context: Any = None) -> bytes | None:
        if value is None:
            return None
        plain = value.model_dump(mode="json") if hasattr(value, "model_dump") else to_plain(value)
        try:
            return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise BadValue(f"the value cannot be written as JSON: {error}") from error


class JsonDeserializer:
    def __call__(self, data: bytes | None, context: Any = None) -> Any:
        try:
            return None if data is None else json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BadValue(f"the value is not JSON: {error}") from error


class XmlSerializer:
    """A document as a text, as bytes, or as an element of `xml.etree`, which is written as UTF-8."""

    def __call__(self, value: Any, context: Any = None) -> bytes | None:
        if value is None:
            return None
        if isinstance(value, ElementTree.Element):
            return bytes(ElementTree.tostring(value, encoding="utf-8"))
        if isinstance(value, str):
            declared = _ENCODING.match(value)
            value = value.encode(declared[1] if declared else "utf-8")
        if not isinstance(value, bytes):
            raise BadValue(f"a {type(value).__name__} is no XML; give a text, bytes or an element")
        _parsed(value)
        return value


class XmlDeserializer:
    """The document as a text; with `elements=True` as its outermost element."""

    def __init__(self, *, elements: bool = False) -> None:
        self._elements = elements

    def __call__(self, data: bytes | None, context: Any = None) -> Any:
        if data is None:
            return None
        element = _parsed(data)
        if self._elements:
            return element
        declared = _ENCODING.match(data[:200].decode("latin-1"))
        return data.decode(declared[1] if declared else "utf-8-sig")


def _parsed(data: bytes) -> ElementTree.Element:
    """Entities of other files are not followed, and expat ends those that grow without bounds."""
    try:
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise BadValue(f"the value is not XML: {error}") from error
