"""Avro schemas whose values cost more than their bytes: a few of them could take all memory, or the process. Pure."""

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Bounds:
    """`endless`: an array of items that take no bytes, so that a number alone makes it as long as it likes. `nested`: a
    type that refers to itself, so that each byte may be a level."""

    endless: bool = False
    nested: bool = False
    empty_names: dict[str, bool] = field(
        default_factory=dict
    )  # types with names: whether they may take no bytes

    @property
    def costs_more_than_bytes(self) -> bool:
        return self.endless or self.nested


def bounds_of(schema: str) -> Bounds:
    """Of a schema as it is registered. Names of other subjects' schemas are taken to have bytes."""
    bounds = Bounds()
    _is_empty(json.loads(schema), bounds, (), "")
    return bounds


def _is_empty(node: Any, bounds: Bounds, path: tuple[str, ...], namespace: str) -> bool:
    """Whether a value may take no bytes; what is noticed on the way goes to `bounds`."""
    if isinstance(node, list):
        for branch in node:
            _is_empty(branch, bounds, path, namespace)
        return False  # a union begins with the number of its branch
    if isinstance(node, str):
        return _is_empty_name(node, bounds, path, namespace)
    kind = node.get("type")
    if kind in ("record", "error"):
        return _is_empty_record(node, bounds, path, namespace)
    if kind == "array":
        bounds.endless |= _is_empty(node.get("items", "int"), bounds, path, namespace)
        return False
    if kind == "map":
        _is_empty(node.get("values", "int"), bounds, path, namespace)
        return False
    if kind == "fixed":
        empty = bounds.empty_names[_full(node.get("name", ""), namespace)] = not node.get("size")
        return empty
    return False if kind == "enum" else _is_empty(kind, bounds, path, namespace)


def _is_empty_name(name: str, bounds: Bounds, path: tuple[str, ...], namespace: str) -> bool:
    full = _full(name, namespace)
    if full in path:
        bounds.nested = True
        return False
    return bounds.empty_names.get(full, name == "null")


def _is_empty_record(node: Any, bounds: Bounds, path: tuple[str, ...], namespace: str) -> bool:
    namespace = node.get("namespace", namespace)
    full = _full(node.get("name", ""), namespace)
    fields = [
        _is_empty(field.get("type"), bounds, (*path, full), namespace) for field in node.get("fields", ())
    ]
    empty = bounds.empty_names[full] = all(fields)
    return empty


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
