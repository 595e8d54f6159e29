"""What happened to the records of a share group, and whether it may have: a history and its judge.

A delivery after another one needs a reason: its member gave the record back, its lock's time was over, its session had
ended, the leader had died, or its acknowledgement was not confirmed. The reason also says what the delivery count is.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

ACCEPT, RELEASE = "accept", "release"


@dataclass(slots=True)
class Delivery:
    record: bytes
    member: str
    asked_s: float  # the poll that brought it began
    came_s: float
    count: int
    kind: str | None = None  # what the member made of it
    decided_s: float = 0.0
    confirmed: bool | None = None  # None: the answer got lost


@dataclass(slots=True)
class History:
    lock_s: float
    deliveries: dict[bytes, list[Delivery]] = field(default_factory=lambda: defaultdict(list))
    deaths: list[float] = field(default_factory=list)  # of the broker
    ended: dict[str, float] = field(default_factory=dict)  # sessions, by member
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_delivered(
        self, member: str, asked_s: float, records: Iterable[tuple[bytes, int]]
    ) -> list[Delivery]:
        now_s = time.monotonic()
        new = [Delivery(record, member, asked_s, now_s, count) for record, count in records]
        with self._lock:
            for delivery in new:
                self.deliveries[delivery.record].append(delivery)
        return new

    def on_death(self) -> None:
        self.deaths.append(time.monotonic())

    def on_ended(self, member: str) -> None:
        """Its session, from now on."""
        self.ended[member] = time.monotonic()

    def accepted(self) -> set[bytes]:
        """Confirmed."""
        with self._lock:
            return {
                record
                for record, deliveries in self.deliveries.items()
                if any(one.kind == ACCEPT and one.confirmed for one in deliveries)
            }

    def unknown(self) -> set[bytes]:
        """Accepted, and the answer got lost: they may be done with, or come again."""
        with self._lock:
            return {
                record
                for record, deliveries in self.deliveries.items()
                if any(one.kind == ACCEPT and one.confirmed is None for one in deliveries)
            } - {r for r, ds in self.deliveries.items() if any(d.kind == ACCEPT and d.confirmed for d in ds)}

    def anomalies(self) -> Iterator[str]:
        for record, deliveries in self.deliveries.items():
            in_order = sorted(deliveries, key=lambda one: one.came_s)
            for before, after in pairwise(in_order):
                if after.asked_s < before.came_s:
                    continue  # which of them was first nobody knows
                wrong = self._wrong(before, after)
                if wrong:
                    yield f"record {record!r}: {wrong} ({before} then {after})"

    def _wrong(self, before: Delivery, after: Delivery) -> str | None:
        if before.kind == ACCEPT and before.confirmed:
            return "it came again after its acceptance was confirmed"
        counts = self._possible_counts(before, after)
        if not counts:
            return "it came again although its member holds it"
        if after.count not in counts:
            return f"its delivery count is {after.count}, not {sorted(counts)}"
        return None

    def _possible_counts(self, before: Delivery, after: Delivery) -> set[int]:
        """For every reason why it may have come again."""
        again, counts = before.count + 1, set()
        if before.kind == RELEASE and before.confirmed:
            counts.add(again)
        if after.came_s >= before.asked_s + self.lock_s:
            counts.add(again)
        if before.kind is not None and not before.confirmed:
            counts |= {before.count, again}
        ended_s = self.ended.get(before.member)
        if ended_s is not None and ended_s <= after.came_s:
            counts |= {before.count, again}  # given back, or not heard of until the lock's time was over
        if any(before.asked_s <= death_s <= after.came_s for death_s in self.deaths):
            counts |= set(range(1, again + 1))  # acquisition is not written
        return counts
