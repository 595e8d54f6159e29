"""Points in time and durations as people write them."""

import re
from datetime import UTC, datetime

from ottla.cli.options import UsageError

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_ISO_DURATION = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?", re.I
)


def utc(stamp_ms: int) -> datetime | None:
    """None beyond the years that Python knows: a producer may write any timestamp."""
    try:
        return datetime.fromtimestamp(stamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def duration_ms(text: str) -> int:
    """`90s`, `1h30m`, `2d`, or ISO 8601 as Kafka's tools take it: `PT1H30M`."""
    iso = _ISO_DURATION.fullmatch(text)
    if iso and any(iso.groups()):
        return int(sum(float(n) * _UNITS_MS[unit] for unit, n in iso.groupdict().items() if n))
    parts = re.findall(r"(\d+)(ms|s|m|h|d|w)", text)
    if not parts or "".join(n + unit for n, unit in parts) != text:
        raise UsageError(f"{text!r} is no duration; write for example 90s, 1h30m, 2d or PT1H")
    return sum(int(n) * _UNITS_MS[unit] for n, unit in parts)


def time_ms(text: str, now_ms: int) -> int:
    """Milliseconds or seconds since 1970, a date, a date and time (UTC unless it says), or `-2h` ago."""
    if text.startswith("-"):
        return now_ms - duration_ms(text[1:])
    if text.isdecimal():
        return int(text) * (1 if len(text) > 10 else 1_000)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no time; write 2026-01-31, 2026-01-31T12:30:00Z, milliseconds, or -2h"
        ) from None
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)
