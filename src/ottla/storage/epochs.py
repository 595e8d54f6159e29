"""Which leader epoch wrote from which offset on, in Kafka's checkpoint format."""

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from ottla.errors import OttlaError

_VERSION = 0
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class BadEpochs(OttlaError):
    """The checkpoint cannot be read."""


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    """Entries rise in both epoch and offset. `dirty` says that the checkpoint on disk is behind."""

    __slots__ = ("dirty", "entries", "latest")

    def __init__(self, entries: list[EpochStart] | None = None) -> None:
        self.entries = entries or []
        self.latest = self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH
        self.dirty = False

    def assign(self, epoch: int, start_offset: int) -> None:
        """This epoch writes from here on. Entries that contradict it are the ones that were wrong."""
        if epoch < 0 or epoch == self.latest:
            return
        entry = EpochStart(epoch, start_offset)
        kept = [entry for entry in self.entries if entry.epoch < epoch and entry.start_offset < start_offset]
        self._set([*kept, entry])

    def end_of(self, epoch: int, end_offset: int) -> EpochStart:
        """The largest epoch not above the asked one, and where it ends (a follower truncates to that)."""
        if epoch == UNDEFINED_EPOCH or not self.entries:
            return EpochStart(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.latest:
            return EpochStart(epoch, end_offset)
        if epoch > self.latest:
            return EpochStart(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        at = bisect_right(self.entries, epoch, key=_epoch)
        if at == 0:  # older than all we know: its end is our first entry's start
            return EpochStart(epoch, self.entries[0].start_offset)
        return EpochStart(self.entries[at - 1].epoch, self.entries[at].start_offset)

    def epoch_of(self, offset: int) -> int:
        at = bisect_right(self.entries, offset, key=_start)
        return self.entries[at - 1].epoch if at else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        if self.entries and self.entries[-1].start_offset >= end_offset:
            self._set([entry for entry in self.entries if entry.start_offset < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """The epoch in which the log now starts is kept, starting there."""
        at = bisect_right(self.entries, start_offset, key=_start)
        if at and self.entries[at - 1].start_offset != start_offset:
            self._set([EpochStart(self.entries[at - 1].epoch, start_offset), *self.entries[at:]])
        elif at > 1:
            self._set(self.entries[at - 1 :])

    def clear(self) -> None:
        if self.entries:
            self._set([])

    def dump(self) -> bytes:
        lines = [
            str(_VERSION),
            str(len(self.entries)),
            *(f"{epoch} {start}" for epoch, start in self.entries),
        ]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def load(cls, data: bytes) -> "LeaderEpochs":
        try:
            version, count, *lines, rest = data.decode("ascii").split("\n")
            entries = [EpochStart(*map(int, line.split(" "))) for line in lines]
            # Without its last newline the file is torn, and its last number may lack digits.
            if rest or int(version) != _VERSION or int(count) != len(entries):
                raise BadEpochs("the leader epoch checkpoint does not hold together")
        except (ValueError, TypeError) as error:
            raise BadEpochs(f"the leader epoch checkpoint cannot be read: {error}") from error
        for before, entry in pairwise(entries):
            if entry.epoch <= before.epoch or entry.start_offset <= before.start_offset:
                raise BadEpochs(f"the leader epoch checkpoint: {entry} does not come after {before}")
        return cls(entries)

    def _set(self, entries: list[EpochStart]) -> None:
        self.entries = entries
        self.latest = entries[-1].epoch if entries else UNDEFINED_EPOCH
        self.dirty = True


def _epoch(entry: EpochStart) -> int:
    return entry.epoch


def _start(entry: EpochStart) -> int:
    return entry.start_offset
