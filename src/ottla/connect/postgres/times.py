"""PostgreSQL's dates, times and intervals as Debezium writes them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from ottla.connect import schema as schemas
from ottla.connect.debezium_types import (
    DATE,
    DAY_US,
    EPOCH,
    EPOCH_ORDINAL,
    MICRO_TIME,
    MICRO_TIMESTAMP,
    MICROSECOND,
    MILLI_TIME,
    MILLI_TIMESTAMP,
    ZONED_TIMESTAMP,
)
from ottla.connect.postgres.codecs import Codec, Modes
from ottla.connect.schema import Schema

# What the JDBC driver takes for infinity, and so Debezium.
_INFINITY_US = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
_INFINITY_DAYS = {"infinity": 2**31 - 1, "-infinity": -(2**31)}
_MONTH_US = 2_629_800_000_000  # 30.4375 days, as Debezium counts


def date_codec(_modifier: int, modes: Modes) -> Codec:
    if modes.times == "connect":
        return Codec(schemas.day(), _python_date, None, date(1970, 1, 1))
    return Codec(DATE, days_since_1970, None, 0)


def days_since_1970(text: str) -> int:
    if text in _INFINITY_DAYS:
        return _INFINITY_DAYS[text]
    if text.endswith(" BC"):
        year, month, day = text[:-3].split("-")
        return _days_of(1 - int(year), int(month), int(day))
    if len(text) == 10:
        return date.fromisoformat(text).toordinal() - EPOCH_ORDINAL
    year, month, day = text.split("-")
    return _days_of(int(year), int(month), int(day))


def _days_of(year: int, month: int, day: int) -> int:
    """Any year: moved into the range of `date` by whole cycles of 400 years."""
    cycles = (year - 2000) // 400
    return date(year - 400 * cycles, month, day).toordinal() - EPOCH_ORDINAL + cycles * 146_097


def _python_date(text: str) -> date:
    if text in _INFINITY_DAYS:
        return date.max if text == "infinity" else date.min
    return date.fromordinal(days_since_1970(text) + EPOCH_ORDINAL)


def time_codec(modifier: int, modes: Modes) -> Codec:
    if modes.times == "connect":
        return Codec(schemas.time_of_day(), _python_time, None, time(0))
    if 0 <= modifier <= 3 and modes.times == "adaptive":
        return Codec(MILLI_TIME, lambda text: time_us(text) // 1000, None, 0)
    return Codec(MICRO_TIME, time_us, None, 0)


def time_us(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    micros = int((fraction + "000000")[:6]) if fraction else 0
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + micros


def _python_time(text: str) -> time:
    return (datetime.min + timedelta(microseconds=time_us(text) % DAY_US)).time()


def zoned_time_codec(_modifier: int, modes: Modes) -> Codec:
    schema = schemas.string(name="io.debezium.time.ZonedTime", version=1)
    return Codec(schema, _utc_time, None, "00:00:00Z")


def _utc_time(text: str) -> str:
    clock, offset_us = _split_zone(text)
    micros = (time_us(clock) - offset_us) % DAY_US
    seconds, fraction = divmod(micros, 1_000_000)
    shown = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{shown}Z"


def _split_zone(text: str) -> tuple[str, int]:
    """A clock's time and its zone's distance from UTC in microseconds: `+02`, `-03:30`, `+01:02:03`."""
    at = max(text.rfind("+"), text.rfind("-"))
    sign = -1 if text[at] == "-" else 1
    parts = [int(part) for part in text[at + 1 :].split(":")] + [0, 0]
    return text[:at], sign * ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1_000_000


def timestamp_codec(modifier: int, modes: Modes) -> Codec:
    if modes.times == "connect":
        return Codec(schemas.timestamp(), _python_timestamp, None, datetime(1970, 1, 1, tzinfo=UTC))
    if 0 <= modifier <= 3 and modes.times == "adaptive":
        return Codec(MILLI_TIMESTAMP, lambda text: timestamp_us(text) // 1000, None, 0)
    return Codec(MICRO_TIMESTAMP, timestamp_us, None, 0)


def timestamp_us(text: str) -> int:
    try:
        return (datetime.fromisoformat(text) - EPOCH) // MICROSECOND
    except ValueError:
        pass  # infinite, or of a year that `datetime` does not know
    if text in _INFINITY_US:
        return _INFINITY_US[text]
    era = " BC" if text.endswith(" BC") else ""
    day, clock = text.removesuffix(" BC").split(" ")
    return days_since_1970(day + era) * DAY_US + time_us(clock)


def _python_timestamp(text: str) -> datetime:
    """To the millisecond, as Connect's Timestamp is."""
    if text in _INFINITY_US:
        return (datetime.max if text == "infinity" else datetime.min).replace(tzinfo=UTC)
    return schemas.moment(timestamp_us(text) // 1000)


def zoned_timestamp_codec(modifier: int, modes: Modes) -> Codec:
    digits = modifier if 0 <= modifier <= 6 else 6
    zero = "1970-01-01T00:00:00.000000Z"
    return Codec(ZONED_TIMESTAMP, lambda text: _utc_timestamp(text, digits), None, zero)


def _utc_timestamp(text: str, digits: int) -> str:
    if text in _INFINITY_US:
        return text
    era = " BC" if text.endswith(" BC") else ""
    local, offset_us = _split_zone(text.removesuffix(" BC"))
    days, micros = divmod(timestamp_us(local + era) - offset_us, DAY_US)
    seconds, fraction = divmod(micros, 1_000_000)
    shown = f".{fraction:06}"[: digits + 1] if digits else ""
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{_day_text(days)}T{clock}{shown}Z"


def _day_text(days: int) -> str:
    cycles, rest = divmod(days + EPOCH_ORDINAL - 1, 146_097)
    day = date.fromordinal(rest + 1)
    year = day.year + 400 * cycles
    shown = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{shown}-{day.month:02}-{day.day:02}"


_INTERVAL_UNITS = {"year": 12, "years": 12, "mon": 1, "mons": 1}


def interval_parts(text: str) -> tuple[int, int, int]:
    """Months, days, microseconds of `1 year 2 mons 3 days -04:05:06.789`, the style `postgres`."""
    months = days = micros = 0
    words = text.split(" ")
    while words:
        word = words.pop(0)
        if ":" in word:
            micros = time_us(word.lstrip("+-")) * (-1 if word.startswith("-") else 1)
        elif words[0].startswith("day"):
            words.pop(0)
            days = int(word)
        else:
            months += int(word) * _INTERVAL_UNITS[words.pop(0)]
    return months, days, micros


def interval_codec(_modifier: int, modes: Modes) -> Codec:
    if modes.intervals == "string":
        schema = schemas.string(name="io.debezium.time.Interval", version=1)
        return Codec(schema, _interval_text, None, "P0Y0M0DT0H0M0S")
    schema = Schema(schemas.INT64, name="io.debezium.time.MicroDuration", version=1)
    return Codec(schema, _interval_us, None, 0)


def _interval_us(text: str) -> int:
    months, days, micros = interval_parts(text)
    return months * _MONTH_US + days * DAY_US + micros


def _interval_text(text: str) -> str:
    months, days, micros = interval_parts(text)
    sign, micros = (-1, -micros) if micros < 0 else (1, micros)
    seconds, fraction = divmod(micros, 1_000_000)
    shown = f".{fraction:06}".rstrip("0") if fraction else ""
    minus = "-" if sign < 0 and seconds % 60 + fraction else ""
    year_sign, months = (-1, -months) if months < 0 else (1, months)
    years = f"P{year_sign * (months // 12)}Y{year_sign * (months % 12)}M{days}D"
    return f"{years}T{sign * (seconds // 3600)}H{sign * (seconds // 60 % 60)}M{minus}{seconds % 60}{shown}S"
