"""Markers: which batch comes next, committed in the transactions that write the batches.

A marker is the metadata of a group offset. A replayed batch reads the marker and knows what is written already. The
offset itself is always 0, of a topic that stays empty, so that no tool takes the marker's group for a consumer that is
behind.
"""

import json
import re
from dataclasses import asdict, dataclass

from ottla import errors
from ottla.client.admin.topics import NewTopic, create
from ottla.client.core.cluster import Cluster
from ottla.client.core.offsets import LATEST, list_offsets
from ottla.client.errors import ClientError
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError

_OFFSET = 0
_SUFFIX = "-exactly-once-marker"
_GROUP = re.compile(rf".+-\d+{_SUFFIX}$")


class MarkerError(ClientError):
    """A marker does not fit what is to be written next, or cannot be kept."""


@dataclass(frozen=True, slots=True)
class Marker:
    """`tasks` is the number of transactions that share a batch."""

    next_batch: int
    query: str
    tasks: int = 1

    def metadata(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    def offsets(self, topic: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a transaction commits to leave this marker in an empty topic."""
        return {place_of(topic): OffsetAndMetadata(_OFFSET, self.metadata())}

    @classmethod
    def read(cls, metadata: str) -> "Marker":
        try:
            fields = json.loads(metadata)
            return cls(int(fields["next_batch"]), str(fields["query"]), int(fields["tasks"]))
        except (ValueError, KeyError, TypeError) as error:
            raise MarkerError(
                f"{metadata!r} is not a marker of ours: another program commits there"
            ) from error


def is_written(marker: Marker | None, query: str, batch: int) -> bool:
    """Whether a batch is committed already. A number counts only for the query that counted it."""
    return marker is not None and marker.query == query and marker.next_batch > batch


def place_of(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


def group_of(transactional_id: str) -> str:
    """The group that holds the marker of one of a batch's tasks."""
    return f"{transactional_id}{_SUFFIX}"


def is_marker(group: str) -> bool:
    """By its name alone: a list of groups has nothing else."""
    return _GROUP.match(group) is not None


async def ensure_marker_topic(cluster: Cluster, topic: str) -> None:
    """Creates the topic of markers if it does not exist; refuses one with records."""
    await cluster.retrying(lambda: cluster.refresh([topic]), "the markers' topic could not be looked up")
    if topic not in cluster.image.topics:
        await _create(cluster, topic)
    place = place_of(topic)
    if (await list_offsets(cluster, {place: LATEST}))[place].offset != _OFFSET:
        raise MarkerError(
            f"topic {topic} has records, so every marker would look like a consumer that is behind. "
            "Choose a topic that stays empty (the Spark sink's option markerTopic)"
        )


async def _create(cluster: Cluster, topic: str) -> None:
    try:
        await create(cluster, [NewTopic(topic, partitions=1)])
    except errors.TopicAlreadyExists:
        pass  # another process was quicker
    except OttlaError as error:
        raise MarkerError(
            f"topic {topic}, which the markers need, cannot be created: {error}. "
            "Create it with one partition, or choose a topic that stays empty (the Spark sink's option markerTopic)"
        ) from error
