"""What a columnar read is asked for."""

from typing import NamedTuple

from ottla.client.core.cluster import ZERO_ID
from ottla.client.values import TopicPartition


class Range(NamedTuple):
    """The offsets [start, end) of a partition. A topic that was re-created has another `topic_id`."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes = ZERO_ID

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)
