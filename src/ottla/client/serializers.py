"""Values to bytes and back: by name, by type, or by the user's own function."""

import json
import struct
from collections.abc import Callable
from typing import Any

from ottla.client.errors import SettingError

Serializer = Callable[[Any], bytes | None]
Deserializer = Callable[[bytes], Any]


def serializer_for(setting: Any) -> Serializer:
    """By name or type (bytes, str, int, float, json), any function, or (None) what the value's type says."""
    if setting is None:
        return by_type
    name = _name(setting)
    if name in _SERIALIZERS:
        return _SERIALIZERS[name]
    if callable(setting):
        return setting  # type: ignore[no-any-return]
    raise SettingError(f"{setting!r} is no serializer; use a function or one of {', '.join(_SERIALIZERS)}")


def deserializer_for(setting: Any) -> Deserializer | None:
    """As `serializer_for`; None leaves bytes alone."""
    name = _name(setting)
    if setting is None or name == "bytes":
        return None
    if name in _DESERIALIZERS:
        return _DESERIALIZERS[name]
    if callable(setting):
        return setting  # type: ignore[no-any-return]
    raise SettingError(
        f"{setting!r} is no deserializer; use a function or one of {', '.join(_DESERIALIZERS)}"
    )


def by_type(value: Any) -> bytes | None:
    """Bytes stay; texts become UTF-8. Anything else needs a serializer: guessing would lock its form in."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise SettingError(
        f"a {type(value).__name__} cannot be sent as it is; "
        "set key.serializer or value.serializer, for example to 'json'"
    )


def _name(setting: Any) -> str | None:
    """By type, by our name, or by Java's class name as courses write it."""
    if isinstance(setting, type):
        return setting.__name__
    if not isinstance(setting, str):
        return None
    java = setting.rpartition(".")[2].removesuffix("Serializer").removesuffix("Deserializer")
    return _JAVA.get(java, setting)


def _unless_none(convert: Callable[[Any], bytes]) -> Serializer:
    return lambda value: None if value is None else convert(value)


_JAVA = {"String": "str", "ByteArray": "bytes", "Long": "int", "Double": "float", "Integer": "int32"}
_SERIALIZERS: dict[str, Serializer] = {
    "bytes": by_type,
    "str": by_type,
    "int": _unless_none(struct.Struct(">q").pack),
    "int32": _unless_none(struct.Struct(">i").pack),
    "float": _unless_none(struct.Struct(">d").pack),
    "json": _unless_none(lambda value: json.dumps(value, separators=(",", ":")).encode()),
}
_DESERIALIZERS: dict[str, Deserializer] = {
    "str": lambda data: data.decode(),
    "int": lambda data: int.from_bytes(data, "big", signed=True),
    "int32": lambda data: int.from_bytes(data, "big", signed=True),
    "float": lambda data: struct.unpack(">d" if len(data) == 8 else ">f", data)[0],
    "json": json.loads,
}
