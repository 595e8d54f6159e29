"""Converters: values with schemas to the bytes of records, and back. Found by Kafka's class names."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

from ottla.connect.errors import ConfigError
from ottla.connect.schema import Schema

_PACKAGES = (
    "org.apache.kafka.connect.converters.",
    "org.apache.kafka.connect.json.",
    "org.apache.kafka.connect.storage.",
)


_BASE = "org.apache.kafka.connect."
JSON = f"{_BASE}json.JsonConverter"
HEADER_ONLY = f"{_BASE}storage.SimpleHeaderConverter"
_REGISTERED = {
    "io.confluent.connect.avro.AvroConverter": "avro",
    "io.confluent.connect.protobuf.ProtobufConverter": "protobuf",
    "io.confluent.connect.json.JsonSchemaConverter": "json_schema",
}
_NUMBERS = ("Boolean", "ByteArray", "Double", "Float", "Integer", "Long", "Short")
NAMES = (
    *(f"{_BASE}converters.{name}Converter" for name in _NUMBERS),
    JSON,
    f"{_BASE}storage.StringConverter",
)


class Converter(Protocol):
    """One value at a time, or a column of them. A converter without a path for columns answers None there."""

    def from_value(self, topic: str, schema: Schema | None, value: Any) -> bytes | None: ...

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]: ...

    def from_column(self, topic: str, values: Any) -> Any:
        """An Arrow column as a column of bytes; None where this must go record by record."""

    def to_column(self, topic: str, data: Any) -> Any:
        """A column of bytes as an Arrow column of values; None where this must go record by record."""


def converter(class_name: str, settings: Mapping[str, Any], *, is_key: bool) -> Converter:
    """By Kafka's class name, in full or the last part."""
    from ottla.connect.converters import headers, json, primitive

    short = class_name
    for package in _PACKAGES:
        short = short.removeprefix(package)
    if short in ("JsonConverter", "Json"):
        return json.JsonConverter(settings)
    if short in ("StringConverter", "String"):
        return primitive.StringConverter(settings, is_key=is_key)
    if short in ("ByteArrayConverter", "ByteArray"):
        return primitive.ByteArrayConverter()
    if short.removesuffix("Converter") in primitive.NUMBERS:
        return primitive.NumberConverter(short.removesuffix("Converter"))
    if short in ("BooleanConverter", "Boolean"):
        return primitive.BooleanConverter()
    if short in ("SimpleHeaderConverter", "Simple"):
        return headers.SimpleHeaderConverter()
    for name, module in _REGISTERED.items():
        if class_name in (name, name.rpartition(".")[2]):
            return _registered(module, name.rpartition(".")[2], settings, is_key=is_key)
    raise ConfigError(
        f"Class {class_name} could not be found. Converters here: JsonConverter, AvroConverter, ProtobufConverter, "
        f"JsonSchemaConverter, StringConverter, ByteArrayConverter, BooleanConverter, "
        f"{', '.join(f'{name}Converter' for name in primitive.NUMBERS)}"
    )


def _registered(module: str, name: str, settings: Mapping[str, Any], *, is_key: bool) -> Converter:
    try:
        converter_class = getattr(import_module(f"ottla.connect.converters.{module}"), name)
    except ImportError as error:
        raise ConfigError(
            f"{name} needs the extra registry: pip install 'ottla[registry]' ({error})"
        ) from error
    used: Converter = converter_class(settings, is_key=is_key)
    return used
