"""A history put in order for the checks: the fate of every send, and what each consumer read."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from ottla.testing.histories.ops import Op, Outcome, Record, Value, What

Partition = tuple[str, int]


class Fate(Enum):
    """Whether read_committed consumers should see it."""

    VISIBLE = 1
    INVISIBLE = 2
    OPEN = 3


@dataclass(slots=True)
class Sent:
    """One record of a send."""

    op: Op
    record: Record
    fate: Fate = Fate.OPEN

    @property
    def partition(self) -> Partition | None:
        return None if self.record.partition is None else (self.record.topic, self.record.partition)


@dataclass(slots=True)
class Read:
    offset: int
    value: Value | None
    poll: Op


@dataclass(slots=True)
class Run:
    """What a process read of a partition without being moved in between. It began at `position`, if known."""

    process: str
    partition: Partition
    position: int | None
    reads: list[Read] = field(default_factory=list)

    @property
    def covered(self) -> tuple[int, int] | None:
        """The offsets [from, to) that it went through."""
        if not self.reads:
            return None
        first = self.reads[0].offset if self.position is None else self.position
        return first, max(read.offset for read in self.reads) + 1


@dataclass(slots=True)
class Ends:
    """How a transaction ended, as far as anybody knows."""

    commits: list[Op] = field(default_factory=list)
    aborts: list[Op] = field(default_factory=list)

    @property
    def fate(self) -> Fate:
        if any(op.outcome is Outcome.OK for op in self.commits):
            return Fate.VISIBLE
        if all(op.outcome is Outcome.FAIL for op in self.commits):
            # Nobody asked, or was heard: aborted by now, or by the time-out.
            return Fate.INVISIBLE
        return Fate.OPEN

    @property
    def first_commit_ns(self) -> int | None:
        return min((op.start_ns for op in self.commits), default=None)


class Timeline:
    def __init__(self, ops: Iterable[Op]) -> None:
        self.sent: list[Sent] = []
        self.ends: dict[str, Ends] = defaultdict(Ends)
        self.runs: list[Run] = []
        self.uncommitted_runs: list[Run] = []
        self._reading: dict[str, dict[tuple[Partition, bool], Run]] = defaultdict(dict)
        self._positions: dict[tuple[str, Partition], int | None] = {}
        for op in ops:
            self._take(op)
        for sent in self.sent:
            sent.fate = self._fate(sent.op)

    def _take(self, op: Op) -> None:
        match op.what:
            case What.SEND:
                self.sent.extend(Sent(op, record) for record in op.records)
            case What.COMMIT:
                self.ends[str(op.transaction)].commits.append(op)
            case What.ABORT:
                self.ends[str(op.transaction)].aborts.append(op)
            case What.POLL:
                self._poll(op)
            case What.ASSIGN | What.SUBSCRIBE:
                self._stop(op.process)
                self._place(op)
            case What.SEEK:
                self._stop(op.process, {(record.topic, record.partition) for record in op.records})
                self._place(op)

    def _poll(self, op: Op) -> None:
        reading = self._reading[op.process]
        for record in op.records:
            assert record.partition is not None
            assert record.offset is not None
            partition = record.topic, record.partition
            at = partition, op.committed_only
            run = reading.get(at)
            if run is None:
                position = self._positions.pop((op.process, partition), None)
                run = reading[at] = Run(op.process, partition, position)
                (self.runs if op.committed_only else self.uncommitted_runs).append(run)
            run.reads.append(Read(record.offset, record.value, op))

    def _stop(self, process: str, partitions: set[tuple[str, int | None]] | None = None) -> None:
        reading = self._reading[process]
        if partitions is None:
            reading.clear()
            return
        for at in [place for place in reading if place[0] in partitions]:
            del reading[at]

    def _place(self, op: Op) -> None:
        for record in op.records:
            if record.partition is not None:
                self._positions[op.process, (record.topic, record.partition)] = record.offset

    def _fate(self, op: Op) -> Fate:
        if op.outcome is Outcome.FAIL:
            return Fate.INVISIBLE
        if op.transaction is not None and (fate := self.ends[op.transaction].fate) is not Fate.VISIBLE:
            return fate
        return Fate.VISIBLE if op.outcome is Outcome.OK else Fate.OPEN
