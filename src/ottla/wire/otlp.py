"""The metrics that clients push, read for showing: names, labels and values of OTLP's MetricsData (protobuf).

Only what is shown is read; everything else is passed over. Damaged bytes are a CorruptMessage.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ottla.errors import CorruptMessage

POINTS_MAX = 2_000  # of one push
_DOUBLE, _SIGNED = struct.Struct("<d"), struct.Struct("<q")
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
# Fields of the messages, by their numbers in opentelemetry-proto.
RESOURCE_METRICS, SCOPE_METRICS, METRICS = 1, 2, 2
NAME, UNIT, DATA_POINTS = 1, 3, 1
GAUGE, SUM, HISTOGRAM, SUMMARY = 5, 7, 9, 11
AS_DOUBLE, AS_INT, ATTRIBUTES = 4, 6, 7
COUNT, HISTOGRAM_SUM, HISTOGRAM_ATTRIBUTES, SUMMARY_ATTRIBUTES = 4, 5, 9, 7


class Point(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def points(data: bytes) -> list[Point]:
    """A histogram or summary is told as its count and its sum."""
    points: list[Point] = []
    try:
        for point in _points(data):
            points.append(point)
            if len(points) >= POINTS_MAX:
                break
    except (IndexError, struct.error, UnicodeDecodeError, ValueError) as error:
        raise CorruptMessage(f"these are no OTLP metrics: {error}") from None
    return points


def _points(data: bytes) -> Iterator[Point]:
    for resource in _messages(data, RESOURCE_METRICS):
        for scope in _messages(resource, SCOPE_METRICS):
            for metric in _messages(scope, METRICS):
                yield from _metric(metric)


def _metric(data: bytes) -> Iterator[Point]:
    name = ""
    for number, value in _fields(data):
        if number == NAME and isinstance(value, bytes):
            name = value.decode()
        elif number in (GAUGE, SUM) and isinstance(value, bytes):
            for point in _messages(value, DATA_POINTS):
                yield _number(name, point)
        elif number in (HISTOGRAM, SUMMARY) and isinstance(value, bytes):
            attributes = HISTOGRAM_ATTRIBUTES if number == HISTOGRAM else SUMMARY_ATTRIBUTES
            for point in _messages(value, DATA_POINTS):
                yield from _distribution(name, point, attributes)


def _number(name: str, data: bytes) -> Point:
    labels: dict[str, str] = {}
    shown = 0.0
    for number, value in _fields(data):
        if number == AS_DOUBLE and isinstance(value, int):
            shown = _DOUBLE.unpack(_SIGNED.pack(value))[0]
        elif number == AS_INT and isinstance(value, int):
            shown = value
        elif number == ATTRIBUTES and isinstance(value, bytes):
            labels.update(_attribute(value))
    return Point(name, labels, shown)


def _distribution(name: str, data: bytes, attributes: int) -> Iterator[Point]:
    labels: dict[str, str] = {}
    count, total = 0, 0.0
    for number, value in _fields(data):
        if number == COUNT and isinstance(value, int):
            count = value
        elif number == HISTOGRAM_SUM and isinstance(value, int):
            total = _DOUBLE.unpack(_SIGNED.pack(value))[0]
        elif number == attributes and isinstance(value, bytes):
            labels.update(_attribute(value))
    yield Point(f"{name}.count", labels, count)
    yield Point(f"{name}.sum", labels, total)


def _attribute(data: bytes) -> dict[str, str]:
    key, shown = "", ""
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            key = value.decode()
        elif number == 2 and isinstance(value, bytes):
            shown = _any_value(value)
    return {key: shown}


def _any_value(data: bytes) -> str:
    for number, value in _fields(data):
        match number, value:
            case 1, bytes(text):
                return text.decode()
            case 2, int(flag):
                return "true" if flag else "false"
            case 3, int(whole):
                return str(whole)
            case 4, int(bits):
                return str(_DOUBLE.unpack(_SIGNED.pack(bits))[0])
    return ""


def _messages(data: bytes, wanted: int) -> Iterator[bytes]:
    for number, value in _fields(data):
        if number == wanted and isinstance(value, bytes):
            yield value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        match tag & 7:
            case 0:
                value, position = _varint(data, position)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, _SIGNED.unpack_from(data, position)[0]
                position += 8
            case 2:
                size, position = _varint(data, position)
                if position + size > len(data):
                    raise ValueError("it is cut short")
                yield tag >> 3, data[position : position + size]
                position += size
            case 5:
                position += 4
            case other:
                raise ValueError(f"wire type {other}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
