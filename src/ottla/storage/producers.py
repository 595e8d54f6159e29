"""What a log knows about its idempotent and transactional producers: sequences, epochs, open transactions.

`check` only looks; `apply` and `apply_marker` change the state, after the batch is written, and are the same
for a leader, a follower and for replay after a restart.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla import errors
from ottla.wire import kernel
from ottla.wire.batch import BatchHeader

BATCHES_REMEMBERED = 5  # as many as a producer may have in flight
NO_SEQUENCE = -1
NO_EPOCH = -1
BUMPING_VERSION = 2  # from this transaction version on, a marker has the epoch after its transaction's
_SEQUENCE_MAX = 2**31 - 1

_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = struct.Struct(">hI")
_SNAPSHOT_COUNT = struct.Struct(">i")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")


class BadSnapshot(errors.OttlaError):
    """The file is no producer snapshot, or was damaged."""


class AppendedBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # the marker's
    aborted: bool


@dataclass(slots=True)
class ProducerEntry:
    producer_id: int
    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    transaction_first_offset: int = -1  # -1: none is open
    seen_ms: int = field(default=-1, compare=False)  # by our clock; not kept across a restart
    batches: list[AppendedBatch] = field(default_factory=list)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1


class Producers:
    """Open transactions are ordered by their first offset, because they are opened in log order."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.open_transactions: dict[int, int] = {}  # producer id -> first offset
        self.now_ms = 0  # the log sets it before it applies anything
        self._unreplicated: list[
            CompletedTransaction
        ] = []  # complete, but the marker is above the high watermark

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """May a client append this? A batch that is already there is handed back; errors are raised."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return None  # nothing is known (any more), so any sequence is as good as another
        first = header.base_sequence
        if header.producer_epoch == entry.epoch:
            last = header.last_sequence
            for batch in entry.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
        self._check_epoch(entry, header.producer_epoch)
        self._check_sequence(entry, header)
        if entry.transaction_first_offset >= 0 and not header.is_transactional:
            raise errors.InvalidTxnState(
                f"Expected transactional write from producer {entry.producer_id} "
                f"with an open transaction at offset {entry.transaction_first_offset}"
            )
        return None

    def check_epoch(self, header: BatchHeader) -> None:
        """For a coordinator's own batch, which carries no sequence."""
        entry = self.entries.get(header.producer_id)
        if entry is not None:
            self._check_epoch(entry, header.producer_epoch)

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int = 0
    ) -> None:
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        self._check_epoch(entry, producer_epoch)
        is_open = entry.transaction_first_offset >= 0
        if transaction_version >= BUMPING_VERSION and is_open and producer_epoch == entry.epoch:
            # Its transactions end with the next epoch. One that ends with this epoch ended the transaction
            # before: repeated while nothing is open it is harmless, but it must not end the one after.
            raise errors.InvalidProducerEpoch(
                f"Epoch of producer {producer_id} is {producer_epoch}, but the open transaction has it as well"
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise errors.TransactionCoordinatorFenced(
                f"Invalid coordinator epoch {coordinator_epoch} of producer {producer_id}, "
                f"{entry.coordinator_epoch} is current"
            )

    def apply(self, header: BatchHeader) -> None:
        """A data batch of a producer is in the log."""
        entry = self._entry(header.producer_id)
        if header.producer_epoch != entry.epoch:
            entry.batches.clear()
            entry.epoch = header.producer_epoch
        batches = entry.batches
        last_offset = header.base_offset + header.last_offset_delta
        batches.append(
            AppendedBatch(
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                last_offset,
                header.max_timestamp,
            )
        )
        if len(batches) > BATCHES_REMEMBERED:
            del batches[0]
        entry.last_timestamp = header.max_timestamp
        entry.seen_ms = self.now_ms
        if header.is_transactional and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = header.base_offset
            self.open_transactions[header.producer_id] = header.base_offset

    def apply_marker(
        self, header: BatchHeader, *, committed: bool, coordinator_epoch: int
    ) -> CompletedTransaction | None:
        """A marker is in the log; what it completed, if there was anything in the transaction."""
        entry = self._entry(header.producer_id)
        if header.producer_epoch != entry.epoch:
            entry.batches.clear()
            entry.epoch = header.producer_epoch
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        entry.seen_ms = self.now_ms
        first_offset, entry.transaction_first_offset = entry.transaction_first_offset, -1
        self.open_transactions.pop(header.producer_id, None)
        if first_offset < 0:
            return None
        completed = CompletedTransaction(header.producer_id, first_offset, header.base_offset, not committed)
        self._unreplicated.append(completed)
        return completed

    def reset(self) -> None:
        """A promoted mirror forgets its source's producers. Their transactions have ended before."""
        self.entries.clear()
        self.open_transactions.clear()

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """Where the next open transaction starts, seen from a marker: all before it is decided."""
        return next(iter(self.open_transactions.values()), completed.last_offset + 1)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or decided but not yet replicated."""
        first = next(iter(self.open_transactions.values()), None)
        for transaction in self._unreplicated:
            if first is None or transaction.first_offset < first:
                first = transaction.first_offset
        return first

    def on_high_watermark(self, high_watermark: int) -> None:
        if self._unreplicated:
            self._unreplicated = [
                transaction for transaction in self._unreplicated if transaction.last_offset >= high_watermark
            ]

    def on_log_start_offset(self, log_start_offset: int) -> None:
        self._unreplicated = [
            transaction for transaction in self._unreplicated if transaction.last_offset >= log_start_offset
        ]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that were silent for too long; never one with an open transaction.

        Not by their records' timestamps alone, as in Kafka: a producer of old records would be forgotten
        while it is at work, and its next retry would be appended twice.
        """
        expired = [
            entry.producer_id
            for entry in self.entries.values()
            if entry.transaction_first_offset < 0
            and now_ms - max(entry.last_timestamp, entry.seen_ms) >= expiration_ms
        ]
        for producer_id in expired:
            del self.entries[producer_id]

    def dump(self) -> bytes:
        """Kafka's snapshot: of each producer the last batch only."""
        entries = b"".join(_snapshot_entries(self.entries))
        body = _SNAPSHOT_COUNT.pack(len(self.entries)) + entries
        return _SNAPSHOT_HEADER.pack(_SNAPSHOT_VERSION, kernel.crc32c(body)) + body

    @classmethod
    def load(cls, data: bytes) -> "Producers":
        producers = cls()
        for fields in _read_snapshot(data):
            producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator, first = (
                fields
            )
            entry = ProducerEntry(producer_id, epoch, coordinator, timestamp, first)
            if last_offset >= 0:
                first_sequence = _earlier_sequence(last_sequence, offset_delta)
                first_offset = last_offset - offset_delta
                entry.batches.append(
                    AppendedBatch(first_sequence, last_sequence, first_offset, last_offset, timestamp)
                )
            producers.entries[producer_id] = entry
        open_ones = [entry for entry in producers.entries.values() if entry.transaction_first_offset >= 0]
        for entry in sorted(open_ones, key=lambda entry: entry.transaction_first_offset):
            producers.open_transactions[entry.producer_id] = entry.transaction_first_offset
        return producers

    def _entry(self, producer_id: int) -> ProducerEntry:
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        return entry

    def _check_epoch(self, entry: ProducerEntry, producer_epoch: int) -> None:
        if producer_epoch < entry.epoch:
            raise errors.InvalidProducerEpoch(
                f"Epoch of producer {entry.producer_id} is {producer_epoch}, "
                f"which is smaller than the last seen epoch {entry.epoch}"
            )

    def _check_sequence(self, entry: ProducerEntry, header: BatchHeader) -> None:
        first, last = header.base_sequence, entry.last_sequence
        if header.producer_epoch != entry.epoch:
            if first != 0 and entry.epoch != NO_EPOCH:
                raise errors.OutOfOrderSequenceNumber(
                    f"Invalid sequence number for new epoch of producer {entry.producer_id}: "
                    f"{header.producer_epoch} (request epoch), {first} (seq. number), "
                    f"{entry.epoch} (current epoch)"
                )
        elif entry.epoch != NO_EPOCH and first != (0 if last == _SEQUENCE_MAX else last + 1):
            raise errors.OutOfOrderSequenceNumber(
                f"Out of order sequence number for producer {entry.producer_id}: "
                f"{first} (incoming seq. number), {last} (current end sequence number)"
            )


def _snapshot_entries(entries: dict[int, ProducerEntry]) -> Iterator[bytes]:
    for entry in entries.values():
        last = entry.batches[-1] if entry.batches else AppendedBatch(NO_SEQUENCE, NO_SEQUENCE, -1, -1, -1)
        yield _SNAPSHOT_ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            last.last_sequence,
            last.last_offset,
            last.last_offset - last.first_offset,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )


def _read_snapshot(data: bytes) -> Iterator[tuple[int, ...]]:
    if len(data) < _SNAPSHOT_HEADER.size + _SNAPSHOT_COUNT.size:
        raise BadSnapshot("it is too short")
    version, crc = _SNAPSHOT_HEADER.unpack_from(data)
    body = memoryview(data)[_SNAPSHOT_HEADER.size :]
    if version != _SNAPSHOT_VERSION:
        raise BadSnapshot(f"version {version} is unknown")
    if kernel.crc32c(body) != crc:
        raise BadSnapshot("its CRC does not match")
    (count,) = _SNAPSHOT_COUNT.unpack_from(body)
    entries = body[_SNAPSHOT_COUNT.size :]
    if count < 0 or len(entries) != count * _SNAPSHOT_ENTRY.size:
        raise BadSnapshot("its length does not fit its number of entries")
    return _SNAPSHOT_ENTRY.iter_unpack(entries)


def _earlier_sequence(sequence: int, by: int) -> int:
    if sequence < 0:  # a coordinator's batch has none
        return sequence
    return sequence - by if sequence >= by else _SEQUENCE_MAX - (by - sequence) + 1
