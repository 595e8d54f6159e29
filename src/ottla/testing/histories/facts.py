"""Who saw what where: what the checks look up."""

from bisect import bisect_left, bisect_right
from collections import defaultdict

from ottla.testing.histories.ops import Outcome, Value
from ottla.testing.histories.timeline import Partition, Sent, Timeline

Place = tuple[Partition, int]


class Facts:
    """Made once of a timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self.values_at: dict[Place, set[Value | None]] = defaultdict(set)
        self.seen_at: dict[tuple[str, Value | None], set[Place]] = defaultdict(set)
        """Where read_committed consumers saw a value of a topic."""
        self.sent_by_value: dict[tuple[str, Value | None], list[Sent]] = defaultdict(list)
        self.known: dict[Partition, list[int]] = {}
        """Offsets that hold a record which should be visible, in order."""
        self.covered: dict[Partition, list[tuple[int, int]]] = {}
        """Offsets that some read_committed consumer went through: [from, to), apart and in order."""
        self._note_reads(timeline)
        self._note_sends(timeline)
        self._note_ranges(timeline)

    def is_seen(self, sent: Sent) -> bool:
        """At its own place, if we know that: the same value may have been sent before, and aborted."""
        places = self.seen_at.get((sent.record.topic, sent.record.value))
        if not places:
            return False
        return sent.partition is None or sent.record.offset is None or self._place(sent) in places

    def is_passed(self, sent: Sent) -> bool:
        """Whether a consumer should have come across it."""
        if sent.partition is None or sent.record.offset is None:
            return False
        ranges = self.covered.get(sent.partition, [])
        at = bisect_right(ranges, (sent.record.offset, 2**63)) - 1
        return at >= 0 and ranges[at][0] <= sent.record.offset < ranges[at][1]

    def known_between(self, partition: Partition, first: int, last: int) -> int | None:
        """An offset in [first, last) that holds a record which somebody saw."""
        offsets = self.known.get(partition, [])
        at = bisect_left(offsets, first)
        return offsets[at] if at < len(offsets) and offsets[at] < last else None

    def _note_reads(self, timeline: Timeline) -> None:
        for run in timeline.runs:
            for read in run.reads:
                place = run.partition, read.offset
                self.values_at[place].add(read.value)
                self.seen_at[run.partition[0], read.value].add(place)
        for run in timeline.uncommitted_runs:
            for read in run.reads:
                self.values_at[run.partition, read.offset].add(read.value)

    def _note_sends(self, timeline: Timeline) -> None:
        for sent in timeline.sent:
            self.sent_by_value[sent.record.topic, sent.record.value].append(sent)
            if (
                sent.op.outcome is Outcome.OK
                and sent.partition is not None
                and sent.record.offset is not None
            ):
                self.values_at[self._place(sent)].add(sent.record.value)

    def _note_ranges(self, timeline: Timeline) -> None:
        offsets: dict[Partition, set[int]] = defaultdict(set)
        for places in self.seen_at.values():
            for partition, offset in places:
                offsets[partition].add(offset)
        self.known = {partition: sorted(known) for partition, known in offsets.items()}
        ranges: dict[Partition, list[tuple[int, int]]] = defaultdict(list)
        for run in timeline.runs:
            if (covered := run.covered) is not None:
                ranges[run.partition].append(covered)
        self.covered = {partition: _joined(range_) for partition, range_ in ranges.items()}

    def _place(self, sent: Sent) -> Place:
        assert sent.partition is not None
        assert sent.record.offset is not None
        return sent.partition, sent.record.offset


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return joined
