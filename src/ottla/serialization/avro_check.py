"""Whether bytes are what an Avro schema says, without making values of them: a fault names its field.

A schema becomes nested functions, each of which reads one value and returns where it ends. The bytes come from the
network: lengths are compared with what is left, and items that take no bytes are counted, so that a few bytes
cannot keep a reader busy.
"""

from collections.abc import Callable, Mapping
from typing import Any

ITEMS_FREE = 10_000  # items that take no bytes, such as nulls in an array, beyond one for each byte


class Fault(Exception):
    """What is wrong, and in which field: the outermost first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path: list[str] = []

    def __str__(self) -> str:
        reason = super().__str__()
        return f"field {'.'.join(self.path)}: {reason}" if self.path else reason


class _Data:
    """The bytes of one value, and how many items it may still have."""

    __slots__ = ("bytes", "end", "items_left")

    def __init__(self, data: bytes) -> None:
        self.bytes, self.end = data, len(data)
        self.items_left = len(data) + ITEMS_FREE


Reader = Callable[[_Data, int], int]


class AvroCheck:
    def __init__(self, schema: Any, references: tuple[Any, ...] = ()) -> None:
        """`references` are schemas whose names this one uses, what they need first. All are parsed JSON, and valid."""
        named: dict[str, Reader] = {}
        for reference in references:
            _reader(reference, named, "")
        self._read = _reader(schema, named, "")

    def fault(self, data: bytes) -> str | None:
        """Why these bytes are not one value of the schema, whole."""
        try:
            end = self._read(_Data(data), 0)
        except Fault as fault:
            return str(fault)
        except RecursionError:
            return "it is nested too deep"
        return None if end == len(data) else f"{len(data) - end} bytes are left over behind its last field"


def _reader(schema: Any, named: dict[str, Reader], space: str) -> Reader:
    if isinstance(schema, list):
        return _union([_reader(branch, named, space) for branch in schema])
    if isinstance(schema, str):
        if schema in _PRIMITIVE:
            return _PRIMITIVE[schema]
        full = schema if "." in schema or not space else f"{space}.{schema}"
        name = full if full in named else schema
        if name not in named:
            raise ValueError(f"the type {schema} is not defined")
        return lambda data, at: named[name](data, at)  # it may be defined further on: a list of itself
    kind = schema["type"]
    if kind == "array":
        return _items(_reader(schema["items"], named, space))
    if kind == "map":
        value = _reader(schema["values"], named, space)
        return _items(lambda data, at: value(data, _string(data, at)))
    if kind in ("record", "error", "enum", "fixed"):
        return _named(schema, kind, named, space)
    return _reader(kind, named, space)


def _named(schema: Mapping[str, Any], kind: str, named: dict[str, Reader], space: str) -> Reader:
    name, own = str(schema["name"]), schema.get("namespace", space) or ""
    if "." in name:
        own, _, name = name.rpartition(".")
    full = f"{own}.{name}" if own else name
    if kind == "enum":
        named[full] = _enum(len(schema["symbols"]))
    elif kind == "fixed":
        named[full] = _fixed(int(schema["size"]))
    else:
        named[full] = _unfinished  # so that fields may refer to it
        fields = [(str(field["name"]), _reader(field["type"], named, own)) for field in schema["fields"]]
        named[full] = _record(fields)
    return named[full]


def _unfinished(data: _Data, at: int) -> int:
    raise AssertionError("read before its schema was")


def _record(fields: list[tuple[str, Reader]]) -> Reader:
    def read(data: _Data, at: int) -> int:
        name = ""
        try:
            for name, field in fields:  # noqa: B007 (the handler tells which it was)
                at = field(data, at)
        except Fault as fault:
            fault.path.insert(0, name)
            raise
        return at

    return read


def _union(branches: list[Reader]) -> Reader:
    def read(data: _Data, at: int) -> int:
        index, at = _number(data, at)
        if not 0 <= index < len(branches):
            raise Fault(f"branch {index} of a union that has {len(branches)}")
        return branches[index](data, at)

    return read


def _items(item: Reader) -> Reader:
    def read(data: _Data, at: int) -> int:
        while True:
            count, at = _number(data, at)
            if count == 0:
                return at
            if count < 0:  # then the size of the block follows
                count = -count
                _, at = _number(data, at)
            data.items_left -= count
            if data.items_left < 0:
                raise Fault("it has more items than bytes")
            for _ in range(count):
                at = item(data, at)

    return read


def _enum(symbols: int) -> Reader:
    def read(data: _Data, at: int) -> int:
        index, at = _number(data, at)
        if not 0 <= index < symbols:
            raise Fault(f"symbol {index} of an enum that has {symbols}")
        return at

    return read


def _fixed(size: int) -> Reader:
    def read(data: _Data, at: int) -> int:
        if size > data.end - at:
            raise Fault(f"{size} bytes are needed and {data.end - at} are left")
        return at + size

    return read


def _number(data: _Data, at: int) -> tuple[int, int]:
    content, end = data.bytes, data.end
    if at < end and content[at] < 0x80:  # most are small
        raw = content[at]
        return (raw >> 1) ^ -(raw & 1), at + 1
    raw = shift = 0
    while at < end and shift < 70:
        byte = content[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> 64:
                break
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
    raise Fault("the value ends within a number" if at >= end else "a number is too long")


def _int(data: _Data, at: int) -> int:
    number, at = _number(data, at)
    if not -(1 << 31) <= number < 1 << 31:
        raise Fault(f"{number} does not fit an int")
    return at


def _bytes(data: _Data, at: int) -> int:
    length, at = _number(data, at)
    if not 0 <= length <= data.end - at:
        raise Fault(f"a length of {length} where {data.end - at} bytes are left")
    return at + length


def _string(data: _Data, at: int) -> int:
    end = _bytes(data, at)
    _, start = _number(data, at)
    try:
        data.bytes[start:end].decode()
    except UnicodeDecodeError as error:
        raise Fault("a string that is no UTF-8") from error
    return end


def _boolean(data: _Data, at: int) -> int:
    if at >= data.end:
        raise Fault("the value ends before it")
    if data.bytes[at] > 1:
        raise Fault(f"{data.bytes[at]} where a boolean is 0 or 1")
    return at + 1


_PRIMITIVE: dict[str, Reader] = {
    "null": lambda data, at: at,
    "boolean": _boolean,
    "int": _int,
    "long": lambda data, at: _number(data, at)[1],
    "float": _fixed(4),
    "double": _fixed(8),
    "bytes": _bytes,
    "string": _string,
}
