"""Fetches ranges of offsets and not a record more: the consumer's fetcher with an end for every partition."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla import errors
from ottla.client.cluster import ZERO_ID, Partition
from ottla.client.errors import ClientError
from ottla.client.fetcher import Fetcher, Place
from ottla.client.values import TopicPartition


class Range(NamedTuple):
    """The offsets [start, end) of a partition, in the life of its topic that `topic_id` names."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes = ZERO_ID

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class OutOfRange(ClientError):
    """A fetch began where the partition has no records, or none any more."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(f"{partition} has no offset {offset}")
        self.partition = partition
        self.offset = offset


class RangeFetcher(Fetcher):
    """Lives as long as its connections, so that fetch sessions outlive a read."""

    _ends: dict[TopicPartition, int]

    def begin(self, ranges: Iterable[Range]) -> None:
        """From now on these; what was read ahead for others is dropped."""
        wanted = {each.where: each for each in ranges}
        self._ends = {partition: each.end for partition, each in wanted.items()}
        self.assign(wanted)
        for partition, each in wanted.items():
            self.seek(partition, each.start)

    def _leader(self, partition: TopicPartition) -> Partition | None:
        offset = self.places[partition].offset
        if offset is not None and offset >= self._ends.get(partition, 0):
            return None  # nothing more is wanted of it
        return super()._leader(partition)

    def _on_error(self, partition: TopicPartition, place: Place, error: errors.ProtocolError) -> None:
        if isinstance(error, errors.OffsetOutOfRange) and place.offset is not None:
            self._fail(place, OutOfRange(partition, place.offset))
        else:
            super()._on_error(partition, place, error)
