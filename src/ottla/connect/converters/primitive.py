"""Strings, bytes and single numbers."""

import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.connect import java_text
from ottla.connect.errors import ConfigError, DataError
from ottla.connect.schema import BOOLEAN, BYTES, FLOAT32, FLOAT64, INT16, INT32, INT64, STRING, Schema

NUMBERS = {
    "Double": (FLOAT64, ">d"), "Float": (FLOAT32, ">f"), "Integer": (INT32, ">i"),
    "Long": (INT64, ">q"), "Short": (INT16, ">h"),
}  # fmt: skip


class _Records:
    """No path for columns."""

    def from_column(self, topic: str, values: Any) -> Any:
        return None

    def to_column(self, topic: str, data: Any) -> Any:
        return None


class StringConverter:
    """`converter.encoding` (and `key.`, `value.`): another encoding than UTF-8."""

    def __init__(self, settings: Mapping[str, Any], *, is_key: bool) -> None:
        specific = settings.get("key.converter.encoding" if is_key else "value.converter.encoding")
        self._encoding = specific or settings.get("converter.encoding") or "UTF-8"
        try:
            "".encode(self._encoding)
        except LookupError:
            raise ConfigError(f"encoding {self._encoding} is not known") from None
        self._is_utf8 = self._encoding.upper().replace("-", "") == "UTF8"

    def from_value(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        return (value if isinstance(value, str) else java_text.text(value, schema)).encode(
            self._encoding, "replace"
        )

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return Schema(STRING, optional=True), None if data is None else data.decode(self._encoding, "replace")

    def from_column(self, topic: str, values: Any) -> Any:
        if self._is_utf8 and pa.types.is_string(values.type):
            return values.view(pa.binary())
        return None

    def to_column(self, topic: str, data: Any) -> Any:
        try:
            return data.cast(pa.string()) if self._is_utf8 else None
        except pa.ArrowInvalid:  # not UTF-8: record by record, with replacements as in Java
            return None


class ByteArrayConverter:
    def from_value(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type != BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type}")
        if value is not None and not isinstance(value, bytes):
            raise DataError(
                f"ByteArrayConverter is not compatible with objects of type class {type(value).__name__}"
            )
        return value

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return Schema(BYTES, optional=True), data

    def from_column(self, topic: str, values: Any) -> Any:
        return values if pa.types.is_binary(values.type) else None

    def to_column(self, topic: str, data: Any) -> Any:
        return data


class NumberConverter(_Records):
    def __init__(self, name: str) -> None:
        self._name = name
        self._type, self._format = NUMBERS[name]

    def from_value(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            if isinstance(value, bool) or (self._type in (FLOAT32, FLOAT64)) != isinstance(value, float):
                raise TypeError(type(value).__name__)
            return struct.pack(self._format, value)
        except (struct.error, TypeError, OverflowError) as error:
            raise DataError(f"Failed to serialize to a {self._name.lower()} value: {error}") from error

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        try:
            value = None if data is None else struct.unpack(self._format, data)[0]
        except struct.error as error:
            raise DataError(f"Failed to deserialize value: {error}") from error
        return Schema(self._type, optional=True), value


class BooleanConverter(_Records):
    def from_value(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if (schema is not None and schema.type != BOOLEAN) or not isinstance(value, bool):
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type if schema else value!r}")
        return b"\x01" if value else b"\x00"

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is not None and data not in (b"\x00", b"\x01"):
            raise DataError("Failed to deserialize value: a boolean is one byte, 0 or 1")
        return Schema(BOOLEAN, optional=True), None if data is None else data == b"\x01"
