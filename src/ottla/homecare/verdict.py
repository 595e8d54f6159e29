"""Expected against seen: nothing missing, nothing double, nothing that nobody expected."""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.homecare.truth import Expected

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of result: how many were expected and seen, and examples of what is wrong."""

    name: str
    expected: int
    seen: int
    missing: list[Any] = field(default_factory=list)
    double: list[Any] = field(default_factory=list)
    unexpected: list[Any] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return not (self.missing or self.double or self.unexpected)

    def lines(self) -> list[str]:
        word = "all right" if self.is_right else "WRONG"
        counts = f"missing {len(self.missing)}, double {len(self.double)}, unexpected {len(self.unexpected)}"
        lines = [f"{self.name:<14} expected {self.expected:>8,}  seen {self.seen:>8,}  {counts}: {word}"]
        for kind in ("missing", "double", "unexpected"):
            lines += [f"    {kind}: {example}" for example in getattr(self, kind)[:_SHOWN]]
        return lines


@dataclass(frozen=True, slots=True)
class Verdict:
    findings: tuple[Finding, ...]

    @property
    def is_right(self) -> bool:
        return all(finding.is_right for finding in self.findings)

    def lines(self) -> list[str]:
        lines = [line for finding in self.findings for line in finding.lines()]
        return [*lines, "verdict: all right" if self.is_right else "verdict: WRONG"]


def judge(
    expected: Expected,
    events: Iterable[bytes],
    alerts: Iterable[bytes],
    totals: Iterable[tuple[str, bytes]],
    table: Mapping[str, tuple[int, int]] | None = None,
) -> Verdict:
    """Takes the values of the result topics as they are; `totals` with their keys, `table` if there is one."""
    seen_events = [(e["device"], e["state"], e["at"]) for e in map(json.loads, events)]
    seen_alerts = [
        (a["patient"], a["level"], a["since"], a["at"], a["nurse"]) for a in map(json.loads, alerts)
    ]
    findings = [
        compare("device events", expected.events, seen_events),
        compare("nurse alerts", expected.alerts, seen_alerts),
        *judge_totals(expected.totals, totals, table),
    ]
    return Verdict(tuple(findings))


def compare(name: str, expected: Iterable[Hashable], seen: Iterable[Hashable]) -> Finding:
    wanted, counted = Counter(expected), Counter(seen)
    missing = list((wanted - counted).elements())
    surplus = counted - wanted
    double = [element for element in surplus.elements() if element in wanted]
    unexpected = [element for element in surplus.elements() if element not in wanted]
    return Finding(name, wanted.total(), counted.total(), missing, double, unexpected)


def judge_totals(
    expected: Mapping[str, tuple[int, int]],
    totals: Iterable[tuple[str, bytes]],
    table: Mapping[str, tuple[int, int]] | None,
) -> list[Finding]:
    """The latest total of each key counts; on the way there it only grows, and no total is written twice."""
    latest: dict[str, tuple[int, int]] = {}
    double = []
    for key, value in totals:
        document = json.loads(value)
        total = (document["services"], document["cents"])
        if key in latest and total[0] <= latest[key][0]:
            double.append((key, latest[key], total))
        latest[key] = total
    findings = [_equal("billing totals", expected, latest, double)]
    services, cents = (sum(total[i] for total in latest.values()) for i in (0, 1))
    wanted_services, wanted_cents = (sum(total[i] for total in expected.values()) for i in (0, 1))
    wrong = [] if (services, cents) == (wanted_services, wanted_cents) else [f"{services:,} services"]
    findings.append(Finding("cents billed", wanted_cents, cents, unexpected=wrong))
    if table is not None:
        findings.append(_equal("billing table", latest, dict(table), []))
    return findings


def _equal(
    name: str,
    expected: Mapping[str, tuple[int, int]],
    seen: Mapping[str, tuple[int, int]],
    double: list[Any],
) -> Finding:
    missing = [(key, total) for key, total in expected.items() if key not in seen]
    wrong = [
        (key, "expected", expected.get(key), "seen", total)
        for key, total in seen.items()
        if expected.get(key) != total
    ]
    return Finding(name, len(expected), len(seen), missing, double, wrong)
