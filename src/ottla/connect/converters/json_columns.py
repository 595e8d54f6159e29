"""JSON of whole columns: texts, integers and truths; everything else is written value by value."""

from json.encoder import encode_basestring as quoted
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.connect import schema as s
from ottla.connect.schema import Schema

_CONTROL = r"[\x00-\x1f]"  # what needs more than a backslash before it
_ESCAPED = (("\\", "\\\\"), ('"', '\\"'), ("\t", "\\t"))
_PLAIN = {s.BOOLEAN, s.INT8, s.INT16, s.INT32, s.INT64, s.STRING}


def escaped(texts: Any) -> Any:
    """The inner side of JSON's strings; None if one has a control character."""
    for plain, written in _ESCAPED:
        texts = pc.replace_substring(texts, plain, written)
    return None if pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py() else texts


def parts_of(schema: Schema, tree: Any) -> list[Any] | None:
    """Texts and columns of texts which, joined, are the JSON of a tree of columns."""
    if isinstance(tree, dict):
        return _struct(schema, tree)
    if tree is None:
        return ["null"] if schema.optional and not schema.has_default else None
    if schema.type not in _PLAIN or schema.logical is not None or schema.has_default:
        return None
    if not isinstance(tree, tuple):  # a value that all records have
        return [quoted(tree)] if schema.type == s.STRING and isinstance(tree, str) else None
    (array,) = tree
    if pa.types.is_string(array.type):
        inner = escaped(array)
        text = None if inner is None else pc.binary_join_element_wise('"', inner, '"', "")
    elif pa.types.is_integer(array.type) or pa.types.is_boolean(array.type):
        text = array.cast(pa.string())
    else:
        return None
    if text is None or (array.null_count and not schema.optional):
        return None
    return [text.fill_null("null") if array.null_count else text]


def _struct(schema: Schema, tree: dict[str, Any]) -> list[Any] | None:
    if schema.type != s.STRUCT or schema.has_default:
        return None
    parts: list[Any] = []
    for i, field in enumerate(schema.fields):
        inner = parts_of(field.schema, tree.get(field.name))
        if inner is None:
            return None
        parts += [f"{',' if i else '{'}{quoted(field.name)}:", *inner]
    return [*parts, "}" if schema.fields else "{}"]
