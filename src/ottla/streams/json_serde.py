"""JSON as keys and values: any JSON, JSON of a known schema as Arrow structs, dataclasses."""

import dataclasses
import json as json_text
import typing
from collections.abc import Callable
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.state.arrays import arrow_cells
from ottla.streams.errors import BadTopology, BadValue
from ottla.streams.json_columns import encoded, is_flat
from ottla.streams.serdes import Column, Serde, objects

_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "double": pa.float64(),
    "float": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
}
_PYTHON = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}


class JsonSerde(Serde):
    """Any JSON as Python values. `json("pulse int, place struct<lat double, lon double>, tags array<string>")` or
    `json(SomeTypedDict)`: objects as Arrow structs, far quicker. `json(SomeDataclass)`: its instances."""

    name = "json"

    def __init__(self, kind: pa.StructType | None = None, build: Callable[..., Any] | None = None) -> None:
        self.kind, self._build = kind, build

    def __call__(self, schema: Any) -> "JsonSerde":
        if isinstance(schema, str):
            return JsonSerde(_struct(schema))
        if dataclasses.is_dataclass(schema) and isinstance(schema, type):
            return JsonSerde(build=schema)
        if isinstance(schema, type) and typing.is_typeddict(schema):
            return JsonSerde(_struct_of(schema))
        raise BadTopology(f"json({schema!r}): a schema is a text, a dataclass or a TypedDict")

    def decode(self, cells: pa.Array) -> Column:
        if self.kind is not None:
            from ottla.spark.json_values import JsonValues  # its package takes a tenth of a second to import

            values = JsonValues(self.kind).decode(pa.RecordBatch.from_arrays([cells], names=["value"]))
            if values.null_count != cells.null_count:
                _check_nulls(cells, values, self.kind)
            return values
        try:
            values = [None if cell is None else json_text.loads(cell) for cell in cells.to_pylist()]
            build = self._build
            if build is None:
                return values
            return [None if value is None else build(**value) for value in values]
        except (ValueError, TypeError) as error:
            raise BadValue(f"a value is not JSON as expected: {error}") from error

    def encode(self, column: Column) -> pa.Array:
        if isinstance(column, pa.Array) and is_flat(column.type):
            return encoded(column)
        try:
            return arrow_cells([_dumped(value) for value in objects(column)], pa.binary())
        except TypeError as error:
            raise BadValue(f"a value cannot be written as JSON: {error}") from error


def _check_nulls(cells: pa.Array, values: pa.Array, kind: pa.StructType) -> None:
    """`JsonValues` reads what does not fit as null, which would delete rows: only a null, or JSON's `null`, is one."""
    for cell in cells.filter(values.is_null()).to_pylist():
        if cell is not None and cell.strip() != b"null":
            raise BadValue(f"a value is not JSON as expected: {_misfit(cell, kind)}")


def _misfit(cell: bytes, kind: pa.StructType) -> str:
    try:
        json_text.loads(cell)
    except ValueError as error:
        return str(error)
    return f"it does not fit {', '.join(f'{field.name} {field.type}' for field in kind)}"


def _dumped(value: Any) -> bytes | None:
    if value is None:
        return None
    return _ENCODER.encode(value).encode()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


_ENCODER = json_text.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=_plain)


def _struct(text: str) -> pa.StructType:
    return pa.struct([_field(part) for part in _parts(text)])


def _field(text: str) -> pa.Field:
    name, _, kind = text.partition(" ")
    arrow_type = _kind(kind.strip())
    if not name or arrow_type is None:
        raise BadTopology(
            f"json schema {text!r}: a field is a name and one of {', '.join(_TYPES)}, array<...>, struct<...>"
        )
    return pa.field(name, arrow_type)


def _kind(text: str) -> Any:
    low = text.lower()
    if low.startswith("array<") and low.endswith(">"):
        inner = _kind(text[len("array<") : -1].strip())
        return None if inner is None else pa.list_(inner)
    if low.startswith("struct<") and low.endswith(">"):
        return _struct(text[len("struct<") : -1].replace(":", " "))
    return _TYPES.get(low)


def _parts(text: str) -> list[str]:
    """At the commas that are in no angle brackets."""
    parts, depth, begun = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign == "<") - (sign == ">")
        if sign == "," and depth == 0:
            parts.append(text[begun:at].strip())
            begun = at + 1
    return [*parts, text[begun:].strip()]


def _struct_of(kind: type) -> pa.StructType:
    hints = typing.get_type_hints(kind)
    return pa.struct([pa.field(name, _arrow_of(name, hint)) for name, hint in hints.items()])


def _arrow_of(name: str, hint: Any) -> Any:
    arguments = [argument for argument in typing.get_args(hint) if argument is not type(None)]
    if hint in _PYTHON:
        return _PYTHON[hint]
    if isinstance(hint, type) and typing.is_typeddict(hint):
        return _struct_of(hint)
    if typing.get_origin(hint) is list:
        return pa.list_(_arrow_of(name, arguments[0]))
    if len(arguments) == 1:  # of int | None
        return _arrow_of(name, arguments[0])
    raise BadTopology(
        f"json: field {name} is {hint}; int, float, str, bool, list and TypedDict are understood"
    )


json = JsonSerde()
