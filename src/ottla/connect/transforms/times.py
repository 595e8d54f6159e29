"""TimestampConverter and TimestampRouter, with the patterns of Java's SimpleDateFormat."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

from ottla.connect import schema as s
from ottla.connect.errors import ConfigError, DataError
from ottla.connect.schema import Field, Schema
from ottla.connect.settings import Config
from ottla.connect.transforms.fields import basics
from ottla.connect.transforms.sides import Remembered, Side, get, require_map

_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_UNITS = {"seconds": 1000, "milliseconds": 1, "microseconds": -1000, "nanoseconds": -1_000_000}
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NUMBERS = {"M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}


_TIMES = (s.DATE, s.TIME, s.TIMESTAMP)


class DateFormat:
    """Letters y M d H h a m s S E D Z X z and quoted text, in UTC."""

    def __init__(self, pattern: str) -> None:
        self._parts: list[tuple[str, int, str]] = []  # letter, how many, text
        for match in _TOKEN.finditer(pattern):
            if match[2]:
                if match[2] not in "yMdHhamsSEDZXz":
                    raise ConfigError(f"format {pattern}: the letter {match[2]} is not known here")
                self._parts.append((match[2], len(match[0]), ""))
            else:
                quoted = match[0].startswith("'")
                text = (match[1].replace("''", "'") or "'") if quoted else match[0]
                self._parts.append(("", 0, text))
        self._pattern = pattern

    def format(self, moment: datetime) -> str:
        return "".join(text or self._shown(letter, count, moment) for letter, count, text in self._parts)

    def _shown(self, letter: str, count: int, at: datetime) -> str:
        match letter:
            case "y":
                return f"{at.year % 100:02}" if count == 2 else str(at.year).zfill(count)
            case "M" if count >= 3:
                name = _MONTHS[at.month - 1]
                return name if count > 3 else name[:3]
            case "h":
                return str((at.hour - 1) % 12 + 1).zfill(count)
            case "a":
                return "AM" if at.hour < 12 else "PM"
            case "S":
                return str(at.microsecond // 1000).zfill(count)
            case "E":
                name = _DAYS[at.weekday()]
                return name if count > 3 else name[:3]
            case "D":
                return str(at.timetuple().tm_yday).zfill(count)
            case "Z":
                return "+0000"
            case "X":
                return "Z"
            case "z":
                return "UTC"
            case _:
                return str(getattr(at, _NUMBERS[letter])).zfill(count)

    def parse(self, text: str) -> datetime:
        expression = "".join(self._expression(*part, i) for i, part in enumerate(self._parts))
        match = re.fullmatch(expression, text)
        if match is None:
            raise DataError(
                f"Could not parse timestamp: value ({text}) does not match pattern ({self._pattern})"
            )
        values = {self._parts[int(name[1:])][0]: value for name, value in match.groupdict().items()}
        try:
            return _moment(values, self._parts).astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise DataError(f"Could not parse timestamp: value ({text}): {error}") from None

    def _expression(self, letter: str, count: int, text: str, index: int) -> str:
        if text:
            return re.escape(text)
        if letter in "Ea" or letter == "z" or (letter == "M" and count >= 3):
            return f"(?P<p{index}>[A-Za-z]+)"
        if letter in "ZX":
            return rf"(?P<p{index}>Z|[+-]\d\d:?(?:\d\d)?)"
        follows = self._parts[index + 1] if index + 1 < len(self._parts) else ("", 0, "")
        digits = f"{{{count}}}" if follows[0] and follows[0] not in "aEzZX" else "+"
        return rf"(?P<p{index}>\d{digits})"


def _moment(values: dict[str, str], parts: list[tuple[str, int, str]]) -> datetime:
    year = int(values.get("y", 1970))
    if {letter: count for letter, count, _ in parts}.get("y") == 2 and len(values.get("y", "")) == 2:
        year += 2000 if year < 70 else 1900
    month_text = values.get("M", "1")
    month = int(month_text) if month_text.isdecimal() else _month(month_text)
    hour = int(values.get("H", 0))
    if "h" in values:
        hour = int(values["h"]) % 12 + (12 if values.get("a", "AM").upper() == "PM" else 0)
    begin = datetime(year, 1, 1, tzinfo=_zone(values.get("Z") or values.get("X")))
    # Java is lenient: the 32nd of January is the 1st of February.
    month_start = begin.replace(year=year + (month - 1) // 12, month=(month - 1) % 12 + 1)
    return month_start + timedelta(
        days=int(values.get("d", 1)) - 1, hours=hour, minutes=int(values.get("m", 0)),
        seconds=int(values.get("s", 0)), milliseconds=int(values.get("S", 0)),
    )  # fmt: skip


def _month(text: str) -> int:
    for number, name in enumerate(_MONTHS, 1):
        if name.lower().startswith(text.lower()):
            return number
    raise ValueError(f"{text} is no month")


def _zone(text: str | None) -> timezone:
    if not text or text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]))
    return timezone(-offset if text[0] == "-" else offset)


class TimestampConverter:
    def __init__(self, config: Config, side: str) -> None:
        self._side = Side(side)
        self._field, self._target = config["field"], config["target.type"]
        self._updated = Remembered(self._made_schema)
        self._unit = _UNITS[config["unix.precision"]]
        self._defaults = config["replace.null.with.default"]
        if self._target == "string" and not config["format"]:
            raise ConfigError(
                "TimestampConverter requires format option to be specified when using string timestamps"
            )
        self._format = DateFormat(config["format"]) if config["format"] else None

    def apply(self, record: Any) -> Any:
        schema, value = self._side.of(record)
        if schema is None:
            return self._schemaless(record, value)
        if not self._field:
            return self._side.changed(record, self._updated(schema), self._converted(value, schema))
        if schema.type != s.STRUCT:
            raise DataError(
                f"Only Struct objects supported for [converting timestamp formats], found: {schema.type}"
            )
        updated = self._updated(schema)
        if value is None:
            return self._side.changed(record, updated, None)
        converted = {}
        for field in schema.fields:
            part = get(schema, value, field.name, defaults=self._defaults)
            converted[field.name] = self._converted(part, field.schema) if field.name == self._field else part
        return self._side.changed(record, updated, converted)

    def _made_schema(self, schema: Schema) -> Schema:
        if not self._field:
            return self._schema(schema)
        fields = tuple(
            Field(field.name, self._schema(field.schema)) if field.name == self._field else field
            for field in schema.fields
        )
        return replace(basics(schema, fields), optional=schema.optional)

    def _schemaless(self, record: Any, value: Any) -> Any:
        if not self._field:
            return self._side.changed(record, None, self._converted(value, None))
        if value is None:
            return record
        mapping = require_map(value, "converting timestamp formats")
        return self._side.changed(
            record, None, {**mapping, self._field: self._converted(mapping.get(self._field), None)}
        )

    def _schema(self, schema: Schema) -> Schema:
        if schema.logical not in _TIMES and (schema.logical or schema.type not in (s.STRING, s.INT64)):
            raise DataError(f"Schema {schema.type} does not correspond to a known timestamp type format")
        match self._target:
            case "string":
                return Schema(s.STRING, schema.optional)
            case "unix":
                return Schema(s.INT64, schema.optional)
            case "Date":
                return s.day(optional=schema.optional)
            case "Time":
                return s.time_of_day(optional=schema.optional)
            case _:
                return s.timestamp(optional=schema.optional)

    def _converted(self, value: Any, schema: Schema | None) -> Any:
        if value is None:
            return None
        at = self._moment(value)
        match self._target:
            case "string":
                assert self._format is not None
                return self._format.format(at)
            case "unix":
                milliseconds = s.millis(at)
                return milliseconds // self._unit if self._unit > 0 else milliseconds * -self._unit
            case "Date":
                return at.date()
            case "Time":
                return at.replace(microsecond=at.microsecond // 1000 * 1000).time()
            case _:
                return at

    def _moment(self, value: Any) -> datetime:
        match value:
            case datetime():
                return value
            case date():
                return datetime(value.year, value.month, value.day, tzinfo=UTC)
            case time():
                return datetime(
                    1970, 1, 1, value.hour, value.minute, value.second, value.microsecond, tzinfo=UTC
                )
            case bool():
                raise DataError("Unexpected type in TimestampConverter transform: boolean")
            case int():
                return s.moment(value * self._unit if self._unit > 0 else _truncated(value, -self._unit))
            case str():
                if self._format is None:
                    raise DataError(
                        "TimestampConverter requires format option to be specified when using string timestamps"
                    )
                return self._format.parse(value)
            case _:
                raise DataError(
                    f"TimestampConverter does not support {type(value).__name__} values as its input"
                )


def _truncated(value: int, unit: int) -> int:
    """Towards zero, as Java divides."""
    return abs(value) // unit * (1 if value >= 0 else -1)


class TimestampRouter:
    def __init__(self, config: Config) -> None:
        self._topic, self._format = config["topic.format"], DateFormat(config["timestamp.format"])

    def apply(self, record: Any) -> Any:
        if record.timestamp_ms is None:
            raise DataError(f"Timestamp missing on record: {record.topic}")
        shown = self._format.format(s.moment(record.timestamp_ms))
        topic = self._topic.replace("${topic}", record.topic).replace("${timestamp}", shown)
        return replace(record, topic=topic)
