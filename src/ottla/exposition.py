"""Metrics as text, for Prometheus and as OpenMetrics. The renderer yields often: a loop rests in between."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

LINES_AT_ONCE = 100  # about 0.1 ms
SERIES_MAX = 20_000  # of one family; what is left out is told
CUT = "ottla_metrics_family_cut"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
COUNTER, GAUGE, HISTOGRAM, SUMMARY = "counter", "gauge", "histogram", "summary"
UNTYPED = "untyped"  # for names that promtool keeps for parts of histograms, and that dashboards ask for
LAST_BUCKET = 25  # of powers of two in microseconds: 33 seconds

Number = int | float
Sample = tuple[str, Number]
"""What follows the family's name (`{topic="t"}`, `_bucket{le="1"}`, or nothing), and the value."""


class Family(NamedTuple):
    name: str
    kind: str
    help: str
    samples: Iterable[Sample]


class Histogram:
    """Counts of durations by powers of two, in microseconds. Adding takes about 100 ns."""

    __slots__ = ("counts", "sum_us")

    def __init__(self) -> None:
        self.counts = [0] * (LAST_BUCKET + 2)
        self.sum_us = 0

    def add(self, microseconds: int) -> None:
        bucket = microseconds.bit_length()
        self.counts[bucket if bucket <= LAST_BUCKET else LAST_BUCKET + 1] += 1
        self.sum_us += microseconds

    def samples(
        self, labels: str = "", first: int = 7, step: int = 1, count: int | None = None
    ) -> list[Sample]:
        """`labels` without braces; buckets from 2**first microseconds, every `step`th. With `count` what was never
        added, because it was next to nothing, is in the first of them."""
        comma = f"{labels}," if labels else ""
        braces = f"{{{labels}}}" if labels else ""
        missing = 0 if count is None else count - sum(self.counts)
        samples: list[Sample] = []
        for bucket in range(first, LAST_BUCKET + 1, step):
            below = missing + sum(self.counts[: bucket + 1])
            samples.append((f'_bucket{{{comma}le="{(1 << bucket) / 1e6}"}}', below))
        total = missing + sum(self.counts)
        samples.append((f'_bucket{{{comma}le="+Inf"}}', total))
        samples.append((f"_sum{braces}", self.sum_us / 1e6))
        samples.append((f"_count{braces}", total))
        return samples


def labels(**values: object) -> str:
    return "{" + ",".join(f'{name}="{escaped(str(value))}"' for name, value in values.items()) + "}"


def escaped(text: str) -> str:
    """A label's value. Broken UTF-16 of a client must not break the page."""
    if "\\" in text or '"' in text or "\n" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text if text.isascii() else text.encode(errors="replace").decode()


def render(families: Iterable[Family | None], *, open_metrics: bool = False) -> Iterator[str]:
    """Whole lines, about a hundred at a time. A None among the families only yields: gathering takes time too."""
    lines: list[str] = []
    cut: list[Sample] = []
    for family in families:
        if family is None:
            yield ""
            continue
        lines += _head(family, open_metrics)
        name = family.name
        for count, (text, value) in enumerate(family.samples):
            if count >= SERIES_MAX:
                cut.append((labels(family=name), 1))
                break
            lines.append(f"{name}{text} {value}\n" if value == value else f"{name}{text} NaN\n")
            if len(lines) >= LINES_AT_ONCE:
                yield "".join(lines)
                lines = []
    shown = Family(
        CUT, GAUGE, f"1 for a family with more than {SERIES_MAX} series: the others are left out", cut
    )
    lines += _head(shown, open_metrics)
    lines += [f"{CUT}{text} {value}\n" for text, value in cut]
    if open_metrics:
        lines.append("# EOF\n")
    yield "".join(lines)


def _head(family: Family, open_metrics: bool) -> list[str]:
    name, kind = family.name, family.kind
    if open_metrics:
        name = name.removesuffix("_total") if kind == COUNTER else name
        kind = "unknown" if kind == UNTYPED else kind
    return [f"# HELP {name} {family.help}\n", f"# TYPE {name} {kind}\n"]


def wants_open_metrics(accept: str) -> bool:
    """By an Accept header: what Prometheus sends names it first; a browser's names neither."""
    return "application/openmetrics-text" in accept
