"""The offset grammar of `consume -o`: rpk's, and kcat's where it says the same differently."""

import re
from collections.abc import Mapping
from typing import Literal, TypeVar

from ottla.cli.options import UsageError
from ottla.cli.times import time_ms
from ottla.frozen import frozen

GRAMMAR = (
    "start, end, stored, N (offset), +N (after the start), -N (before the end), N:M, :end, start:end, "
    "@TIME, @TIME:TIME (ISO, ms since 1970 or -2h), s@TIME and e@TIME"
)
P = TypeVar("P")
Kind = Literal["offset", "from_start", "from_end", "time", "stored"]


@frozen
class Bound:
    kind: Kind
    value: int = 0

    def offset(self, start: int, end: int, at_time: int | None) -> int:
        """The offset in a partition that goes from `start` to `end`."""
        match self.kind:
            case "offset":
                return self.value
            case "from_start":
                return start + self.value
            case "from_end":
                return max(start, end - self.value)
            case "time":
                return end if at_time is None or at_time < 0 else at_time
            case "stored":
                raise UsageError("stored offsets belong to a group; give --group")


START, END, STORED = Bound("from_start"), Bound("from_end"), Bound("stored")
_NAMES = {
    "start": START, "beginning": START, "earliest": START, "oldest": START,
    "end": END, "latest": END, "newest": END, "stored": STORED,
}  # fmt: skip


@frozen
class Range:
    """From one bound up to (not including) another; no end: for ever."""

    start: Bound
    end: Bound | None = None

    def times(self) -> set[int]:
        return {bound.value for bound in (self.start, self.end) if bound is not None and bound.kind == "time"}


def parse(text: str, now_ms: int) -> Range:
    """One -o option."""
    if text[:2] in ("s@", "e@"):
        bound = Bound("time", time_ms(text[2:], now_ms))
        return Range(bound) if text[0] == "s" else Range(START, bound)
    if text.startswith("@"):
        first, second = _split_times(text[1:])
        start = Bound("time", time_ms(first, now_ms)) if first else START
        return Range(start, _time_or_end(second, now_ms) if second else None)
    first, colon, second = text.partition(":")
    start = _bound(first) if first else START
    return Range(start, _bound(second) if colon and second else None)


def parse_all(texts: list[str], now_ms: int) -> Range:
    """Several options (kcat's `-o s@... -o e@...`) are one range."""
    ranges = [parse(text, now_ms) for text in texts]
    start = next((parsed.start for parsed in ranges if parsed.start != START), START)
    return Range(start, next((parsed.end for parsed in ranges if parsed.end is not None), None))


def resolve(
    bound: Bound,
    starts: Mapping[P, int],
    ends: Mapping[P, int],
    at_times: Mapping[int, Mapping[P, int]],
) -> dict[P, int]:
    """The bound in every partition."""
    times = at_times.get(bound.value, {}) if bound.kind == "time" else {}
    return {p: bound.offset(starts[p], ends[p], times.get(p)) for p in ends}


def _bound(text: str) -> Bound:
    if text in _NAMES:
        return _NAMES[text]
    match = re.fullmatch(r"([+-]?)(\d+)", text)
    if match is None:
        raise UsageError(f"{text!r} is no offset; use {GRAMMAR}")
    kinds: dict[str, Kind] = {"": "offset", "+": "from_start", "-": "from_end"}
    return Bound(kinds[match[1]], int(match[2]))


def _time_or_end(text: str, now_ms: int) -> Bound:
    return END if text in ("end", "latest") else Bound("time", time_ms(text, now_ms))


def _split_times(text: str) -> tuple[str, str]:
    """`T1:T2`, where the times themselves may hold colons: the split that leaves two good times."""
    pieces = text.split(":")
    if len(pieces) == 1:
        return text, ""
    for cut in range(len(pieces) + 1):
        first, second = ":".join(pieces[:cut]), ":".join(pieces[cut:])
        if _is_time(first) and _is_time(second, end=True):
            return first, second
    raise UsageError(f"@{text}: write @TIME or @TIME:TIME")


def _is_time(text: str, *, end: bool = False) -> bool:
    if not text or (end and text in ("end", "latest")):
        return True
    try:
        time_ms(text, 0)
    except UsageError:
        return False
    return True
