"""The partition behind a coordinator's shard, in memory."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.errors import KafkaStorageError
from ottla.wire.records import Record

Producer = tuple[int, int]  # id and epoch


@dataclass
class MemoryShardLog:
    """What survives a restart. What is appended is committed at once."""

    batches: list[tuple[list[Record], Producer | None]] = field(default_factory=list)
    markers: dict[int, tuple[int, int, bool]] = field(default_factory=dict)  # by offset
    end: int = 0
    broken: bool = False
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def append(self, records: list[Record], producer: Producer | None) -> int:
        if self.broken:
            raise KafkaStorageError
        placed = [record._replace(offset=self.end + i) for i, record in enumerate(records)]
        self.batches.append((placed, producer))
        self.end += len(placed)
        return self.end

    def committed(self) -> int:
        return self.end

    def when_committed(self, offset: int, wake: Callable[[], None]) -> None:
        self.waiting.append(wake)

    @property
    def records(self) -> list[Record]:
        return [record for records, _ in self.batches for record in records]

    def drop_last_record(self) -> None:
        records, producer = self.batches.pop()
        if records[:-1]:
            self.batches.append((records[:-1], producer))
        self.end -= 1
