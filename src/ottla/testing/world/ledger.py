"""What the world knows to be true: what was acknowledged, what is in the logs, who committed what."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.storage.log import Log
from ottla.wire import batch as batches
from ottla.wire import records as wire_records

TopicPartition = tuple[str, int]
Producer = tuple[int, int]  # id and epoch

_MARKER = struct.Struct(">hh")
COMMIT = 1
STEP_BYTES = 1 << 20


class Broken(AssertionError):
    """An invariant does not hold."""


def hold(condition: object, what: str) -> None:
    if not condition:
        raise Broken(what)


@dataclass(slots=True)
class Entry:
    """One offset of a partition. `fate` is of the transaction: None without one."""

    value: bytes | None
    leader_epoch: int
    producer_id: int = -1
    fate: str | None = None  # open, committed, aborted
    marker: bool = False


@dataclass(slots=True)
class Truth:
    """A partition below its high watermark, as it was when it was first seen there."""

    entries: list[Entry] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)  # producer id -> first offset of its transaction
    high_watermark: int = 0
    leader_epoch: int = -1

    def extend(self, log: Log, where: dict[bytes, TopicPartition], name: TopicPartition) -> None:
        """Takes in what has come below the high watermark."""
        for header, records in read_batches(log, len(self.entries), log.high_watermark):
            hold(header.base_offset == len(self.entries), f"{name}: a gap at {len(self.entries)}")
            hold(
                not self.entries or header.leader_epoch >= self.entries[-1].leader_epoch,
                f"{name}: the leader epoch falls at {header.base_offset}",
            )
            if header.is_control:
                self._end(header.producer_id, records[0])
                self.entries.append(Entry(None, header.leader_epoch, header.producer_id, marker=True))
                continue
            for record in records:
                assert record.value is not None
                hold(record.value not in where, f"{name}: {record.value!r} is written twice")
                where[record.value] = name
                fate = None
                if header.is_transactional:
                    self.open.setdefault(header.producer_id, record.offset)
                    fate = "open"
                self.entries.append(Entry(record.value, header.leader_epoch, header.producer_id, fate))

    def _end(self, producer_id: int, marker: wire_records.Record) -> None:
        _, kind = _MARKER.unpack_from(marker.key or b"")
        first = self.open.pop(producer_id, None)
        for entry in self.entries[first:] if first is not None else ():
            if entry.producer_id == producer_id and entry.fate == "open":
                entry.fate = "committed" if kind == COMMIT else "aborted"

    def same_as(self, log: Log, name: TopicPartition) -> None:
        """The log still says what it said."""
        offset = log.log_start_offset
        for header, records in read_batches(log, offset, len(self.entries)):
            for record in records:
                known = self.entries[record.offset]
                hold(
                    known.marker == header.is_control and (known.marker or known.value == record.value),
                    f"{name}: offset {record.offset} has changed",
                )
            offset = header.next_offset
        hold(offset >= len(self.entries), f"{name}: the log ends at {offset}, {len(self.entries)} were there")


def read_batches(
    log: Log, offset: int, end: int
) -> list[tuple[batches.BatchHeader, list[wire_records.Record]]]:
    batches_read = []
    while offset < end:
        taken = log.read(offset, max_bytes=STEP_BYTES, up_to=end)
        if taken.next_offset <= offset:
            break
        for position, header in batches.headers(taken.data):
            if header.base_offset >= offset:
                batches.check(taken.data, position)
                batches_read.append((header, wire_records.read(taken.data, position)))
        offset = taken.next_offset
    return batches_read


@dataclass(slots=True)
class Commits:
    """What a partition's committed offset was seen to be, and from where on it was acknowledged."""

    seen: list[int] = field(default_factory=list)
    acknowledged_from: int = 0

    def see(self, offset: int | None, name: str) -> None:
        if offset is None:
            hold(not self.seen or self.acknowledged_from == 0, f"{name}: an acknowledged commit is gone")
            return
        if self.seen and self.seen[-1] == offset:
            return
        if offset in self.seen:  # a commit that nobody was told of may be lost in a crash
            index = self.seen.index(offset)
            hold(index + 1 >= self.acknowledged_from, f"{name}: an acknowledged commit is gone")
            del self.seen[index + 1 :]
        else:
            self.seen.append(offset)

    def acknowledge(self, offset: int, name: str) -> None:
        hold(offset in self.seen, f"{name}: a commit was acknowledged that is not there")
        self.acknowledged_from = max(self.acknowledged_from, self.seen.index(offset) + 1)


