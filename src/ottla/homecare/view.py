"""What the demo shows: a panel that is drawn again in a terminal, plain lines elsewhere."""

import sys
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, TextIO

_JOBS = ("technician", "nurse", "billing")
_RATE_S = 5.0


@dataclass(slots=True)
class Figures:
    """What is known of one process, from its own lines."""

    latest: dict[str, Any] = field(default_factory=dict)
    batches: int = 0
    rows: int = 0
    recent: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=200))
    ages: deque[int] = field(default_factory=lambda: deque(maxlen=400))

    def on_batch(self, figures: dict[str, Any], now: float) -> None:
        self.latest = figures
        self.batches += 1
        self.rows += figures.get("rows", 0)
        self.recent.append((now, self.rows))
        self.ages.extend(figures.get("ages", ()))

    def rate(self, now: float) -> float:
        """Records a second over the last seconds."""
        window = [(at, rows) for at, rows in self.recent if now - at <= _RATE_S]
        if len(window) < 2:
            return 0.0
        (begun, before), (ended, after) = window[0], window[-1]
        return (after - before) / max(ended - begun, 0.001)

    def latency(self) -> tuple[int, int] | None:
        """Median and 99th percentile of the time from event to committed result, in ms."""
        if not self.ages:
            return None
        ordered = sorted(self.ages)
        return ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]


class View:
    """Threads of the demo tell it; it draws when asked to."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self.is_live = out.isatty()
        self._drawn = 0
        self._begun = time.monotonic()
        self.jobs = {name: Figures() for name in _JOBS}
        self.simulator = Figures()

    @property
    def batches(self) -> int:
        """Micro-batches of the pipeline that has done the fewest."""
        return min(figures.batches for figures in self.jobs.values())

    def on_simulator(self, figures: dict[str, Any]) -> None:
        if "sent" in figures:
            self.simulator.latest = figures
            self.simulator.recent.append((time.monotonic(), figures["sent"]))

    def on_pipeline(self, figures: dict[str, Any]) -> None:
        if "batch" in figures:
            self.jobs[figures["job"]].on_batch(figures, time.monotonic())

    def say(self, text: str) -> None:
        """A line that stays."""
        self._wipe()
        elapsed = time.monotonic() - self._begun
        print(f"[{elapsed:5.1f} s] {text}", file=self._out, flush=True)

    def draw(self) -> None:
        lines = self.lines()
        if self.is_live:
            self._wipe()
            print("\n".join(lines), file=self._out, flush=True)
            self._drawn = len(lines)
        else:
            self.say("; ".join(line.replace("  ", " ").strip() for line in lines))

    def lines(self) -> list[str]:
        now = time.monotonic()
        latest = self.simulator.latest
        rows = [
            f"simulator   {self.simulator.rate(now):>8,.0f}/s  sent {latest.get('sent', 0):,}"
            f"  late {latest.get('late', 0):,}  repeated {latest.get('repeated', 0):,}"
        ]
        return rows + [self._job_line(name, now) for name in _JOBS]

    def _job_line(self, name: str, now: float) -> str:
        figures = self.jobs[name]
        latest = figures.latest
        if not latest:
            return f"{name:<11} starting"
        latest = defaultdict(int, latest)  # the first micro-batch is reported before it has any figures
        latency = figures.latency()
        shown = "" if latency is None else f"  latency {latency[0]:,}/{latency[1]:,} ms"
        match name:
            case "technician":
                offline = latest["offline"]
                outcome = f"online {latest['devices'] - offline:,}  offline {offline:,}  events {latest['written']:,}"
            case "nurse":
                outcome = f"alerting {latest['alerting']:,}  alerts {latest['written']:,}"
            case _:
                outcome = f"billed {latest['cents'] / 100:,.2f}  repeated {latest['repeated']:,}"
        return f"{name:<11} {figures.rate(now):>8,.0f}/s  lag {latest['lag']:,}  {outcome}{shown}"

    def _wipe(self) -> None:
        if self._drawn:
            print(f"\033[{self._drawn}A\033[J", end="", file=self._out)
            self._drawn = 0
