"""The rules of a group, held against what its members say: one owner at a time, no record skipped."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

PATIENCE_NS = 5_000_000_000  # a member that was stopped for longer may have been replaced meanwhile
STALL_NS = 2_000_000_000  # so may one that did not run for a third of its session, by itself or repeatedly,
STALL_MATTERS_NS = 15_000_000_000  # up to so much earlier


class Event(NamedTuple):
    """`what` as in `member.py`, and from outside: crashed, paused, resumed."""

    at_ns: int
    member: str
    what: str
    rest: tuple[str, ...] = ()


class Judge:
    """Takes events as they come, to tell how things stand; rules are looked at in the end, in order of time.

    A partition has one owner: every client gives up what it must before it asks to join or confirms, in all
    protocols, so nobody may be given what another one still holds. A member whose process was stopped for
    about a session or more is a zombie until it hears that its partitions are gone: what it still holds it may
    read, but no commit of its may be taken. A member that says that its process was `stalled` is treated
    alike: what it holds and another one was given counts as an overlap.
    """

    def __init__(self, stalls: Iterable[Event] = ()) -> None:
        """`stalls`: known from the start, as a member tells of one only when it is over."""
        self._stalls = [(each.member, each.at_ns, int(each.rest[0]) * 1_000_000) for each in stalls]
        self._lock = threading.Lock()
        self.events: list[Event] = []
        self._owned: dict[str, set[int]] = defaultdict(set)
        self._position: dict[tuple[str, int], int | None] = {}
        self._read_up_to: dict[int, int] = defaultdict(int)
        self._paused_ns: dict[str, int] = {}
        self._zombies: dict[str, set[int]] = defaultdict(set)
        self._resumed_ns: dict[str, int] = {}
        self._ended: set[str] = set()
        self.committed: dict[int, int] = {}
        self._handed_over_ns: dict[tuple[str, int], int] = {}
        self.overlaps = 0
        self.losses = 0
        self.commits = 0
        self.reads_again = 0
        self.wrong: list[str] = []

    def on_event(self, event: Event) -> None:
        with self._lock:
            self.events.append(event)
            getattr(self, f"_on_{event.what}")(event)

    def in_order(self) -> Judge:
        """The same events, as they happened: what several processes say arrives as it likes."""
        again = Judge([each for each in self.events if each.what == "stalled"])
        for event in sorted(self.events, key=lambda each: each.at_ns):
            again.on_event(event)
        return again

    def is_spread(self, names: set[str], partitions: int) -> bool:
        """Every partition has an owner among these, nobody has much more than another, nobody else has any."""
        with self._lock:
            counts = [len(self._owned[name] - self._zombies[name]) for name in names]
            total = sum(len(owned) for name, owned in self._owned.items() if name not in self._ended)
            even = max(counts) - min(counts) <= 1
            return (
                even and sum(counts) == total == partitions and not any(self._zombies[each] for each in names)
            )

    def has_read(self, written: list[int]) -> bool:
        with self._lock:
            return all(self._read_up_to[partition] >= count for partition, count in enumerate(written))

    def _on_assigned(self, event: Event) -> None:
        for partition in map(int, event.rest):
            for other in self._owned:
                if other == event.member or not self._holds(other, partition):
                    continue
                self._handed_over_ns[other, partition] = event.at_ns
                if self._was_stalled(other, event.at_ns):
                    self.overlaps += 1
                else:
                    self.wrong.append(f"{event.member} was given {partition}, which {other} has")
            self._owned[event.member].add(partition)
            self._zombies[event.member].discard(partition)
            self._handed_over_ns.pop((event.member, partition), None)
            self._position[event.member, partition] = None

    def _holds(self, member: str, partition: int) -> bool:
        """As far as it knows, and should know."""
        if member in self._ended or member in self._paused_ns:
            return False
        return partition in self._owned[member] and partition not in self._zombies[member]

    def _was_stalled(self, member: str, at_ns: int) -> bool:
        stalled_ns = sum(
            length_ns
            for name, end_ns, length_ns in self._stalls
            if name == member and end_ns - length_ns < at_ns and end_ns > at_ns - STALL_MATTERS_NS
        )
        return stalled_ns > STALL_NS

    def _on_stalled(self, event: Event) -> None:
        """Looked at when somebody else is given what it holds."""

    def _on_revoked(self, event: Event) -> None:
        gone = set(map(int, event.rest))
        self._owned[event.member] -= gone
        self._zombies[event.member] -= gone

    def _on_lost(self, event: Event) -> None:
        """The broker took it for dead: not without a reason."""
        self.losses += 1
        lost = set(map(int, event.rest)) & self._owned[event.member]
        if lost - self._zombies[event.member] and not self._was_stalled(event.member, event.at_ns):
            self.wrong.append(f"{event.member} lost {sorted(lost)} for no reason")
        self._on_revoked(event)

    def _on_strange(self, event: Event) -> None:
        self.wrong.append(f"{event.member} says {' '.join(event.rest)}")

    def _on_read(self, event: Event) -> None:
        partition, first, last = map(int, event.rest)
        if partition in self._zombies[event.member]:
            return
        if partition not in self._owned[event.member]:
            self.wrong.append(f"{event.member} read {partition}, which it has not")
            return
        position = self._position[event.member, partition]
        if position is None:
            if first > self._read_up_to[partition]:
                self.wrong.append(f"{partition}: read from {first}, {self._read_up_to[partition]} is skipped")
            if first < self.committed.get(partition, 0):
                self.wrong.append(
                    f"{partition}: {first} read again, {self.committed[partition]} is committed"
                )
            self.reads_again += max(0, self._read_up_to[partition] - first)
        elif first != position:
            self.wrong.append(f"{event.member} read {first} of {partition} where {position} was due")
        self._position[event.member, partition] = last + 1
        self._read_up_to[partition] = max(self._read_up_to[partition], last + 1)

    def _on_committed(self, event: Event) -> None:
        partition, offset, begun_ns = map(int, event.rest)
        self.commits += 1
        if partition in self._zombies[event.member] and begun_ns > self._resumed_ns[event.member]:
            self.wrong.append(f"{event.member} committed {partition}, which it lost while it was stopped")
        if begun_ns > self._handed_over_ns.get((event.member, partition), begun_ns):
            self.wrong.append(f"{event.member} committed {partition}, which another one has")
        self.committed[partition] = max(offset, self.committed.get(partition, 0))

    def _on_refused(self, event: Event) -> None:
        """As it should be, now and then."""

    def _on_failed(self, event: Event) -> None:
        self.wrong.append(f"{event.member} failed: {' '.join(event.rest)}")
        self._end(event)

    def _end(self, event: Event) -> None:
        self._ended.add(event.member)
        self._owned[event.member].clear()
        self._zombies[event.member].clear()

    _on_crashed = _on_leaving = _on_left = _end

    def _on_paused(self, event: Event) -> None:
        self._paused_ns[event.member] = event.at_ns

    def _on_resumed(self, event: Event) -> None:
        if event.at_ns - self._paused_ns.pop(event.member) > PATIENCE_NS:
            self._zombies[event.member] |= self._owned[event.member]
            self._resumed_ns[event.member] = event.at_ns
