"""Numbers, sizes and times as people read them; addresses with their parameters."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlencode


def count(value: float | None) -> str:
    """1234 -> 1,234; 12,400 -> 12.4k; 3,100,000 -> 3.1M."""
    if value is None:
        return "-"
    if abs(value) < 10_000:
        return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.1f}"
    for limit, unit in ((1e6, "k"), (1e9, "M"), (1e12, "G"), (1e15, "T")):
        if abs(value) < limit * 0.9995:
            return f"{_three(value / limit * 1000)}{unit}"
    return f"{value:.3g}"


def size(value: float | None) -> str:
    """Bytes, in steps of 1024."""
    if value is None or value < 0:
        return "-"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 1023.5 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{_three(value)} {unit}"
        value /= 1024
    raise AssertionError


def duration(ms: float | None) -> str:
    if ms is None or ms < 0:
        return "-"
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{_three(seconds / divisor)} {unit}"
    return f"{_three(seconds / 86_400)} d"


def meaning(setting: str, value: str | None) -> str:
    """What a setting's number means: `retention.ms` 604800000 is 7 d; empty where the number says so itself."""
    if value is None or not value.isdecimal() or len(value) > 100:
        return ""
    number = int(value)
    if number >= 2**63 - 1:
        return "no limit"
    if setting.endswith(".ms") and number >= 1000:
        return duration(number).replace(".0 ", " ")
    if setting.endswith(("bytes", ".bytes.per.second")) and number >= 1024:
        return size(number).replace(".0 ", " ")
    return ""


def ago(at_ms: float, now_ms: float | None = None) -> str:
    return f"{duration(max(0.0, (time.time() * 1000 if now_ms is None else now_ms) - at_ms))} ago"


def moment(at_ms: int) -> str:
    """A timestamp in UTC; what lies outside of the calendar as a number."""
    if at_ms < 0:
        return "no time"
    try:
        return (
            datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03d}"
        )
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")


def plural(number: int, noun: str, many: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def address(path: str, parameters: Mapping[str, object] | None = None, **more: object) -> str:
    """A path with its parameters; empty ones are left out."""
    pairs = {**(parameters or {}), **more}
    chosen = {name.rstrip("_"): value for name, value in pairs.items() if value not in (None, "")}
    return f"{path}?{urlencode(chosen)}" if chosen else path


def topic_address(topic: str, part: str = "", **parameters: object) -> str:
    return address(f"/topics/{quote(topic, safe='')}{f'/{part}' if part else ''}", parameters)


def group_address(group: str, **parameters: object) -> str:
    return address("/group", {"id": group, **parameters})


def _three(value: float) -> str:
    """About three digits."""
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.1f}"
