"""What one Fetch brought for one partition: whole batches as they came, records on demand. No I/O."""

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.client.values import TopicPartition
from ottla.errors import CorruptMessage
from ottla.ports import Buffer
from ottla.wire import batch as batches
from ottla.wire import records
from ottla.wire.batch import BatchHeader
from ottla.wire.records import Record


@dataclass(slots=True)
class Chunk:
    """Batches from `fetch_offset` on. Control batches never show, aborted ones only to read_uncommitted."""

    partition: TopicPartition
    data: Buffer
    fetch_offset: int
    high_watermark: int = -1
    log_start_offset: int = -1
    aborted: tuple[tuple[int, int], ...] = ()  # (first offset, producer id)
    read_committed: bool = False
    check_crcs: bool = True
    version: int = 0  # of the position it was fetched for: a seek makes it stale

    def end(self) -> tuple[int, int]:
        """Where the next fetch begins (behind the last whole batch), and that batch's leader epoch."""
        end, epoch = self.fetch_offset, -1
        for _, header in batches.headers(self.data):
            end, epoch = max(end, header.next_offset), header.leader_epoch
        return end, epoch

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Headers with the bytes of their whole batches. The first may begin before `fetch_offset`."""
        view = memoryview(self.data)
        for position, header in self._visible():
            if header.next_offset > self.fetch_offset:
                yield header, view[position : position + header.size]

    def payloads(self) -> Iterator[tuple[BatchHeader, bytes]]:
        """Headers with the records of their batches, decompressed and walked once for safety by who reads."""
        for position, header in self._visible():
            if header.next_offset <= self.fetch_offset:
                continue
            try:
                data = batches.payload(self.data, position, header, limit=records.DECOMPRESSED_BYTES_MAX)
                yield header, bytes(data)
            except CorruptMessage as error:
                raise self._corrupt(header, error) from error

    def records(self) -> Iterator[tuple[BatchHeader, Record]]:
        for position, header in self._visible():
            if header.next_offset <= self.fetch_offset:
                continue
            try:
                for record in records.iterate(self.data, position, header):
                    if record.offset >= self.fetch_offset:
                        yield header, record
            except CorruptMessage as error:
                raise self._corrupt(header, error) from error

    def _visible(self) -> Iterator[tuple[int, BatchHeader]]:
        waiting = sorted(self.aborted, reverse=True)
        open_aborted: set[int] = set()
        for position, header in batches.headers(self.data):
            if self.check_crcs:
                try:
                    batches.check(self.data, position)
                except CorruptMessage as error:
                    raise self._corrupt(header, error) from error
            if self.read_committed and header.is_transactional:
                while waiting and waiting[-1][0] <= header.last_offset:
                    open_aborted.add(waiting.pop()[1])
                if header.is_control:
                    # The marker ends the transaction: what the producer sends next is another one.
                    open_aborted.discard(header.producer_id)
                elif header.producer_id in open_aborted:
                    continue
            if not header.is_control:
                yield position, header

    def _corrupt(self, header: BatchHeader, error: CorruptMessage) -> CorruptMessage:
        return CorruptMessage(
            f"{self.partition}: the batch at offset {header.base_offset} is corrupt ({error.message}); "
            f"seek past {header.last_offset} to go on without it"
        )
