"""What the world's makers know: which events, alerts and totals must come out of what was sent.

Written apart from the pipelines and in another way (patient by patient, in plain loops), so that one checks the
other.
"""

import bisect
import datetime
import json
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ottla.homecare.rules import Rules


@dataclass(frozen=True, slots=True)
class Expected:
    """All in plain values: device events (device, state, time), alerts (patient, level, since, at, nurse),
    totals by "patient/month" as (services, cents)."""

    events: list[tuple[str, str, int]] = field(default_factory=list)
    alerts: list[tuple[str, str, int, int, str]] = field(default_factory=list)
    totals: dict[str, tuple[int, int]] = field(default_factory=dict)

    def save(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, file: Path) -> "Expected":
        document = json.loads(file.read_text())
        return cls(
            [tuple(event) for event in document["events"]],
            [tuple(alert) for alert in document["alerts"]],
            {key: (total[0], total[1]) for key, total in document["totals"].items()},
        )


class Truth:
    """Hears everything once, whatever is repeated or late on its way."""

    def __init__(self, devices: int, rules: Rules, start_ms: int) -> None:
        self._rules, self._devices = rules, devices
        self._last = np.zeros(devices, np.int64)
        self._gaps: list[tuple[int, int, int]] = []  # device, last heartbeat before, first one after
        self._good: dict[int, Any] = {}  # window -> patients with a reading in range in it
        self._bad: dict[int, Any] = {}
        self._roster: dict[int, list[tuple[int, str]]] = defaultdict(list)
        self._totals: dict[tuple[int, str], list[int]] = {}
        self._start_ms = start_ms

    def on_heartbeats(self, device: Any, at: Any) -> None:
        order = np.lexsort((at, device))
        device, at = device[order], at[order]
        before = np.r_[0, at[:-1]]
        first = np.r_[True, device[1:] != device[:-1]][: len(device)]
        before = np.where(first, self._last[device], before[: len(device)])
        gap = (before > 0) & (at - before > self._rules.timeout_ms)
        self._gaps += zip(device[gap].tolist(), before[gap].tolist(), at[gap].tolist(), strict=True)
        np.maximum.at(self._last, device, at)

    def on_vitals(self, patient: Any, at: Any, bad: Any) -> None:
        windows = at // self._rules.window_ms
        for window in np.unique(windows).tolist():
            here = windows == window
            for table, chosen in ((self._good, here & ~bad), (self._bad, here & bad)):
                table.setdefault(window, np.zeros(self._devices, bool))[patient[chosen]] = True

    def on_roster(self, patient: Any, begins: Any, nurses: list[str]) -> None:
        for who, begin, nurse in zip(patient.tolist(), begins.tolist(), nurses, strict=True):
            self._roster[who].append((begin, nurse))

    def on_billing(self, patient: Any, rendered: Any, cents: Any) -> None:
        for who, when, amount in zip(patient.tolist(), rendered.tolist(), cents.tolist(), strict=True):
            month = datetime.datetime.fromtimestamp(when / 1000, datetime.UTC).strftime("%Y-%m")
            total = self._totals.setdefault((who, month), [0, 0])
            total[0] += 1
            total[1] += amount

    def expected(self, *, all_silent: bool) -> Expected:
        """`all_silent`: the world has ended and everybody had time to notice."""
        from ottla.homecare.world import patient_id

        totals = {f"{patient_id(who)}/{month}": (t[0], t[1]) for (who, month), t in self._totals.items()}
        return Expected(self._events(all_silent), self._alerts(), totals)

    def _events(self, all_silent: bool) -> list[tuple[str, str, int]]:
        from ottla.homecare.world import device_id

        changes = []
        for device, before, after in self._gaps:
            changes += [(device_id(device), "offline", before), (device_id(device), "online", after)]
        if all_silent:
            for device in np.flatnonzero(self._last).tolist():
                changes.append((device_id(device), "offline", int(self._last[device])))
        return changes

    def _alerts(self) -> list[tuple[str, str, int, int, str]]:
        ever_bad = np.zeros(self._devices, bool)
        for table in self._bad.values():
            ever_bad |= table
        return [alert for patient in np.flatnonzero(ever_bad).tolist() for alert in self._of_patient(patient)]

    def _of_patient(self, patient: int) -> list[tuple[str, str, int, int, str]]:
        """Window by window: what a nurse with all the time in the world would have noted."""
        from ottla.homecare.world import patient_id

        rules, alerts_due = self._rules, []
        level, bad_since, good_since = "", None, None
        for window in sorted({*self._good, *self._bad}):
            at = window * rules.window_ms
            good = window in self._good and bool(self._good[window][patient])
            bad = window in self._bad and bool(self._bad[window][patient]) and not good
            if bad:
                bad_since, good_since = at if bad_since is None else bad_since, None
                lasted = at - bad_since
                if level != "critical" and lasted >= rules.escalate_ms:
                    level = "critical"
                elif not level and lasted >= rules.sustained_ms:
                    level = "warning"
                else:
                    continue
                alerts_due.append((patient_id(patient), level, bad_since, at, self._nurse(patient, at)))
            elif good:
                good_since, bad_since = (
                    at if good_since is None else good_since,
                    None if not level else bad_since,
                )
                if level and at - good_since >= rules.clear_ms:
                    alerts_due.append(
                        (patient_id(patient), "clear", good_since, at, self._nurse(patient, at))
                    )
                    level, bad_since = "", None
        return alerts_due

    def _nurse(self, patient: int, at: int) -> str:
        known = sorted(self._roster[patient])
        place = bisect.bisect_right(known, (at, "~"))
        return known[place - 1][1] if place else ""