class Ledger:
    """`on_told` is called whenever somebody was told that all is well: a good moment for a disaster."""

    def __init__(self) -> None:
        self.on_told: Callable[[], None] = lambda: None
        self.truths: dict[TopicPartition, Truth] = {}
        self.where: dict[bytes, TopicPartition] = {}
        self.acknowledged: list[tuple[TopicPartition, int, bytes]] = []
        self.ended: dict[
            str, tuple[bool, list[bytes]]
        ] = {}  # a transaction: committed?, its acknowledged values
        self.ended_by_another: set[str] = set()  # transactions that a late EndTxn may have ended
        self.commits: dict[tuple[str, TopicPartition], Commits] = {}
        self._under_way: dict[Producer, str] = {}  # transactions
        self._checked = 0

    def on_acknowledged(self, name: TopicPartition, base_offset: int, values: list[bytes]) -> None:
        for i, value in enumerate(values):
            self.acknowledged.append((name, base_offset + i, value))
        self.on_told()

    def on_begun(self, producer: Producer, transaction: str) -> None:
        self._under_way[producer] = transaction

    def on_late_end(self, producer: Producer, transaction: str) -> None:
        """An EndTxn that was given up, and repeated, is heard now. Before version 5 nothing tells which
        transaction of the epoch it is for, so in Kafka too it ends the one that is under way: of that one
        nothing is promised any more, and this is why transactions got epochs of their own (KIP-890)."""
        other = self._under_way.get(producer, transaction)
        if other != transaction:
            self.ended_by_another.add(other)

    def on_ended(self, producer: Producer, transaction: str, committed: bool, values: list[bytes]) -> None:
        self._under_way.pop(producer, None)
        self.ended[transaction] = committed, values
        self.on_told()

    def on_commit_acknowledged(self, group: str, name: TopicPartition, offset: int) -> None:
        commits = self.commits.setdefault((group, name), Commits())
        commits.acknowledge(offset, f"{group} on {name}")
        self.on_told()

    def on_read(self, name: TopicPartition, offset: int, value: bytes, *, read_committed: bool) -> None:
        """A consumer was given a record."""
        entries = self.truths[name].entries if name in self.truths else []
        hold(offset < len(entries), f"{name}: a consumer saw {offset} above the high watermark")
        entry = entries[offset]
        hold(entry.value == value, f"{name}: a consumer saw something else at {offset}")
        if read_committed:
            hold(entry.fate in (None, "committed"), f"{name}: read_committed saw {entry.fate} {value!r}")

    def check_acknowledged(self) -> None:
        """Those that are new since the last time: what is in the truth stays, other checks see to that."""
        for name, offset, value in self.acknowledged[self._checked :]:
            entries = self.truths[name].entries if name in self.truths else []
            kept = entries[offset].value if 0 <= offset < len(entries) else None
            hold(kept == value, f"{name}: {value!r} was acknowledged at {offset}, where {kept!r} is")
        self._checked = len(self.acknowledged)

    def check_transactions(self) -> None:
        """In the end: each is there as a whole or not at all, as its client was told."""
        fates = {
            entry.value: entry.fate
            for truth in self.truths.values()
            for entry in truth.entries
            if entry.value
        }
        for transaction, (committed, values) in self.ended.items():
            if transaction in self.ended_by_another:
                continue
            wanted = "committed" if committed else "aborted"
            for value in values:
                hold(
                    fates.get(value) == wanted, f"{transaction} was {wanted}, {value!r} is {fates.get(value)}"
                )
        together: dict[bytes, set[str | None]] = {}
        for value, fate in fates.items():
            if fate is not None:
                together.setdefault(value.rpartition(b"/")[0], set()).add(fate)
        for name, seen_fates in together.items():
            whole = len(seen_fates) == 1 or name.decode() in self.ended_by_another
            hold(whole, f"{name!r} is half committed")
            hold("open" not in seen_fates, f"{name!r} never ended")
