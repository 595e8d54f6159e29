"""What a fetcher has fetched and `poll` has not taken yet, and where it is in each partition."""

from collections import deque
from dataclasses import dataclass

from ottla.client.core.chunks import Chunk
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError
from ottla.frozen import frozen


@dataclass(slots=True)
class Place:
    """Where the fetcher is in one partition. `version` is new after every seek."""

    offset: int | None = None  # None: must be reset, by `reset_to`
    end: int | None = None  # nothing is fetched from here on
    epoch: int = -1  # of the last batch before the offset
    checked_epoch: int = -1  # the leader epoch under which the offset is known to be good
    reset_to: int | None = None
    paused: bool = False
    version: int = 0
    ahead: int = 0
    high_watermark: int = -1
    log_start_offset: int = -1
    read_replica: int = -1
    not_before: float = 0.0


@frozen
class Failure:
    """Raised by `poll` instead of records: for one partition, as long as its place is the same, or for all."""

    error: OttlaError
    partition: TopicPartition | None = None
    version: int = 0


class Fetched:
    """Chunks and failures in the order of their arrival. What a seek or a new assignment has made stale is dropped."""

    def __init__(self, places: dict[TopicPartition, Place]) -> None:
        self._places = places
        self._items: deque[Chunk | Failure] = deque()
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, item: Chunk | Failure) -> None:
        self._items.append(item)
        if isinstance(item, Chunk):
            self._places[item.partition].ahead += 1
            self.size_bytes += len(item.data)

    def take(self) -> list[Chunk]:
        """All chunks up to the first failure; raises that failure if nothing is before it. Chunks of paused
        partitions stay."""
        taken: list[Chunk] = []
        kept: list[Chunk | Failure] = []
        self.drop_stale()
        while self._items:
            item = self._items.popleft()
            if isinstance(item, Failure):
                if taken:
                    kept.append(item)
                    break
                self._items.extendleft(reversed(kept))
                raise item.error
            place = self._places[item.partition]
            if place.paused:
                kept.append(item)
            else:
                place.ahead -= 1
                self.size_bytes -= len(item.data)
                taken.append(item)
        self._items.extendleft(reversed(kept))
        return taken

    @property
    def has_failure(self) -> bool:
        return any(isinstance(item, Failure) for item in self._items)

    def first_offset(self, partition: TopicPartition) -> int | None:
        """Where the next chunk of the partition begins; None if there is none."""
        for item in self._items:
            if isinstance(item, Chunk) and item.partition == partition and not self._is_stale(item):
                return item.fetch_offset
        return None

    def drop_stale(self) -> None:
        kept: deque[Chunk | Failure] = deque()
        for item in self._items:
            if not self._is_stale(item):
                kept.append(item)
            elif isinstance(item, Chunk):
                self.size_bytes -= len(item.data)
        self._items = kept

    def _is_stale(self, item: Chunk | Failure) -> bool:
        if item.partition is None:
            return False
        place = self._places.get(item.partition)
        return place is None or place.version != item.version
